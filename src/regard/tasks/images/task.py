"""The task of classifying pictures, with its objective and its report."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from rich.console import Console
from torch import Tensor, nn
from torch.nn import functional

from regard.errors import RegardError
from regard.images import Augmentation, ImageBatch, ImageBatches
from regard.images.reading import in_pixels
from regard.images.sources import size_of_first
from regard.tasks.base import Task
from regard.tasks.card import Card, CardFacts, training_command
from regard.tasks.classify.calibration import fit_temperature
from regard.tasks.image_settings import class_names, shape_of
from regard.tasks.images.classifier import ImageClassifier
from regard.tasks.images.data import ImageData, fitting_shift, prepare
from regard.tasks.images.drawing import beside_picture
from regard.tasks.images.evaluation import ImageReport, evaluate_classifiers
from regard.tasks.images.networks import network, network_config
from regard.tasks.images.settings import ImageEvaluationSettings, ImageSettings
from regard.tasks.objective import BatchedObjective
from regard.tasks.pairs import read_columns
from regard.terminal import draw_grids
from regard.text import ClassLabels

__all__ = ["ImageObjective", "ImagesTask"]

DIGITS = (8, 8)  # the size of the embedded pictures


class ImagesTask(Task):
    """The task of giving a picture one of several classes."""

    name: ClassVar[str] = "images"
    settings: ClassVar[Any] = ImageSettings
    predictor: ClassVar[Any] = ImageClassifier
    evaluation: ClassVar[Any] = ImageEvaluationSettings

    def check(self, settings: ImageSettings) -> None:
        """Raise an error if the settings make no network for pictures of the size that is known or likely."""
        size = shape_of(settings)
        if size is None:
            size = DIGITS if settings.data is None else _likely_size(settings.data)
        if size is not None:
            names = class_names(settings.class_names) or ["0", "1"]
            network_config(settings, size, settings.channels or 1, len(names))

    def prepare(self, settings: ImageSettings, folder: Path, *, learn: bool, show: bool = False) -> ImageData:
        """Read the pictures."""
        return prepare(settings, folder, learn=learn)

    def describe(self, settings: ImageSettings, data: ImageData) -> list[str]:
        """Return the numbers, the size and the classes of the pictures as text."""
        kind = "grey" if data.train.channels == 1 else "in colour"
        counts = data.train.counts().items()
        shown = ", ".join(f"{name} {count:,}" for name, count in list(counts)[:20])
        lines = read_columns(data.skipped, ("picture", "label"), f"{len(counts)} labels")
        lines += [
            f"pictures: {len(data.train):,} of {in_pixels(data.train.size)}, {kind}",
            f"validation: {len(data.valid):,} pictures {'held out' if settings.valid is None else 'given'}",
            f"classes: {shown}" + (f" and {len(counts) - 20} more" if len(counts) > 20 else ""),
        ]
        return [*lines, f"left out: {data.skipped}"] if data.skipped.total else lines

    def show_example(self, settings: ImageSettings, data: ImageData, predictor: ImageClassifier) -> None:
        """Print a validation picture, its class and where the model looks, on standard error."""
        (found,) = predictor.classify([data.valid.images[0]])
        label = data.valid.classes[data.valid.labels[0]]
        print(
            f"a validation picture of {label} is classified as {found.label} ({found.sure:.2f})",
            file=sys.stderr,
        )
        if predictor.attends:
            (maps,) = predictor.word_weights(found)
            draw_grids(*beside_picture(maps, found.image), console=Console(stderr=True, highlight=False))

    def next_command(self, settings: ImageSettings, model: str) -> str:
        """Return the command that classifies pictures, and shows where the model looks if it has attention."""
        attends = settings.architecture in ("vit", "swin")
        return f"regard classify-image --model {model} PICTURE" + (" --attention" if attends else "")

    def build(self, settings: ImageSettings, data: ImageData) -> nn.Module:
        """Return a new network with random weights."""
        sizes = (data.train.size, data.train.channels, len(data.train.classes))
        return network(network_config(settings, *sizes))

    def objective(self, settings: ImageSettings, data: ImageData) -> ImageObjective:
        """Return the objective, which has the batches, the loss and the validation."""
        return ImageObjective(self, settings, data)

    def evaluate(
        self, predictors: Mapping[str, ImageClassifier], options: ImageEvaluationSettings
    ) -> ImageReport:
        """Measure accuracy, macro F1, confusion and calibration."""
        return evaluate_classifiers(predictors, options)

    def card(self, predictor: ImageClassifier, settings: Any, facts: CardFacts) -> Card:
        """Return the card of a classifier of pictures."""
        command = "" if settings is None else training_command(self, settings)
        names = predictor.labels.names
        shown = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
        use = "Use it with `regard classify-image --model FOLDER`."
        return Card(f"Classifier of pictures: {shown}", predictor.model, command, use, facts=facts)


def _likely_size(data: str) -> tuple[int, int] | None:
    """Return the size of the first picture, or None if it cannot be told before the data is read."""
    try:
        return size_of_first(data)
    except (RegardError, OSError):  # the same error is raised when the data is read
        return None


class ImageObjective(BatchedObjective):
    """Cross entropy with label smoothing, and accuracy to validate."""

    metric = "accuracy"
    fitted = ("temperature",)
    data: ImageData
    settings: ImageSettings

    def __init__(self, task: Task, settings: ImageSettings, data: ImageData):
        self.task, self.settings, self.data = task, settings, data
        self.train = data.train
        self.fingerprint = data.train.fingerprint
        self.background = data.train.background()

    def batches_per_epoch(self, world: int) -> int:
        """Return the number of batches in one pass over the pictures."""
        return len(self._batches(0, world))

    def batches(self, epoch: int, start: int, rank: int, world: int) -> Iterator[ImageBatch]:
        """Return this process's share of the batches of an epoch."""
        return self._batches(rank, world).epoch(epoch, start)

    def _batches(self, rank: int, world: int) -> ImageBatches:
        s = self.settings
        shift = fitting_shift(s.shift, self.data.train.size)
        return ImageBatches(
            self.data.train,
            size=s.batch_size,
            seed=s.seed,
            augmentation=Augmentation(shift=shift, flip=s.flip, erase=s.erase),
            mean=self.data.mean,
            deviation=self.data.deviation,
            rank=rank,
            world=world,
        )

    def count(self, batch: ImageBatch) -> int:
        """Return the number of pictures."""
        return len(batch)

    def pictures_read(self, batch: ImageBatch) -> int:
        """Return the number of pictures, for the speed that is shown."""
        return len(batch)

    def loss(self, model: nn.Module, batch: ImageBatch) -> Tensor:
        """Return the cross entropy, summed over the pictures."""
        smoothing = self.settings.label_smoothing
        logits = model(batch.images)  # (b,classes)
        return functional.cross_entropy(logits, batch.labels, reduction="sum", label_smoothing=smoothing)

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Return the accuracy on the validation pictures, their loss, and the temperature that fits them best."""
        classifier, valid = self.predictor(model), self.data.valid
        logits, labels = classifier.logits(valid.images), torch.from_numpy(valid.labels)  # (n,classes), (n,)
        right = (logits.argmax(dim=-1) == labels).double().mean().item()
        loss = functional.cross_entropy(logits, labels).item()
        return {"accuracy": 100 * right, "loss": loss, "temperature": fit_temperature(logits, labels)}

    def predictor(self, model: nn.Module) -> ImageClassifier:
        """Return the model as a classifier."""
        extra: dict[str, Any] = {"mean": self.data.mean, "deviation": self.data.deviation}
        extra["background"] = self.background
        return ImageClassifier(model, ClassLabels(self.data.train.classes), extra)

    def save(self, model: nn.Module, folder: Path, results: dict[str, Any]) -> None:
        """Write the classifier with the temperature of its validation, and its card."""
        classifier = self.predictor(model)
        classifier.extra["temperature"] = results["temperature"]
        self.save_predictor(classifier, folder, results)
