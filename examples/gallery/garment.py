"""A Vision Transformer reads a garment: python examples/gallery/garment.py"""

from page import example_picture, installed, write_page

ENGLISH = """
The first viewer has the query that is classified, over 49 patches of a boot: heads 0 and 3 give a patch of the boot
nearly twice the weight of a patch of the background, and head 2 does the opposite. No weight is above 5 %, so the query
is close to a mean of all patches. In the second viewer each row is a patch: in head 3 of layer 3, all rows look at one
patch of the sole, and in head 3 of layer 0, fourteen rows look at one patch of the empty background.
"""
CHINESE = """
第一个视图是用来分类的查询，面对靴子图片的 49 个小块：
头 0 和头 3 给靴子的小块将近两倍于背景小块的权重，头 2 正好相反。
没有一个权重超过 5 %，所以查询接近所有小块的平均。
在第二个视图里，每一行是一个小块：
第 3 层第 3 个头的所有行都看鞋底的同一个小块，第 0 层第 3 个头有十四行看空白背景上的同一个小块。
"""

classifier = installed("images")
(found,) = classifier([example_picture("images", "ankle-boot.png")])
seen = classifier.attention(found)
answer = f"{found.label}: {found.sure:.0%}"
views = {f"{answer}, the query": seen.by(kind="cross"), f"{answer}, the patches": seen.by(kind="self")}
pictures = classifier.pictures(found)
write_page("garment", "A Vision Transformer reads a garment", ENGLISH, CHINESE, views, pictures)
