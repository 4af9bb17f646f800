"""The report of classifiers of pictures, with accuracy, macro F1, confusion and calibration."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from regard.errors import ArgumentError, renamed
from regard.images import ImageSet, read_digits, read_image_set
from regard.metrics import calibration_error, confusion, macro_f1
from regard.tasks.classify.evaluation import ClassificationReport
from regard.tasks.images.classifier import ImageClassifier
from regard.tasks.images.data import SETTINGS_OF_READER
from regard.tasks.images.settings import ImageEvaluationSettings
from regard.tasks.measuring import check_out, write_predictions
from regard.tasks.pairs import parsed_columns
from regard.text import Skipped

__all__ = ["ImageReport", "ImageScores", "evaluate_classifiers"]


@dataclass(frozen=True)
class ImageScores:
    """The scores of one classifier, in percent."""

    pictures: int
    accuracy: float
    macro_f1: float
    confusion: list[list[int]]
    calibration_error: float
    mean_probability: float  # of the predicted classes
    seconds: float
    labels: list[str] = field(repr=False)  # of each picture

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as a JSON object."""
        names = ("pictures", "accuracy", "macro_f1", "confusion", "calibration_error", "mean_probability")
        return {name: getattr(self, name) for name in (*names, "seconds")}


@dataclass(frozen=True)
class ImageReport(ClassificationReport):
    """The scores of one classifier of pictures, or of several on the same pictures."""

    scores: dict[str, Any]  # of ImageScores


def evaluate_classifiers(
    classifiers: Mapping[str, ImageClassifier], options: ImageEvaluationSettings
) -> ImageReport:
    """Measure classifiers by name on the same pictures."""
    check_out(options)
    (first_name, first), *others = classifiers.items()
    for name, other in others:
        if other.labels.names != first.labels.names:
            raise ArgumentError("compare", f"{name} has other classes than {first_name}")
    skipped = Skipped()
    pictures = _pictures(first, options, skipped)
    if skipped.total and options.out is not None:
        problem = f"its lines would not be those of the data, of which cannot be measured: {skipped}"
        raise ArgumentError("out", problem, "take these pictures out of the data first")
    where = options.data or "the 8×8 digits for tests"
    scores: dict[str, Any] = {name: _scores(one, pictures) for name, one in classifiers.items()}
    write_predictions(options, scores[first_name].labels)
    notes = [f"not measured: {skipped}"] if skipped.total else []
    told = f"{len(pictures):,} pictures of {where}"
    return ImageReport(told, first.labels.names, scores, notes)


def _pictures(classifier: ImageClassifier, options: ImageEvaluationSettings, skipped: Skipped) -> ImageSet:
    """Read the pictures in the size of the model."""
    names = classifier.labels.names
    if options.data is None:
        found = read_digits("test")
        if list(found.classes) != names:
            problem = "not given, and the embedded digits have other classes than the model"
            raise ArgumentError("data", problem, "name labelled pictures to measure on")
        source, labels = found.images, found.labels
    else:
        source, labels = options.data, options.labels_file
    with renamed(**SETTINGS_OF_READER):
        read = read_image_set(
            source,
            labels,
            split=options.split or "test",
            classes=names,
            size=classifier.size,
            channels=classifier.channels,
            columns=parsed_columns(options.columns),
            skip_bad_rows=options.skip_bad_rows,
            skipped=skipped,
        )
    if not options.limit or options.limit >= len(read):
        return read
    rng = np.random.default_rng(options.seed or 0)
    return read.select(np.sort(rng.choice(len(read), options.limit, replace=False)))


def _scores(classifier: ImageClassifier, pictures: ImageSet) -> ImageScores:
    began = time.perf_counter()
    shares = classifier.shares(pictures.images).numpy()  # (n,classes)
    seconds = time.perf_counter() - began
    predicted, expected = shares.argmax(axis=1), pictures.labels  # (n,), (n,)
    sure, right = shares.max(axis=1).tolist(), (predicted == expected).tolist()
    names = classifier.labels.names
    counts = confusion(expected.tolist(), predicted.tolist(), len(names))
    return ImageScores(
        pictures=len(pictures),
        accuracy=100 * sum(right) / len(right),
        macro_f1=100 * macro_f1(counts),
        confusion=counts,
        calibration_error=100 * calibration_error(sure, right),
        mean_probability=100 * sum(sure) / len(sure),
        seconds=seconds,
        labels=[names[place] for place in predicted.tolist()],
    )
