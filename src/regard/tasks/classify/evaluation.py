"""The report of classifiers, with accuracy, macro F1, confusion and calibration."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from regard.errors import ArgumentError
from regard.metrics import calibration_error, confusion, macro_f1
from regard.tasks.classify.classifier import Classifier
from regard.tasks.classify.data import embedded_rows
from regard.tasks.classify.settings import ClassificationEvaluationSettings
from regard.tasks.measuring import check_out, rows_to_measure, scores_as_json, write_predictions
from regard.text import LABEL_FIELDS, Skipped

__all__ = ["ClassificationReport", "ClassificationScores", "evaluate_classifiers"]

# Sentences of the embedded corpus that are measured on, if no limit is given.
EMBEDDED_TEST = 1000


@dataclass(frozen=True)
class ClassificationScores:
    """The scores of one classifier, in percent."""

    texts: int
    accuracy: float
    macro_f1: float
    confusion: list[list[int]]
    calibration_error: float
    mean_probability: float  # of the predicted labels
    seconds: float
    cut_off: int  # texts that were not read to their end
    labels: list[str] = field(repr=False)  # of each text

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as a JSON object."""
        names = ("texts", "accuracy", "macro_f1", "confusion", "calibration_error", "mean_probability")
        names += ("seconds", "cut_off")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class ClassificationReport:
    """The scores of one classifier, or of several on the same texts."""

    measured_on: str
    classes: list[str]
    scores: dict[str, ClassificationScores]
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the numbers of the first model, with those of the others under ``compared``."""
        return {"measured_on": self.measured_on, "classes": self.classes, **scores_as_json(self.scores)}

    def __str__(self) -> str:
        lines = [f"measured on {self.measured_on}"]
        wide = max(8, *(len(name) for name in self.classes)) + 2
        for name, one in self.scores.items():
            lines += [f"{name}:"] if len(self.scores) > 1 else []
            lines += [f"accuracy {one.accuracy:6.2f} %", f"macro F1 {one.macro_f1:6.2f} %"]
            lines.append(
                f"calibration error {one.calibration_error:.2f} %: sure {one.mean_probability:.2f} % on average"
            )
            lines.append("confusion (rows: expected, columns: predicted):")
            lines.append(" " * wide + "".join(f"{label:>{wide}}" for label in self.classes))
            for label, row in zip(self.classes, one.confusion, strict=True):
                lines.append(f"{label:>{wide}}" + "".join(f"{count:>{wide}}" for count in row))
        return "\n".join(lines)


def evaluate_classifiers(
    classifiers: Mapping[str, Classifier], options: ClassificationEvaluationSettings
) -> ClassificationReport:
    """Measure classifiers by name on the same texts."""
    check_out(options)
    (first_name, first), *others = classifiers.items()
    for name, other in others:
        if other.labels.names != first.labels.names:
            raise ArgumentError("compare", f"{name} has other classes than {first_name}")
    skipped = Skipped()
    rows, where = _rows(first, options, skipped)
    scores = {name: _scores(one, rows) for name, one in classifiers.items()}
    write_predictions(options, scores[first_name].labels)
    notes = [f"not measured: {skipped}"] if skipped.total else []
    for name, one in scores.items():
        if one.cut_off:
            longest, cut = classifiers[name].encoder.most, classifiers[name].encoder.cut
            notes.append(
                f"{name}: {one.cut_off:,} texts have more than {longest} tokens: their {cut} was cut off"
            )
    return ClassificationReport(where, first.labels.names, scores, notes)


def _rows(
    classifier: Classifier, options: ClassificationEvaluationSettings, skipped: Skipped
) -> tuple[list[tuple[str, str]], str]:
    where = options.data or "the test part of the embedded corpus"
    kinds = {"command", "denial", "question", "statement"}
    if options.data is None and set(classifier.labels.names) != kinds:
        problem = "not given, and the embedded corpus has other classes than the model"
        raise ArgumentError("data", problem, "name labelled texts to measure on")

    def embedded() -> Iterable[tuple[str, str]]:
        language = classifier.extra.get("language", "en")
        return embedded_rows(language, 0, "test", max(options.limit, EMBEDDED_TEST))

    known = classifier.labels
    checked = {"fields": LABEL_FIELDS, "check": known.problem_of, "labels": {*known.names, *known.aliases}}
    rows = rows_to_measure(options, skipped, embedded=embedded, **checked)
    return rows, f"{len(rows):,} texts of {where}"


def _scores(classifier: Classifier, rows: list[tuple[str, str]]) -> ClassificationScores:
    if not rows:
        raise ArgumentError("data", "there is nothing to measure on")
    labels = classifier.labels
    began = time.perf_counter()
    found = classifier.classify([text for text, _ in rows])
    seconds = time.perf_counter() - began
    expected = [labels.index(label) for _, label in rows]
    predicted = [labels.index(one.label) for one in found]
    counts = confusion(expected, predicted, len(labels))
    right = [one == other for one, other in zip(expected, predicted, strict=True)]
    sure = [one.sure for one in found]
    return ClassificationScores(
        texts=len(rows),
        accuracy=100 * sum(right) / len(rows),
        macro_f1=100 * macro_f1(counts),
        confusion=counts,
        calibration_error=100 * calibration_error(sure, right),
        mean_probability=100 * sum(sure) / len(sure),
        seconds=seconds,
        cut_off=sum(one.cut_off for one in found),
        labels=[one.label for one in found],
    )
