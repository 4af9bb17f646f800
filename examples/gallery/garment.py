"""A Vision Transformer reads a garment: python examples/gallery/garment.py"""

from page import example_picture, installed, write_page

ENGLISH = """
The picture of a boot is cut into patches, and each row is a patch or the query that is classified. Compare the outline
with the plain leather: does the query look at the heel, the toe and the opening of the boot? Look also for weight on
the empty background, where there is nothing to see.
"""
CHINESE = """
一张靴子的图片被切成小块，每一行是一个小块，或者是用来分类的查询。
比较轮廓和平整的皮面：查询有没有看鞋跟、鞋尖和靴口。
再看看空白的背景上有没有权重，那里什么都没有。
"""

classifier = installed("images")
(found,) = classifier([example_picture("images", "ankle-boot.png")])
views = {f"{found.label}: {found.sure:.0%}": classifier.attention(found)}
write_page(
    "garment", "A Vision Transformer reads a garment", ENGLISH, CHINESE, views, classifier.pictures(found)
)
