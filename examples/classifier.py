"""Train a classifier that tells questions from statements, built from the parts of the library.

Run it with ``python examples/classifier.py``. The sentences are generated, and their final mark is removed. The program
prints the loss, the accuracy on other sentences, and the words that the pooling attends to most.
"""

import torch

from regard.corpus import generate
from regard.models import TextClassifier, TextClassifierConfig
from regard.text import pad_sequences, train_vocabulary

sentences = [triple.english.text for triple in generate(4000, seed=0)]
texts = [sentence[:-1] for sentence in sentences]
labels = torch.tensor([sentence.endswith("?") for sentence in sentences]).long()
train, test = range(3000), range(3000, 4000)

vocabulary = train_vocabulary("word", [texts[i] for i in train], size=2000)
encoded = vocabulary.encode_batch(texts)
torch.manual_seed(0)
config = TextClassifierConfig(
    vocabulary_size=len(vocabulary), classes=2, width=32, layers=1, pooling="additive"
)
model = TextClassifier(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(1, 121):
    batch = torch.randint(len(train), (32,)).tolist()
    tokens, lengths = pad_sequences([encoded[i] for i in batch])
    loss = torch.nn.functional.cross_entropy(model(tokens, lengths), labels[batch])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 40 == 0:
        print(f"step {step}: loss {loss.item():.3f}")

records = []
tokens, lengths = pad_sequences([encoded[i] for i in test])
with torch.no_grad():
    predicted = model.eval()(tokens, lengths, records=records).argmax(dim=1)
print(f"accuracy on {len(test)} other sentences: {(predicted == labels[test.start :]).float().mean():.3f}")
first = int(labels[test.start :].argmax())  # a question
weights = records[-1].map[first, 0, 0, : int(lengths[first])]  # those of the pooling
best = vocabulary.decode([int(tokens[first, weights.argmax()])])
print(f"{texts[test.start + first]}: {weights.max():.2f} of the attention is on {best!r}")
