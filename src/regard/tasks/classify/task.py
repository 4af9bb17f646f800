"""Classification as a task: the objective of its training, its model and its report."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.errors import ArgumentError
from regard.metrics import confusion, macro_f1
from regard.models import TextClassifier, TextClassifierConfig
from regard.settings import part_of
from regard.tasks.base import Task
from regard.tasks.card import Card, CardFacts, training_command
from regard.tasks.classify.classifier import Classifier
from regard.tasks.classify.data import ClassificationData, embedded_rows, prepare, run_files
from regard.tasks.classify.settings import ClassificationEvaluationSettings, ClassificationSettings
from regard.tasks.measuring import check_out, rows_to_measure, write_predictions
from regard.tasks.objective import BatchedObjective
from regard.tasks.pairs import counted_rows
from regard.text import LABEL_FIELDS, LabelledBatch, Skipped

__all__ = ["ClassificationObjective", "ClassificationReport", "ClassifyTask"]

EMBEDDED_TEST = 1000  # sentences of the embedded corpus that are measured on, if no limit is given


class ClassifyTask(Task):
    """From a text to one of several labels."""

    name: ClassVar[str] = "classify"
    settings: ClassVar[Any] = ClassificationSettings
    predictor: ClassVar[Any] = Classifier
    evaluation: ClassVar[Any] = ClassificationEvaluationSettings

    def check(self, settings: ClassificationSettings) -> None:
        """Raise an error if the settings make no model."""
        _config(settings, vocabulary_size=10, classes=2)

    def prepare(
        self, settings: ClassificationSettings, folder: Path, *, learn: bool, show: bool = False
    ) -> ClassificationData:
        """Read and encode the texts."""
        return prepare(settings, folder, learn=learn, show=show)

    def shared_files(self, settings: ClassificationSettings, folder: Path) -> list[Path]:
        """Return the files of the vocabulary and of the labels."""
        return run_files(folder)

    def describe(self, settings: ClassificationSettings, data: ClassificationData) -> list[str]:
        """Return the numbers of texts, classes and tokens as text."""
        lines = counted_rows(data.train, "texts")
        counts = torch.from_numpy(data.train.labels()).bincount(minlength=len(data.labels)).tolist()
        classes = ", ".join(
            f"{name} {count:,}" for name, count in zip(data.labels.names, counts, strict=True)
        )
        lines += [f"validation: {len(data.valid):,} texts held out", f"classes: {classes}"]
        return [*lines, f"vocabulary: {settings.vocabulary}, {len(data.vocabulary):,} tokens"]

    def build(self, settings: ClassificationSettings, data: ClassificationData) -> nn.Module:
        """Return a new model with random weights."""
        sizes = {"vocabulary_size": len(data.vocabulary), "classes": len(data.labels)}
        return TextClassifier(_config(settings, **sizes))

    def objective(
        self, settings: ClassificationSettings, data: ClassificationData
    ) -> ClassificationObjective:
        """Return the loss and the validation."""
        return ClassificationObjective(self, settings, data)

    def evaluate(
        self, predictors: Mapping[str, Classifier], options: ClassificationEvaluationSettings
    ) -> ClassificationReport:
        """Measure accuracy, macro F1 and confusion."""
        return evaluate_classifiers(predictors, options)

    def card(self, predictor: Classifier, settings: Any, facts: CardFacts) -> Card:
        """Return the card of a classifier."""
        command = "" if settings is None else training_command(self, settings)
        title = f"Classifier of texts: {', '.join(predictor.labels.names)}"
        use = "Use it with `regard classify --model FOLDER`."
        return Card(title, predictor.model, command, use, ("text", "label"), facts)

    def samples(self, predictor: Classifier, texts: list[str] | None) -> tuple[tuple[str, str], ...]:
        """Return texts and their labels."""
        return tuple((one.source, f"{one.label} {one.sure:.2f}") for one in predictor.classify(texts or []))


def _config(settings: ClassificationSettings, **sizes: int) -> TextClassifierConfig:
    values = part_of(settings, TextClassifierConfig)
    values["layers"] = settings.layers if settings.architecture == "encoder" else 0
    return TextClassifierConfig(**{**values, **sizes})


class ClassificationObjective(BatchedObjective):
    """Cross entropy with label smoothing and class weights, and macro F1 to validate."""

    metric = "macro_f1"

    def __init__(self, task: Task, settings: ClassificationSettings, data: ClassificationData):
        super().__init__(task, settings, data)
        self.weights: Tensor | None = None
        if settings.class_weights:
            counts = torch.from_numpy(data.train.labels()).bincount(minlength=len(data.labels))
            self.weights = len(data.train) / (len(data.labels) * counts.clamp(min=1))  # (classes,)

    def count(self, batch: LabelledBatch) -> int:
        """Return the number of texts."""
        return len(batch)

    def loss(self, model: nn.Module, batch: LabelledBatch) -> Tensor:
        """Return the cross entropy, summed over the texts."""
        weights = None if self.weights is None else self.weights.to(batch.labels.device)
        return functional.cross_entropy(
            model(batch.tokens, batch.lengths),
            batch.labels,
            weight=weights,
            reduction="sum",
            label_smoothing=self.settings.label_smoothing,
        )

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Return accuracy and macro F1 on the validation texts."""
        scores = _scores(self.predictor(model), self.data.valid)
        return {"macro_f1": scores.macro_f1, "accuracy": scores.accuracy}

    def predictor(self, model: nn.Module) -> Classifier:
        """Return the model as a classifier."""
        extra = {"max_tokens": self.settings.max_tokens, "language": self.settings.language}
        return Classifier(model, self.data.vocabulary, self.data.labels, extra)


@dataclass(frozen=True)
class ClassificationScores:
    """The scores of one classifier, in percent."""

    texts: int
    accuracy: float
    macro_f1: float
    confusion: list[list[int]]
    seconds: float
    labels: list[str] = field(repr=False)  # of each text

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as a JSON object."""
        names = ("texts", "accuracy", "macro_f1", "confusion", "seconds")
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
        (name, first), *others = self.scores.items()
        values = {"measured_on": self.measured_on, "model": name, "classes": self.classes, **first.to_json()}
        return values | ({"compared": {name: one.to_json() for name, one in others}} if others else {})

    def __str__(self) -> str:
        lines = [f"measured on {self.measured_on}"]
        wide = max(8, *(len(name) for name in self.classes)) + 2
        for name, one in self.scores.items():
            lines += [f"{name}:"] if len(self.scores) > 1 else []
            lines += [f"accuracy {one.accuracy:6.2f} %", f"macro F1 {one.macro_f1:6.2f} %"]
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
    return ClassificationReport(where, first.labels.names, scores, notes)


def _rows(
    classifier: Classifier, options: ClassificationEvaluationSettings, skipped: Skipped
) -> tuple[list[tuple[str, str]], str]:
    where = options.data or "the test part of the embedded corpus"
    kinds = {"command", "denial", "question", "statement"}
    if options.data is None and set(classifier.labels.names) != kinds:
        told = "not given, and the embedded corpus has other classes than the model"
        raise ArgumentError("data", told, "name labelled texts to measure on")

    def embedded() -> Iterable[tuple[str, str]]:
        language = classifier.extra.get("language", "en")
        return embedded_rows(language, 0, "test", max(options.limit, EMBEDDED_TEST))

    rows = rows_to_measure(options, skipped, embedded=embedded, fields=LABEL_FIELDS)
    return rows, f"{len(rows):,} texts of {where}"


def _scores(classifier: Classifier, rows: list[tuple[str, str]]) -> ClassificationScores:
    if not rows:
        raise ArgumentError("data", "there is nothing to measure on")
    labels = classifier.labels
    began = time.perf_counter()
    found = [one.label for one in classifier.classify([text for text, _ in rows])]
    seconds = time.perf_counter() - began
    expected = [labels.index(label) for _, label in rows]
    counts = confusion(expected, [labels.index(label) for label in found], len(labels))
    right = sum(counts[place][place] for place in range(len(labels)))
    accuracy, f1 = 100 * right / len(rows), 100 * macro_f1(counts)
    return ClassificationScores(len(rows), accuracy, f1, counts, seconds, found)
