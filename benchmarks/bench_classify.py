"""Compare classifiers of Regard with logistic regression on words and pairs of words, on IMDb.

python benchmarks/bench_classify.py                                    the two baselines
python benchmarks/bench_classify.py --model runs/imdb --model OTHER    trained classifiers in the same table

The data is IMDb, from REGARD_DATA or ../shared/data. All models are trained on the same reviews, which are those that
`regard train classify` with default settings does not hold out for validation. The strength of the regularisation of
the baselines is chosen on the held-out reviews, and the test set is used once for each row. The baselines need
scikit-learn (pip install scikit-learn); without it they are left out.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from regard import tasks
from regard.tasks.classify import ClassificationSettings
from regard.tasks.pairs import PairSource
from regard.tasks.text_encoder import without_line_breaks
from regard.text import deduplicate, read_pairs

DATA = Path(os.environ.get("REGARD_DATA", Path(__file__).parents[2] / "shared" / "data")) / "imdb"
COLUMNS = (3, 0)  # text and label
FIELDS = (("text", "label"),)  # labels may be numbers
STRENGTHS = (1.0, 4.0, 16.0)  # of the inverse regularisation, from which validation chooses

Rows = list[tuple[str, str]]


class Line(NamedTuple):
    """One row of the table."""

    model: str
    parameters: int
    minutes: str
    valid: str
    test: float


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", action="append", default=[], help="folder of a trained classifier")
    models = parser.parse_args().model
    if not (DATA / "train.tsv.gz").is_file():
        sys.exit(f"the reviews are not in {DATA}: set REGARD_DATA to the folder that holds imdb")
    lines = [*_baselines(), *(_regard(model) for model in models)]
    if not lines:
        return
    print("| model | parameters | minutes of training | validation | test |")
    print("|---|---|---|---|---|")
    for line in lines:
        print(f"| {line.model} | {line.parameters:,} | {line.minutes} | {line.valid} | {line.test:.2f} % |")


def split() -> tuple[Rows, Rows]:
    """Return the reviews that `regard train classify` trains on by default, and those that it validates on."""
    settings = ClassificationSettings(data=str(DATA / "train.tsv.gz"), columns="3,0")
    source = PairSource(settings, settings.hold_out_most, reading={"fields": FIELDS, "max_words": None})
    return list(deduplicate(source.training())), source.validation()


def _baselines() -> list[Line]:
    try:
        version = importlib.import_module("sklearn").__version__
    except ImportError:
        print("the baselines need scikit-learn: pip install scikit-learn", file=sys.stderr)
        return []
    print(f"scikit-learn {version}", file=sys.stderr)
    train, valid = split()
    test = list(read_pairs(DATA / "test.tsv.gz", columns=COLUMNS, fields=FIELDS, max_words=None))
    print(
        f"{len(train):,} reviews to train on, {len(valid):,} to validate, {len(test):,} to test",
        file=sys.stderr,
    )
    return [
        _baseline("logistic regression, words", 1, train, valid, test),
        _baseline("logistic regression, words and pairs of words", 2, train, valid, test),
    ]


def _baseline(name: str, longest: int, train: Rows, valid: Rows, test: Rows) -> Line:
    vectorizer: Any = importlib.import_module("sklearn.feature_extraction.text").TfidfVectorizer
    regression: Any = importlib.import_module("sklearn.linear_model").LogisticRegression
    began = time.perf_counter()
    words = vectorizer(ngram_range=(1, longest), min_df=2, sublinear_tf=True, token_pattern=r"\w+|[^\w\s]")
    features: Any = words.fit_transform([without_line_breaks(text) for text, _ in train])
    labels = [label for _, label in train]
    best: tuple[float, Any] = (-1.0, None)
    for strength in STRENGTHS:
        model = regression(C=strength, max_iter=300).fit(features, labels)
        best = max(best, (_accuracy(words, model, valid), model), key=lambda pair: pair[0])
    minutes = (time.perf_counter() - began) / 60
    accuracy, model = best
    return Line(name, model.coef_.size, f"{minutes:.1f}", f"{accuracy:.2f} %", _accuracy(words, model, test))


def _accuracy(words: Any, model: Any, rows: Rows) -> float:
    features = words.transform([without_line_breaks(text) for text, _ in rows])
    return 100 * model.score(features, [label for _, label in rows])


def _regard(folder: str) -> Line:
    classifier = tasks.load(folder, task="classify")
    results = classifier.extra.get("results", {})
    report = tasks.evaluate("classify", classifier, {"data": str(DATA / "test.tsv.gz"), "columns": "3,0"})
    count = sum(parameter.numel() for parameter in classifier.model.parameters())
    valid = f"{results['accuracy']:.2f} %" if "accuracy" in results else ""
    return Line(f"regard {Path(folder).name}", count, "", valid, report.to_json()["accuracy"])


if __name__ == "__main__":
    main()
