"""The task of classifying texts, with its objective, its model and its report."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.errors import ArgumentError
from regard.metrics import confusion, macro_f1
from regard.models import EncoderConfig, TextClassifier, TextClassifierConfig
from regard.settings import part_of
from regard.tasks.base import Task
from regard.tasks.card import Card, CardFacts, training_command
from regard.tasks.classify.calibration import fit_temperature
from regard.tasks.classify.classifier import Classifier
from regard.tasks.classify.data import ClassificationData, prepare, run_files
from regard.tasks.classify.evaluation import ClassificationReport, evaluate_classifiers
from regard.tasks.classify.settings import ClassificationEvaluationSettings, ClassificationSettings
from regard.tasks.objective import BatchedObjective
from regard.tasks.pairs import counted_rows
from regard.tasks.pretrained import starting_config, starting_encoder, starting_vocabulary
from regard.text import BucketedBatches, LabelledBatch

__all__ = ["ClassificationObjective", "ClassifyTask"]

# Of additive pooling, where the settings do not say how many.
ADDITIVE_HEADS = 4


class ClassifyTask(Task):
    """The task of giving a text one of several labels."""

    name: ClassVar[str] = "classify"
    settings: ClassVar[Any] = ClassificationSettings
    predictor: ClassVar[Any] = Classifier
    evaluation: ClassVar[Any] = ClassificationEvaluationSettings

    def check(self, settings: ClassificationSettings) -> None:
        """Raise an error if the settings make no model, or read more tokens than a pretrained encoder can."""
        if settings.start is None:
            _config(settings, vocabulary_size=10, classes=2)
            return
        config = _config_around(starting_config(settings), settings, classes=2)
        most = config.max_length - starting_vocabulary(settings).framing.added()
        if config.positions == "learned" and settings.max_tokens > most:
            problem = f"{settings.start} reads {most} tokens of a text at most, got {settings.max_tokens}"
            raise ArgumentError("max_tokens", problem)

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
        lines = counted_rows(data.train, "texts", ("text", "label"), f"{len(data.labels)} labels")
        long = int((data.train.source.lengths() >= settings.max_tokens).sum())
        if long:
            part = "the end" if settings.cut == "end" else "the middle"
            lines.append(f"long texts: {long:,} have {settings.max_tokens} tokens or more, {part} is cut off")
        counts = torch.from_numpy(data.train.labels()).bincount(minlength=len(data.labels)).tolist()
        classes = ", ".join(
            f"{name} {count:,}" for name, count in zip(data.labels.names, counts, strict=True)
        )
        lines += [f"validation: {len(data.valid):,} texts held out", f"classes: {classes}"]
        kind = settings.vocabulary if settings.start is None else f"of {settings.start}"
        return [*lines, f"vocabulary: {kind}, {len(data.vocabulary):,} tokens"]

    def build(self, settings: ClassificationSettings, data: ClassificationData) -> nn.Module:
        """Return a new model with random weights, or around the pretrained encoder that the settings name."""
        if settings.start is None:
            sizes = {"vocabulary_size": len(data.vocabulary), "classes": len(data.labels)}
            return TextClassifier(_config(settings, **sizes))
        encoder, _ = starting_encoder(settings)
        model = TextClassifier(_config_around(encoder.config, settings, classes=len(data.labels)))
        model.encoder.load_state_dict(encoder.state_dict())
        return model

    def objective(
        self, settings: ClassificationSettings, data: ClassificationData
    ) -> ClassificationObjective:
        """Return the objective, which has the batches, the loss and the validation."""
        return ClassificationObjective(self, settings, data)

    def evaluate(
        self, predictors: Mapping[str, Classifier], options: ClassificationEvaluationSettings
    ) -> ClassificationReport:
        """Measure accuracy, macro F1, confusion and calibration."""
        return evaluate_classifiers(predictors, options)

    def card(self, predictor: Classifier, settings: Any, facts: CardFacts) -> Card:
        """Return the card of a classifier."""
        command = training_command(self, settings)
        title = f"Classifier of texts: {', '.join(predictor.labels.names)}"
        use = "Use it with `regard classify --model FOLDER`."
        return Card(title, predictor.model, command, use, ("text", "label"), facts)

    def samples(self, predictor: Classifier, texts: list[str] | None) -> tuple[tuple[str, str], ...]:
        """Return texts and their labels."""
        return tuple((one.source, f"{one.label} {one.sure:.2f}") for one in predictor.classify(texts or []))


def _config(settings: ClassificationSettings, **sizes: int) -> TextClassifierConfig:
    values = part_of(settings, TextClassifierConfig) | _pooling(settings)
    if settings.architecture != "encoder":
        # There are no blocks, so there are no positions and norms either.
        values |= {"layers": 0, "norm": "post", "positions": "none", "scaled_embeddings": False}
    if settings.architecture == "recurrent":
        values["recurrent_layers"] = settings.layers
    return TextClassifierConfig(**{**values, **sizes})


def _config_around(
    encoder: EncoderConfig, settings: ClassificationSettings, classes: int
) -> TextClassifierConfig:
    """Return the settings of a classifier around a pretrained encoder."""
    values = _pooling(settings) | {"word_dropout": settings.word_dropout}
    return encoder.part(TextClassifierConfig, classes=classes, **values)


def _pooling(settings: ClassificationSettings) -> dict[str, Any]:
    heads = settings.pooling_heads
    if settings.pooling == "additive" and heads is None:
        heads = ADDITIVE_HEADS
    return {"pooling": settings.pooling, "pooling_heads": heads}


class ClassificationObjective(BatchedObjective):
    """Cross entropy with label smoothing and class weights, and macro F1 to validate."""

    metric = "macro_f1"
    fitted = ("temperature",)

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

    def _bucketed(self, rank: int, world: int) -> BucketedBatches:
        s = self.settings
        sizes = {"tokens": s.batch_tokens, "min_sentences": 1, "max_sentences": s.batch_texts}
        return BucketedBatches(self.train, **sizes, seed=s.seed, rank=rank, world=world)

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Return accuracy and macro F1 on the validation texts, and the temperature that fits them best."""
        classifier = self.predictor(model)
        logits = classifier.logits(self._valid_ids)  # (n,classes)
        expected = [self.data.labels.index(label) for _, label in self.data.valid]
        counts = confusion(expected, logits.argmax(dim=-1).tolist(), len(self.data.labels))
        accuracy = 100 * sum(counts[place][place] for place in range(len(counts))) / len(expected)
        temperature = fit_temperature(logits, torch.tensor(expected))
        return {"macro_f1": 100 * macro_f1(counts), "accuracy": accuracy, "temperature": temperature}

    @functools.cached_property
    def _valid_ids(self) -> list[list[int]]:
        return self.data.encoder.encode_batch([text for text, _ in self.data.valid])

    def predictor(self, model: nn.Module) -> Classifier:
        """Return the model as a classifier."""
        s = self.settings
        extra = {"max_tokens": s.max_tokens, "cut": s.cut, "language": s.language}
        return Classifier(model, self.data.vocabulary, self.data.labels, extra)

    def save(self, model: nn.Module, folder: Path, results: dict[str, Any]) -> None:
        """Write the classifier with the temperature of its validation, and its card."""
        classifier = self.predictor(model)
        classifier.extra["temperature"] = results["temperature"]
        self.save_predictor(classifier, folder, results)
