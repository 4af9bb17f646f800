"""See what a Hugging Face model attends to: MiniLM if it is installed, or the folder of a model.

python examples/capture_huggingface.py [FOLDER]     writes attention.html
"""

import sys
from typing import Any

import torch
from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel

import regard
from regard.tasks.minilm import installed_minilm

text = "The animal didn't cross the street because it was too tired."
folder = sys.argv[1] if len(sys.argv) > 1 else installed_minilm()
labels: dict[str, Any]
if folder:
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model = AutoModel.from_pretrained(folder, local_files_only=True).eval()
    inputs, labels = tokenizer(text, return_tensors="pt"), {"tokenizer": tokenizer}
else:
    print("no model found: a BERT with random weights is captured")
    config = BertConfig(vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4)
    model, words = BertModel(config).eval(), text.split()
    inputs, labels = {"input_ids": torch.arange(len(words))[None]}, {"tokens": words}

with torch.no_grad(), regard.capture(model, **labels) as seen:
    model(**inputs)
print(f"{len(seen)} layers, {seen[0].map.shape[1]} heads each, output unchanged: ", end="")
print(seen.verify(**inputs).bit_equal)
record = seen[-1]
weights = record.map.weights()[0].mean(dim=0)  # (q,k), the mean of the heads of the last layer
(tokens,) = record.query_tokens or [[]]
for word, row in zip(tokens, weights, strict=True):
    print(f"{word:>12} attends most to {tokens[int(row.argmax())]}")
seen.save_html("attention.html", title=text)
print("attention.html has all layers and heads")
