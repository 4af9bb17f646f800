"""Train a translator on a TSV file (source TAB target) and translate with it.

python examples/translate_tsv.py pairs.tsv      without a file, a small one is made of the embedded corpus
"""

import sys

from regard import corpus, tasks

path, run = (sys.argv[1], "my-translator") if len(sys.argv) > 1 else ("pairs.tsv", "pairs-run")
settings = {"data": path, "source_language": "en", "target_language": "fr", "epochs": 10}
if len(sys.argv) == 1:
    with open(path, "w", encoding="utf-8") as file:
        for one in corpus.generate(400):
            file.write(f"{one.english.text}\t{one.french.text}\n")
    # A small model for a few steps, which shows the way and translates badly.
    small = {"width": 32, "heads": 2, "feed_forward": 64, "encoder_layers": 1, "decoder_layers": 1}
    settings |= small | {"epochs": None, "steps": 20, "vocabulary": "word", "validate_sentences": 5}

# A share of the rows is held out. Interrupted with Ctrl-C, the run goes on with tasks.resume(run).
outcome = tasks.train("translate", settings, run, show=len(sys.argv) > 1)
translator = tasks.load(run)
(translation,) = translator(["The cat sleeps."])
print(f"after {outcome.step} steps: The cat sleeps. -> {translation.text}")
for words in translator.word_weights(translation):
    best = [words.column_words[row.argmax()] for row in words.weights]
    print("looked at:", ", ".join(map("{} <- {}".format, words.row_words, best)))
report = tasks.evaluate("translate", run, {"data": path, "limit": 20, "beams": 1})
print(f"BLEU on 20 of these rows, which it has seen: {report.to_json()['bleu']['score']:.1f}")
