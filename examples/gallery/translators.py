"""The shipped translators on one sentence: python examples/gallery/translators.py"""

from page import write_page

from regard.tasks import find_model, load

TEXT = "The woman bought a red car yesterday."
ENGLISH = """
In the cross-attention of the last layer, nearly every row has one cell with most of the weight, which is the word that
is being translated. Where the order changes, the bright cells leave the diagonal: French writes the colour after the
car, and Chinese writes yesterday before the verb, where two heads look at "yesterday" and two at "bought". A word
without a word of its own in the source, such as the measure word 辆, looks at a neighbour.
"""
CHINESE = """
在最后一层的交叉注意力里，几乎每一行都有一个格子占了大部分权重，那就是正在翻译的词。
语序变化的地方，亮格会离开对角线：法语把颜色写在车的后面，中文把“昨天”写在动词前面，
那里有两个头看 yesterday，另外两个头看 bought。
原文里没有对应的词，例如量词“辆”，就看旁边的词。
"""

views = {}
for target in ("fr", "zh"):
    translator = load(find_model("translate", languages=("en", target)))
    (translation,) = translator([TEXT])
    views[translation.text] = translator.attention(translation)
write_page("translators", "Two translators, one sentence", ENGLISH, CHINESE, views)
