"""Measuring classifiers that read pictures in glimpses, and their report."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from regard.errors import ArgumentError, option, renamed
from regard.images import ImageSet, read_digits, read_image_set
from regard.images.reading import by_width, in_pixels
from regard.tasks.glimpse.canvas import Canvas
from regard.tasks.glimpse.classifier import GlimpseClassifier
from regard.tasks.glimpse.data import batches_of
from regard.tasks.glimpse.settings import GlimpseEvaluationSettings
from regard.tasks.images.data import SETTINGS_OF_READER
from regard.tasks.measuring import check_out, scores_as_json, write_predictions
from regard.tasks.pairs import parsed_columns
from regard.text import Skipped
from regard.training.batch_progress import with_progress

__all__ = ["GlimpseReport", "GlimpseScores", "evaluate_classifiers", "measure"]

BATCH = 256  # pictures that are composed and measured together


@dataclass(frozen=True)
class GlimpseScores:
    """The accuracy of one classifier in percent, after all glimpses and after each of them."""

    pictures: int
    accuracy: float
    by_glimpse: list[float]
    samples: int
    parameters: int
    seconds: float
    labels: list[str] = field(repr=False, default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as a JSON object."""
        names = ("pictures", "accuracy", "by_glimpse", "samples", "parameters", "seconds")
        return {name: getattr(self, name) for name in names} | {"error": 100 - self.accuracy}


@dataclass(frozen=True)
class GlimpseReport:
    """The scores of one classifier, or of several on the same pictures."""

    measured_on: str
    scores: dict[str, GlimpseScores]
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the numbers of the first model, with those of the others under ``compared``."""
        return {"measured_on": self.measured_on, **scores_as_json(self.scores)}

    def __str__(self) -> str:
        wide = max(len(name) for name in (*self.scores, "model"))
        lines = [f"measured on {self.measured_on}"]
        lines.append(f"{'model':{wide}}{'parameters':>12}{'accuracy':>11}{'error':>9}  after each glimpse")
        for name, one in self.scores.items():
            steps = " ".join(f"{value:.2f}" for value in one.by_glimpse) if len(one.by_glimpse) > 1 else "–"
            numbers = f"{one.parameters:12,}{one.accuracy:10.2f}%{100 - one.accuracy:8.2f}%"
            lines.append(f"{name:{wide}}{numbers}  {steps}")
        return "\n".join(lines)


def evaluate_classifiers(
    classifiers: Mapping[str, GlimpseClassifier], options: GlimpseEvaluationSettings
) -> GlimpseReport:
    """Measure classifiers by name on the same pictures at the same places."""
    check_out(options)
    (first_name, first), *others = classifiers.items()
    for name, other in others:
        if other.labels != first.labels or other.size != first.size or other.channels != first.channels:
            problem = f"{name} has other classes, or pictures of another size, than {first_name}"
            raise ArgumentError("compare", problem)
    skipped = Skipped()
    images, where = _pictures(first, options, skipped)
    if skipped.total and options.out is not None:
        problem = f"its lines would not be those of the data, of which cannot be measured: {skipped}"
        raise ArgumentError("out", problem, "take these pictures out of the data first")
    canvas = _canvas(first, images, options)
    _check_seed(classifiers.values(), canvas, options)
    scores = {
        name: measure(one, images, canvas, seed=options.places_seed, samples=options.samples)
        for name, one in classifiers.items()
    }
    write_predictions(options, scores[first_name].labels)
    notes = [f"not measured: {skipped}"] if skipped.total else []
    made = "" if canvas.mode == "plain" else f", {canvas.mode}"
    drawn = f", mean of {options.samples} samples" if options.samples > 1 else ""
    return GlimpseReport(f"{len(images):,} pictures of {where}{made}{drawn}", scores, notes)


def _check_seed(
    classifiers: Iterable[GlimpseClassifier], canvas: Canvas, options: GlimpseEvaluationSettings
) -> None:
    """Raise ArgumentError if a seed is given and neither pictures nor glimpses are put at random places."""
    drawn = options.samples > 1 or any(one.draws_places for one in classifiers)
    if options.places_seed and canvas.mode == "plain" and not drawn:
        problem = "of no use for plain pictures and one sample, without random places"
        raise ArgumentError("places_seed", problem, f"leave it out, or add {option('samples', 10)}")


def measure(
    classifier: GlimpseClassifier, images: ImageSet, canvas: Canvas, *, seed: int, samples: int = 1
) -> GlimpseScores:
    """Measure a classifier on pictures that are put on a canvas.

    The places on the canvas depend on the seed and on the order of the pictures, not on the classifier.
    """
    began = time.perf_counter()
    generator = torch.Generator(device=classifier.device).manual_seed(seed)
    predicted: list[np.ndarray] = []
    batches = batches_of(images, canvas, size=BATCH, seed=seed, shuffle=False)
    for batch in with_progress(batches.epoch(0), len(images), "pictures"):
        found = classifier.run(batch.images, samples=samples, generator=generator)
        predicted.append(found.logs.argmax(dim=-1).cpu().numpy())  # (b,t)
    answers = np.concatenate(predicted)  # (n,t)
    right = 100 * (answers == images.labels[:, None]).mean(axis=0)  # (t,)
    return GlimpseScores(
        pictures=len(images),
        accuracy=float(right[-1]),
        by_glimpse=right.tolist(),
        samples=samples,
        parameters=sum(p.numel() for p in classifier.model.parameters()),
        seconds=time.perf_counter() - began,
        labels=[classifier.labels[place] for place in answers[:, -1]],
    )


def _pictures(
    classifier: GlimpseClassifier, options: GlimpseEvaluationSettings, skipped: Skipped
) -> tuple[ImageSet, str]:
    """Return the pictures to measure on, and their name in the report."""
    if options.data is None:
        images, where = read_digits("test"), "the 8×8 digits for tests"
        if list(images.classes) != classifier.labels:
            problem = "not given, and the embedded digits have other classes than the model"
            raise ArgumentError("data", problem, "name labelled pictures to measure on")
    else:
        where = options.data
        with renamed(**SETTINGS_OF_READER):
            images = read_image_set(
                where,
                options.labels_file,
                split=options.split or "test",
                classes=classifier.labels,
                channels=classifier.channels,
                columns=parsed_columns(options.columns),
                skip_bad_rows=options.skip_bad_rows,
                skipped=skipped,
            )
    if options.limit and options.limit < len(images):
        rng = np.random.default_rng(options.seed or 0)
        images = images.select(np.sort(rng.choice(len(images), options.limit, replace=False)))
    return images, where


def _canvas(classifier: GlimpseClassifier, images: ImageSet, options: GlimpseEvaluationSettings) -> Canvas:
    """Return the canvas to measure on, or raise an error if its size is not that of the model."""
    canvas = classifier.canvas if options.mode is None else classifier.canvas_in(options.mode)
    canvas.check(images.size)
    if canvas.size_of(images.size) != classifier.size:
        rows, columns = canvas.size_of(images.size)
        expected = f"the model reads {in_pixels(classifier.size)}"
        raise ArgumentError(
            "data", f"{expected}, got {by_width((rows, columns))}", "resize the pictures first"
        )
    return canvas
