"""The task of classifying pictures in glimpses, with its objective and its model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.images import ImageBatch, ImageBatches
from regard.images.reading import in_pixels
from regard.models import DensePictureConfig, DensePictureModel, GlimpseConfig, GlimpseModel
from regard.models.glimpse import GlimpseSteps, dense_width
from regard.settings import part_of
from regard.tasks.base import Task
from regard.tasks.card import Card, CardFacts, training_command
from regard.tasks.glimpse.classifier import GlimpseClassifier
from regard.tasks.glimpse.data import VALIDATION_SEED, GlimpseData, batches_of, prepare
from regard.tasks.glimpse.evaluation import GlimpseReport, evaluate_classifiers, measure
from regard.tasks.glimpse.settings import ARCHITECTURES, GlimpseEvaluationSettings, GlimpseSettings
from regard.tasks.objective import Objective
from regard.tasks.pairs import read_columns
from regard.training.reinforce import advantages, baseline_loss, policy_loss

__all__ = ["GlimpseObjective", "GlimpseTask", "returns_of"]

WIDTH = 256  # of the state, where the settings do not say
# A smaller log probability of the right class counts as this one, so that single pictures do not dominate.
LEAST_LOG_PROBABILITY = math.log(0.01)


class GlimpseTask(Task):
    """The task of classifying a picture by a few glimpses at it."""

    name: ClassVar[str] = "glimpse"
    settings: ClassVar[Any] = GlimpseSettings
    predictor: ClassVar[Any] = GlimpseClassifier
    evaluation: ClassVar[Any] = GlimpseEvaluationSettings

    def check(self, settings: GlimpseSettings) -> None:
        """Raise an error if the settings make no model."""
        _glimpse_config(settings, classes=2, channels=1)

    def prepare(
        self, settings: GlimpseSettings, folder: Path, *, learn: bool, show: bool = False
    ) -> GlimpseData:
        """Read the pictures."""
        return prepare(settings, folder, learn=learn)

    def describe(self, settings: GlimpseSettings, data: GlimpseData) -> list[str]:
        """Return the numbers of pictures and classes as text."""
        made = {"plain": "", "translated": "at random places, ", "cluttered": "among parts of others, "}
        classes = ", ".join(f"{name} {count:,}" for name, count in data.train.counts().items())
        count = f"{len(data.train.classes)} labels"
        lines = read_columns(data.skipped, ("picture", "label"), count)
        lines += [
            f"pictures: {len(data.train):,}, {made[settings.mode]}{in_pixels(data.size)}",
            f"validation: {len(data.valid):,} pictures {'held out' if settings.valid is None else 'given'}",
            f"classes: {classes}",
        ]
        return [*lines, f"left out: {data.skipped}"] if data.skipped.total else lines

    def next_command(self, settings: GlimpseSettings, model: str) -> str:
        """Return the command that reads pictures, and shows the places of the glimpses if there are any."""
        attends = settings.architecture == "glimpse"
        return f"regard glimpse --model {model} PICTURE" + (" --attention" if attends else "")

    def build(self, settings: GlimpseSettings, data: GlimpseData) -> nn.Module:
        """Return a new model with random weights."""
        sizes = {"classes": len(data.train.classes), "channels": data.train.channels}
        config = _glimpse_config(settings, **sizes)
        if settings.architecture == "glimpse":
            return GlimpseModel(config)
        rows, columns = data.size
        width = settings.width
        if width is None:
            count = sum(p.numel() for p in GlimpseModel(config).parameters())
            width = dense_width(count, rows * columns * data.train.channels, len(data.train.classes))
        shape = {"rows": rows, "columns": columns, "dropout": settings.dropout}
        return DensePictureModel(DensePictureConfig(width=width, **shape, **sizes))

    def objective(self, settings: GlimpseSettings, data: GlimpseData) -> GlimpseObjective:
        """Return the objective, which has the batches, the loss and the validation."""
        return GlimpseObjective(self, settings, data)

    def evaluate(
        self, predictors: Mapping[str, GlimpseClassifier], options: GlimpseEvaluationSettings
    ) -> GlimpseReport:
        """Measure the accuracy after each glimpse."""
        return evaluate_classifiers(predictors, options)

    def card(self, predictor: GlimpseClassifier, settings: Any, facts: CardFacts) -> Card:
        """Return the card of a classifier."""
        command = "" if settings is None else training_command(self, settings)
        title = f"Classifier of pictures in glimpses: {', '.join(predictor.labels)}"
        use = "Use it with `regard glimpse --model FOLDER picture.png`."
        return Card(title, predictor.model, command, use, ("picture", "label"), facts)


def _glimpse_config(settings: GlimpseSettings, **sizes: int) -> GlimpseConfig:
    values = part_of(settings, GlimpseConfig)
    if settings.width is None or settings.architecture == "dense":
        values["width"] = WIDTH
    if settings.architecture == "dense":
        # The glimpse network for the same pictures, of which a dense network has the number of parameters.
        usual = GlimpseSettings.complete({"data": settings.data, "mode": settings.mode})
        values |= {name: usual[name] for name in values if name in ARCHITECTURES["glimpse"] and name in usual}
    return GlimpseConfig(**{**values, **sizes})


def returns_of(steps: GlimpseSteps, labels: Tensor, reward: str) -> Tensor:
    """Return the reward that follows each choice of a place, ``(b,s,t-1)``, for the right ``labels (b,)``.

    With "correct" it is 1 if the answer after the last glimpse is right, and otherwise 0, as in the paper. With
    "log_probability" it is the log probability of the right class after the last glimpse minus that before the
    choice. The subtrahend does not depend on the choice, so it changes the variance of the gradient and not its mean.
    """
    logits = steps.logits.detach().float()  # (b,s,t,classes)
    choices = steps.log_probabilities.shape[2]
    if reward == "correct":
        right = logits[:, :, -1].argmax(dim=-1) == labels[:, None]  # (b,s)
        return right.float()[..., None].expand(-1, -1, choices)
    index = labels[:, None, None, None].expand(*logits.shape[:3], 1)  # (b,s,t,1)
    logs = logits.log_softmax(dim=-1).gather(3, index).squeeze(3)  # (b,s,t)
    logs = logs.clamp(min=LEAST_LOG_PROBABILITY)
    return logs[:, :, -1:] - logs[:, :, :-1]


class GlimpseObjective(Objective):
    """The cross entropy of the classes, REINFORCE for the places, and accuracy to validate.

    The loss that is shown is the cross entropy. The terms that train the places and the baseline have a gradient and
    the value 0.
    """

    metric = "accuracy"

    def __init__(self, task: Task, settings: GlimpseSettings, data: GlimpseData):
        super().__init__(task, settings, data)
        self.fingerprint = f"{data.train.fingerprint} {data.canvas}"

    def _batches(self, rank: int, world: int) -> ImageBatches:
        s = self.settings
        options = {"size": s.batch_size, "seed": s.seed, "rank": rank, "world": world}
        return batches_of(self.data.train, self.data.canvas, **options)

    def batches_per_epoch(self, world: int) -> int:
        """Return the number of batches in one pass over the data."""
        return len(self._batches(0, world))

    def batches(self, epoch: int, start: int, rank: int, world: int) -> Iterator[ImageBatch]:
        """Return this process's share of the batches of an epoch, with other places on the canvas in each epoch."""
        return self._batches(rank, world).epoch(epoch, start)

    def count(self, batch: ImageBatch) -> int:
        """Return the number of pictures."""
        return len(batch)

    def pictures_read(self, batch: ImageBatch) -> int:
        """Return the number of pictures, for the speed that is shown."""
        return len(batch)

    def loss(self, model: nn.Module, batch: ImageBatch) -> Tensor:
        """Return the cross entropy, summed over the pictures."""
        s = self.settings
        if s.architecture == "dense":
            return self._cross_entropy(model(batch.images), batch.labels)
        steps: GlimpseSteps = model(batch.images, samples=s.samples)
        loss = self._cross_entropy(steps.logits[:, :, -1], batch.labels)
        if s.early_loss and s.glimpses > 1:
            loss = loss + s.early_loss * self._cross_entropy(steps.logits[:, :, :-1], batch.labels)
        if s.policy == "learned" and s.glimpses > 1:
            returns = returns_of(steps, batch.labels, s.reward)  # (b,s,t-1)
            gains = advantages(returns, steps.baselines)
            places = policy_loss(steps.log_probabilities, gains) + baseline_loss(steps.baselines, returns)
            loss = loss + places - places.detach()
        return loss

    def _cross_entropy(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the cross entropy of logits ``(b,...,classes)``, summed over ``b`` and with a mean over the rest."""
        each = math.prod(logits.shape[1:-1])
        targets = labels.reshape(-1, 1).expand(-1, each).reshape(-1)
        smoothing = self.settings.label_smoothing
        flat = logits.float().reshape(-1, logits.shape[-1])  # (b·each,classes)
        return functional.cross_entropy(flat, targets, reduction="sum", label_smoothing=smoothing) / each

    @torch.no_grad()
    def validate(self, model: nn.Module) -> dict[str, float]:
        """Return the accuracy on the validation pictures, and that after the first glimpse."""
        classifier, valid = self.predictor(model), self.data.valid
        scores = measure(classifier, valid, classifier.canvas, seed=VALIDATION_SEED)
        values = {"accuracy": scores.accuracy}
        return values | ({"first_glimpse": scores.by_glimpse[0]} if len(scores.by_glimpse) > 1 else {})

    def predictor(self, model: nn.Module) -> GlimpseClassifier:
        """Return the model as a classifier."""
        s, train = self.settings, self.data.train
        names = ("mode", "canvas", "clutter", "clutter_size")
        extra = {name: getattr(s, name) for name in names}
        extra |= {"size": list(self.data.size), "background": train.background()}
        return GlimpseClassifier(model, list(train.classes), extra)
