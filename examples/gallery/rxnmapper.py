"""RXNMapper reads a reaction: REGARD_RXNMAPPER=FOLDER python examples/gallery/rxnmapper.py"""

import re

import torch
from page import named_file, write_page
from transformers import AlbertModel

from regard import capture

REACTION = "CC(=O)O.OCC>>CC(=O)OCC"  # acetic acid and ethanol give ethyl acetate
ENGLISH = """
Nobody told the model where atoms go, as it only learned to fill in masked atoms. Open head 5 of layer 3: after >>, six
of the seven atoms before it look most at an atom of the same kind and order, in lines beside the diagonal, which is
close to an atom mapping. Find the oxygen at place 19 in several layers: in layer 2 the oxygen of the ethanol looks at
it, as chemistry has it, and in later layers that of the acid.
"""
CHINESE = """
这个模型只学过填补被遮住的原子，没有人告诉它原子去了哪里。
打开第 3 层第 5 个头：前面七个原子中有六个，在 >> 之后最看重种类和次序相同的原子，连成斜线，接近原子映射。
在几个层里找位置 19 的氧：第 2 层是乙醇的氧在看它，与化学事实相符；后面的层则是酸的氧在看它。
"""

folder = named_file("REGARD_RXNMAPPER", "the folder of the model in the wheel of rxnmapper")
model = AlbertModel.from_pretrained(folder, local_files_only=True).eval()
known = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
tokens = ["[CLS]", *re.findall(r"\[[^]]+]|Br|Cl|>>|.", REACTION), "[SEP]"]
with torch.no_grad(), capture(model, tokens=tokens) as seen:
    model(torch.tensor([[known.index(token) for token in tokens]]))
write_page("rxnmapper", "RXNMapper reads a reaction", ENGLISH, CHINESE, {REACTION: seen})
