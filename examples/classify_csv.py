"""Train a classifier on a CSV file with the columns text and label, and see which words counted.

python examples/classify_csv.py reviews.csv      without a file, sentences of the embedded corpus are used
"""

import csv
import sys

from regard import corpus, tasks

path, run = (sys.argv[1], "my-classifier") if len(sys.argv) > 1 else ("sentences.csv", "csv-run")
settings = {"data": path}
if len(sys.argv) == 1:
    with open(path, "w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["text", "label"])
        for one in corpus.generate(600):
            text = one.english.text
            rows.writerow([text, "negated" if "not" in text.lower() or "n't" in text else "plain"])
    settings |= {"steps": 60, "vocabulary": "word", "width": 32, "learning_rate": 0.01, "warmup": 5}

tasks.train("classify", settings, run, show=len(sys.argv) > 1)  # a share of the rows is held out
classifier = tasks.load(run)
for found in classifier(["The cat sleeps on the sofa.", "The cat does not sleep on the sofa."]):
    (words,) = classifier.word_weights(found)
    weights = words.weights.mean(axis=0)  # (words,), the mean of the heads
    strongest = words.column_words[weights.argmax()]
    print(f"{found.label} ({found.sure:.2f}), largest weight on '{strongest}': {found.source}")
