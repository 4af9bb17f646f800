"""The settings of training and evaluating a classifier, without torch."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from regard.errors import ArgumentError, UnknownNameError, option
from regard.settings import setting
from regard.tasks.settings import (
    CUTS,
    BatchSettings,
    DataSettings,
    EmbeddedSettings,
    EvaluationSettings,
    PretrainedSettings,
    TransformerSettings,
    VocabularySettings,
    changed,
    reject_unused,
)
from regard.training.settings import without_durations

__all__ = ["ARCHITECTURES", "ClassificationEvaluationSettings", "ClassificationSettings", "label_names"]

_BLOCKS = ("kv_heads", "feed_forward", "activation", "norm", "positions", "attention_dropout")
# For each kind of network, the settings that not all kinds use.
ARCHITECTURES: dict[str, tuple[str, ...]] = {
    "pooling": (),
    "recurrent": ("layers",),
    "encoder": ("layers", *_BLOCKS),
}
POOLINGS = ("additive", "multihead", "mean", "first")
EMBEDDED_LANGUAGES = ("en", "fr", "zh")

# The settings that are used if no data is named. The model is trained in about a minute.
DEFAULTS: dict[str, Any] = {
    "embedded": 20_000,
    "vocabulary_size": 2000,
    "width": 64,
    "ngram_buckets": 2**14,
    "dropout": 0.1,
    "batch_tokens": 1000,
    "steps": 600,
    "learning_rate": 4e-3,
    "warmup": 50,
    "average": 0.99,
}
# The settings for data of up to so many bytes, before compression: a few thousand sentences, up to a hundred thousand
# reviews, and more. The larger the data, the fewer the passes.
BY_SIZE: tuple[tuple[float, dict[str, Any]], ...] = (
    (4e6, {"epochs": 10.0, "vocabulary_size": 20_000, "ngram_buckets": 2**17, "warmup": 50}),
    (4e8, {"epochs": 4.0, "ngram_buckets": 2**19}),
    (float("inf"), {"epochs": 1.0, "ngram_buckets": 2**20}),
)
# Values for a pretrained encoder, which a high learning rate would destroy.
FINE_TUNING: dict[str, Any] = {
    "epochs": 2.0,
    "least_steps": 300,
    "learning_rate": 5e-5,
    "schedule": "linear",
    "warmup": 200,
    "average": 0.0,
    "dropout": 0.1,
    "word_dropout": 0.0,
    "max_tokens": 256,
    "cut": "middle",
    "batch_tokens": 8192,
    "batch_texts": 32,
}
# Bytes of a text for each byte of its gzip file, about.
COMPRESSION = 2.7


@dataclass(frozen=True, kw_only=True)
class _LabelledTexts(EmbeddedSettings, DataSettings):
    """Texts with labels."""

    title: ClassVar[str] = "Data"
    default_embedded: ClassVar[int] = DEFAULTS["embedded"]

    data: str | None = setting(
        None,
        "Training data: TSV, CSV, JSONL, Parquet, hf:NAME, '-', or a folder with a folder of texts by class.",
    )
    labels: str | None = setting(None, "Names for labels of the data, such as 0=negative,1=positive.")
    language: str = setting("en", "Language of the embedded sentences: en, fr or zh.", flag="--from")
    hold_out_most: int = setting(2000, "Largest number of texts that are held out to validate on.")


@dataclass(frozen=True, kw_only=True)
class _Vocabulary(VocabularySettings):
    """Tokens of texts, and how many of them are read."""

    title: ClassVar[str] = "Vocabulary"

    vocabulary: str = setting("word", "bpe, word, character or byte.")
    vocabulary_size: int = setting(30_000, "Entries of the vocabulary, at most.")
    lowercase: bool = setting(True, "Convert everything to lower case.")
    max_tokens: int = setting(1000, "Tokens that are read of a text. The rest of a longer text is cut off.")
    cut: str = setting("end", "Part of a longer text that is cut off: end or middle.")


@dataclass(frozen=True, kw_only=True)
class _ClassifierNetwork(PretrainedSettings, TransformerSettings):
    """Attention pooling over embeddings with n-grams and a convolution, over a GRU, or over a Transformer encoder."""

    title: ClassVar[str] = "Model"

    architecture: str = setting(
        "pooling",
        "pooling (over embeddings), recurrent (over a bidirectional GRU) or encoder (a Transformer).",
    )
    pooling: str = setting("additive", "additive, multihead, mean or first.")
    pooling_heads: int | None = setting(
        None, "Heads of the pooling; by default 4 for additive, or those of the encoder for multihead."
    )
    ngrams: int = setting(2, "Longest n-grams of tokens that have vectors of their own; 1 for none.")
    ngram_buckets: int = setting(2**17, "Rows of each table of n-grams, which are hashed into it.")
    convolution: int = setting(0, "Tokens that a convolution below the pooling reads; 0 for none.")
    layers: int = setting(1, "Recurrent or encoder: layers.")
    width: int = setting(32, "Numbers that represent a token.")
    dropout: float = setting(0.4, "Share of the activations dropped in training.")
    word_dropout: float = setting(0.3, "Share of the tokens dropped in training.")


@dataclass(frozen=True, kw_only=True)
class ClassificationSettings(BatchSettings, _ClassifierNetwork, _Vocabulary, _LabelledTexts):
    """The data, the model and the training of a classifier.

    >>> ClassificationSettings(data="reviews.tsv").pooling
    'additive'
    """

    title: ClassVar[str] = "Training"
    batch_sizes: ClassVar[tuple[str, ...]] = ("batch_tokens", "batch_texts")

    batch_tokens: int = setting(16_384, "Tokens of a batch at most, padding included.")
    batch_texts: int = setting(64, "Texts of a batch at most.")
    class_weights: bool = setting(False, "Weight classes by the inverse of their frequency.")
    label_smoothing: float = setting(0.0, "Probability that is spread evenly over all classes.")
    learning_rate: float = setting(3e-3, "The highest learning rate.")
    warmup: int = setting(100, "Steps until the highest learning rate is reached.")
    patience: int = setting(3, "Validations without improvement after which training stops, 0 for never.")

    def __post_init__(self):
        super().__post_init__()
        _reject_unused(self.start, self.architecture, self.pooling, changed(self))
        for name, known in (("pooling", POOLINGS), ("language", EMBEDDED_LANGUAGES), ("cut", CUTS)):
            if getattr(self, name) not in known:
                raise UnknownNameError(name, getattr(self, name), known)
        label_names(self.labels)
        if self.batch_texts < 1:
            raise ArgumentError("batch_texts", f"expected 1 or more, got {self.batch_texts}")
        self.check_embedded_count("texts")
        if self.data is not None and self.embedded:
            fix = "leave it out: labelled data has classes of its own"
            raise ArgumentError("embedded", f"of no use with {option('data')}", fix)
        if self.data is not None and "language" in changed(self):
            raise ArgumentError("language", f"of no use with {option('data')}", "leave it out")
        if self.data is None and self.labels is not None:
            raise ArgumentError("labels", f"of no use without {option('data')}", "leave it out")

    @classmethod
    def complete(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Return the given values with defaults for the size of the data, or a small model if no data is named."""
        start = given.get("start")
        _reject_unused(start, given.get("architecture", "pooling"), given.get("pooling", "additive"), given)
        defaults = dict(DEFAULTS)
        if given.get("data"):
            size = bytes_of(given["data"])
            defaults = dict(next(values for most, values in BY_SIZE if size <= most))
        if start:
            defaults = {"embedded": defaults["embedded"]} if "embedded" in defaults else {}
            defaults |= FINE_TUNING
        room = given.get("batch_tokens", cls.max_tokens)
        if isinstance(room, int) and room < cls.max_tokens:
            defaults["max_tokens"] = room  # a batch holds at least one text
        return {**without_durations(defaults, given), **given}


def bytes_of(data: str) -> float:
    """Return about how many bytes of text a file or a folder holds, or 10 million if that is not known beforehand."""
    try:
        if os.path.isdir(data):
            return sum(path.stat().st_size for path in Path(data).rglob("*") if path.is_file())
        size = os.path.getsize(data)
    except (OSError, ValueError):
        # Standard input, a data set by name, or a file that is missing.
        return 1e7
    return size * COMPRESSION if data.endswith((".gz", ".parquet", ".pq")) else size


def label_names(labels: str | None) -> dict[str, str]:
    """Return the names of labels, by the label in the data.

    >>> label_names("0=negative, 1=positive")
    {'0': 'negative', '1': 'positive'}
    """
    names: dict[str, str] = {}
    for part in [] if labels is None else labels.split(","):
        label, _, name = (word.strip() for word in part.partition("="))
        if not label or not name or label in names:
            problem = f"expected label=name, each label once, separated by commas, got {labels!r}"
            raise ArgumentError("labels", problem, "such as 0=negative,1=positive")
        names[label] = name
    return names


def _reject_unused(start: str | None, architecture: str, pooling: str, given: Iterable[str]) -> None:
    """Reject settings that the network does not use."""
    given = list(given)
    for name in ("architecture", "ngrams", "ngram_buckets", "convolution"):
        if start is not None and name in given:
            problem = f"of no use with {option('start', start)}, which is the network below the pooling"
            raise ArgumentError(name, problem, "leave it out")
    network = "encoder" if start is not None else architecture
    reject_unused(network, ARCHITECTURES, given)
    if "heads" in given and network != "encoder" and pooling != "multihead":
        problem = f"of no use for {option('pooling', pooling)} over {network}"
        raise ArgumentError(
            "heads", problem, f"say {option('pooling_heads')}, or {option('pooling', 'multihead')}"
        )
    if "pooling_heads" in given and pooling not in ("additive", "multihead"):
        problem = f"of no use for {option('pooling', pooling)}, which has no attention"
        raise ArgumentError("pooling_heads", problem, "leave it out")


@dataclass(frozen=True, kw_only=True)
class ClassificationEvaluationSettings(EvaluationSettings):
    """The texts that a classifier is measured on."""

    split: str | None = setting(
        None, "Of a Hugging Face data set, or a folder: the part to measure on; by default test."
    )
