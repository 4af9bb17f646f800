"""The settings of training and evaluating a classifier, without torch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from regard.errors import ArgumentError, UnknownNameError, option
from regard.settings import setting
from regard.tasks.settings import (
    BatchSettings,
    DataSettings,
    EmbeddedSettings,
    EvaluationSettings,
    TransformerSettings,
    VocabularySettings,
    changed,
    reject_unused,
)

__all__ = ["ARCHITECTURES", "ClassificationEvaluationSettings", "ClassificationSettings"]

_BLOCKS = ("layers", "kv_heads", "feed_forward", "activation", "norm", "positions", "attention_dropout")
# For each kind of network, the settings that the other has no use for.
ARCHITECTURES: dict[str, tuple[str, ...]] = {"pooling": (), "encoder": _BLOCKS}
POOLINGS = ("additive", "multihead", "mean", "first")
EMBEDDED_LANGUAGES = ("en", "fr", "zh")
EMBEDDED = 20_000

# The settings that are used if no data is named. The model is trained in about a minute.
DEFAULTS: dict[str, Any] = {
    "embedded": EMBEDDED,
    "vocabulary_size": 2000,
    "width": 64,
    "dropout": 0.1,
    "label_smoothing": 0.0,
    "batch_tokens": 1000,
    "steps": 600,
    "learning_rate": 4e-3,
    "warmup": 50,
    "average": 0.99,
}


@dataclass(frozen=True, kw_only=True)
class _Texts(EmbeddedSettings, DataSettings):
    """Texts with labels."""

    title: ClassVar[str] = "Data"

    language: str = setting("en", "Language of the embedded sentences: en, fr or zh.", flag="--from")
    hold_out_most: int = setting(2000, "Largest number of texts that are held out to validate on.")


@dataclass(frozen=True, kw_only=True)
class _Network(TransformerSettings):
    """Attention pooling over embeddings, or over a Transformer encoder."""

    title: ClassVar[str] = "Model"

    architecture: str = setting("pooling", "pooling (over embeddings) or encoder (a Transformer below it).")
    pooling: str = setting("additive", "additive, multihead, mean or first.")
    layers: int = setting(2, "Encoder: layers.")


@dataclass(frozen=True, kw_only=True)
class ClassificationSettings(BatchSettings, _Network, VocabularySettings, _Texts):
    """The data, the model and the training of a classifier.

    >>> ClassificationSettings(data="reviews.tsv").pooling
    'additive'
    """

    title: ClassVar[str] = "Training"

    class_weights: bool = setting(False, "Weight classes by the inverse of their frequency.")

    def __post_init__(self):
        super().__post_init__()
        reject_unused(self.architecture, ARCHITECTURES, changed(self))
        _reject_heads(self.architecture, self.pooling, changed(self))
        if self.pooling not in POOLINGS:
            raise UnknownNameError("pooling", self.pooling, POOLINGS)
        if self.language not in EMBEDDED_LANGUAGES:
            raise UnknownNameError("language", self.language, EMBEDDED_LANGUAGES)
        if self.data is None and self.embedded_count < 1:
            fix = f"give a number above 0, or name texts with {option('data')}"
            raise ArgumentError("embedded", f"nothing to train on: got {self.embedded}", fix)
        if self.data is not None and self.embedded:
            fix = "leave it out: labelled data has classes of its own"
            raise ArgumentError("embedded", f"of no use with {option('data')}", fix)

    @property
    def embedded_count(self) -> int:
        """Sentences of the embedded corpus that are trained on."""
        if self.data is not None:
            return 0
        return EMBEDDED if self.embedded is None else self.embedded

    @classmethod
    def complete(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Return a small model if no data is named, and ten epochs if nothing says how long to train."""
        architecture = given.get("architecture", "pooling")
        reject_unused(architecture, ARCHITECTURES, given)
        _reject_heads(architecture, given.get("pooling", "additive"), given)
        defaults = {"epochs": 10.0, "warmup": 100} if given.get("data") else dict(DEFAULTS)
        if given.get("steps") is not None or given.get("epochs") is not None:
            defaults.pop("epochs", None)
            defaults.pop("steps", None)
        return {**defaults, **given}


def _reject_heads(architecture: str, pooling: str, given: Iterable[str]) -> None:
    if "heads" in given and architecture == "pooling" and pooling != "multihead":
        told = f"of no use for {option('pooling', pooling)} over embeddings"
        raise ArgumentError("heads", told, f"leave it out, or say {option('pooling', 'multihead')}")


@dataclass(frozen=True, kw_only=True)
class ClassificationEvaluationSettings(EvaluationSettings):
    """The texts that a classifier is measured on."""
