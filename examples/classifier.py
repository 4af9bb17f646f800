"""Train a classifier that tells questions from statements, built from the parts of the library.

Run it with ``python examples/classifier.py``. The sentences are generated, and their final mark is removed. The program
prints the loss, the accuracy on other sentences, and the words that the pooling attends to most.
"""

import torch

from regard.corpus import generate
from regard.models import TextClassifier, TextClassifierConfig
from regard.text import BucketedBatches, ClassLabels, LabelledData, train_vocabulary


def labelled(split, count):
    texts = [triple.english.text for triple in generate(count, split=split)]
    return [(text[:-1], "question" if text.endswith("?") else "statement") for text in texts]


rows, others = labelled("train", 3000), labelled("test", 1000)
vocabulary, labels = train_vocabulary("word", [text for text, _ in rows], size=2000), ClassLabels.of(rows)
train = LabelledData.in_memory(rows, vocabulary, labels)
test = LabelledData.in_memory(others, vocabulary, labels, deduplicate=False)

torch.manual_seed(0)
config = TextClassifierConfig(
    vocabulary_size=len(vocabulary), classes=len(labels), width=32, layers=1, pooling="additive"
)
model = TextClassifier(config)
optimizer, loss = torch.optim.AdamW(model.parameters(), lr=3e-3), torch.zeros(())
for epoch in range(3):
    for indices in BucketedBatches(train, tokens=500).plan(epoch):
        batch = train.batch(indices)
        loss = torch.nn.functional.cross_entropy(model(batch.tokens, batch.lengths), batch.labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch + 1}: loss {loss.item():.3f}")

records = []
batch = test.batch(range(len(test)))
with torch.no_grad():
    predicted = model.eval()(batch.tokens, batch.lengths, records=records).argmax(dim=1)
print(f"accuracy on {len(test)} other sentences: {(predicted == batch.labels).float().mean():.3f}")
first = batch.labels.tolist().index(labels.index("question"))
weights = records[-1].map[first, 0, 0, : int(batch.lengths[first])]  # those of the pooling
best = vocabulary.decode([int(batch.tokens[first, weights.argmax()])])
print(f"{others[first][0]}: {weights.max():.2f} of the attention is on {best!r}")
