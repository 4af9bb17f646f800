"""A caption word by word: python examples/gallery/caption.py"""

from page import example_picture, installed, write_page

ENGLISH = """
The picture has three objects, and each row is a word of the caption over the cells of the picture. Step through the
rows with the arrow keys: does the weight lie on an object when its name is written? Compare these rows with those of
words such as "to" and "their", which name nothing in the picture.
"""
CHINESE = """
图片里有三个物体，每一行是描述中的一个词在图片各个格子上的权重。
用方向键逐行查看：写到物体的名字时，权重是不是落在那个物体上。
再与 "to"、"their" 这样的词比较，它们在图片里没有对应的东西。
"""

captioner = installed("caption")
(caption,) = captioner([example_picture("caption", "scene-2.png")])
views = {caption.text: captioner.attention(caption)}
write_page("caption", "A caption word by word", ENGLISH, CHINESE, views, captioner.pictures(caption))
