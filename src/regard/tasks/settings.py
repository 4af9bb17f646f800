"""Groups of settings that tasks share, without torch.

The settings of a task inherit the groups that apply to it. The groups are listed from the last to the first, because
the fields of a dataclass come in the reverse order of its bases.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

from regard.errors import ArgumentError, UnknownNameError, option
from regard.settings import Settings, setting
from regard.training.settings import TrainingSettings, without_durations

__all__ = [
    "ENCODER_DECODERS",
    "BatchSettings",
    "DataSettings",
    "EmbeddedSettings",
    "EncoderDecoderSettings",
    "EvaluationSettings",
    "MeasurementSettings",
    "PretrainedSettings",
    "SourceSettings",
    "TaskSettings",
    "TokenSettings",
    "TransformerSettings",
    "VocabularySettings",
    "changed",
    "reject_unused",
    "without_encoder_settings",
]

VOCABULARIES = ("bpe", "word", "character", "byte")
# 256 bytes and the special tokens.
SMALLEST_VOCABULARY = {"bpe": 260, "byte": 260}
# The part of a long text that is not read.
CUTS = ("end", "middle")


@dataclass(frozen=True, kw_only=True)
class TaskSettings(Settings):
    """The base class of the settings of a task."""

    # Settings that say where data is. The contents of the data define a run, its place does not.
    locations: ClassVar[tuple[str, ...]] = ()
    # Settings that a resumed run may change.
    changeable: ClassVar[tuple[str, ...]] = (
        *("steps", "epochs", "minutes", "patience", "least_steps", "validate_every", "save_every", "keep"),
    )

    # Settings of held-out rows, which have no effect if validation data is named.
    of_held_out: ClassVar[tuple[str, ...]] = ("hold_out",)

    def __post_init__(self):
        super().__post_init__()
        for name in changed(self) if getattr(self, "valid", None) is not None else ():
            if name in self.of_held_out:
                raise ArgumentError(name, f"of no use with {option('valid')}", "leave one of them out")

    def pictures_of(self, location: str) -> list[Path]:
        """Return the files of pictures that the table of a location names, in its order."""
        return []


@dataclass(frozen=True, kw_only=True)
class SourceSettings(TaskSettings):
    """Files to train and validate on, whatever their rows are."""

    title: ClassVar[str] = "Data"
    locations: ClassVar[tuple[str, ...]] = ("data", "valid", "exclude")

    data: str | None = setting(None, "Training data: TSV, CSV, JSONL, Parquet, hf:NAME, or '-'.")
    valid: str | None = setting(
        None, "Validation data, in the form of the training data. Without it, some of the data is held out."
    )
    hold_out: float = setting(0.1, "Largest share of the data that is held out to validate on.")
    format: str | None = setting(
        None, "Format (tsv, csv, jsonl or parquet), if the name of the file does not show it."
    )
    split: str = setting("train", "Of a Hugging Face data set: the part to train on.")
    valid_split: str = setting("validation", "Of a Hugging Face data set: the part to validate on.")
    dataset_config: str | None = setting(
        None, "Of a Hugging Face data set: its configuration, if it has several."
    )
    exclude: str | None = setting(None, "Data whose texts are never trained on, such as a test set.")
    skip_bad_rows: bool = setting(False, "Leave out and count rows that cannot be read, instead of stopping.")

    def __post_init__(self):
        super().__post_init__()
        _check_skipping(self)
        self._reject_unused_reading()
        if not 0 < self.hold_out < 1:
            raise ArgumentError("hold_out", f"expected a share between 0 and 1, got {self.hold_out}")
        for name in self.locations:
            if name != "data" and getattr(self, name) == "-":
                problem = f"only {option('data')} can be read from standard input"
                raise ArgumentError(name, problem, "name a file")
        self._check_valid()

    def _reject_unused_reading(self) -> None:
        """Reject settings for reading files where there is no file, and those of data sets where there is none."""
        sources = [source for source in (self.data, self.valid, self.exclude) if source is not None]
        on_hub = any(source.startswith("hf:") for source in sources)
        for name in changed(self):
            if name in ("columns", "format") and not sources:
                raise ArgumentError(name, f"of no use without {option('data')}", "leave it out")
            if name in ("split", "valid_split", "dataset_config") and not on_hub:
                fix = f"leave it out, or name one with {option('data', 'hf:NAME')}"
                raise ArgumentError(name, "of no use without a Hugging Face data set", fix)

    def _check_valid(self) -> None:
        """Reject validation data that is the training data."""
        hub = (self.data or "").startswith("hf:") and self.split != self.valid_split
        if self.data and self.data == self.valid and not hub:
            problem = f"the same as {option('data', self.data)}"
            raise ArgumentError("valid", problem, "name data that is not trained on, or leave it out")


@dataclass(frozen=True, kw_only=True)
class DataSettings(SourceSettings):
    """Files of rows with two columns, to train and validate on."""

    title: ClassVar[str] = "Data"

    columns: str | None = setting(
        None, "Columns (numbers) or fields (names) to read, such as 0,1; known names are found."
    )


@dataclass(frozen=True, kw_only=True)
class EmbeddedSettings(TaskSettings):
    """Sentences of the embedded corpus, for tasks that have a setting ``data``.

    A subclass defines ``default_embedded``, the number of sentences without data, and ``seeded``, what uses the seed.
    """

    title: ClassVar[str] = "Data"
    default_embedded: ClassVar[int] = 0
    seeded: ClassVar[tuple[str, ...]] = ("embedded_count",)

    embedded: int | None = setting(
        None, "Sentences of the embedded corpus to add to the data, or to train on where there is none."
    )
    embedded_seed: int = setting(0, "Seed of the sentences of the embedded corpus.")

    @property
    def embedded_count(self) -> int:
        """The number of sentences of the embedded corpus that are trained on."""
        if self.embedded is None:
            return 0 if getattr(self, "data", None) else self.default_embedded
        return self.embedded

    def check_embedded_count(self, rows: str) -> None:
        """Raise ArgumentError if there is nothing to train on. ``rows`` names the rows of data, such as "texts"."""
        if self.embedded_count < 0 or (self.embedded_count == 0 and not getattr(self, "data", None)):
            fix = f"give a number above 0, or name {rows} with {option('data')}"
            raise ArgumentError("embedded", f"nothing to train on: got {self.embedded}", fix)
        if "embedded_seed" in changed(self) and not any(getattr(self, name) for name in self.seeded):
            raise ArgumentError("embedded_seed", "of no use without embedded data", "leave it out")


@dataclass(frozen=True, kw_only=True)
class TokenSettings(TaskSettings):
    """The kind and the size of a vocabulary."""

    title: ClassVar[str] = "Vocabulary"

    vocabulary: str = setting("bpe", "bpe, word, character or byte.")
    vocabulary_size: int = setting(8000, "Entries of the vocabulary, at most.")
    lowercase: bool = setting(False, "Convert everything to lower case.")

    def __post_init__(self):
        super().__post_init__()
        if self.vocabulary not in VOCABULARIES:
            raise UnknownNameError("vocabulary", self.vocabulary, VOCABULARIES)
        least = SMALLEST_VOCABULARY.get(self.vocabulary, 5)
        if self.vocabulary_size < least:
            problem = f"expected {least} or more for {self.vocabulary}, got {self.vocabulary_size}"
            raise ArgumentError("vocabulary_size", problem)


@dataclass(frozen=True, kw_only=True)
class VocabularySettings(TokenSettings):
    """Tokens of texts."""

    title: ClassVar[str] = "Vocabulary"

    max_tokens: int = setting(128, "Longer texts are left out of the training.")


@dataclass(frozen=True, kw_only=True)
class TransformerSettings(TaskSettings):
    """Sizes of a model, and the parts of a Transformer."""

    title: ClassVar[str] = "Model"

    width: int = setting(256, "Numbers that represent a token.")
    dropout: float = setting(0.1, "Share of the activations dropped in training.")
    heads: int = setting(4, "Attention heads.")
    kv_heads: int | None = setting(None, "Transformer: heads of keys and values, if fewer.")
    feed_forward: int = setting(1024, "Transformer: width of the feed-forward layers.")
    activation: str = setting("gelu", "Transformer: gelu, relu or swiglu.")
    norm: str = setting("pre", "Transformer: norm before (pre) or after (post) each sublayer.")
    positions: str = setting(
        "sinusoidal", "Transformer: sinusoidal, learned, rotary, alibi, relative or none."
    )
    attention_dropout: float = setting(
        0.0, "Transformer: share of the attention weights dropped in training."
    )


_OF_TRANSFORMERS = (
    *("heads", "kv_heads", "feed_forward", "activation", "norm", "positions", "attention_dropout"),
)
# For each kind of encoder–decoder, the settings that the others have no use for.
ENCODER_DECODERS = {"transformer": _OF_TRANSFORMERS, "seq2seq": ("cell", "score", "input_feeding")}


@dataclass(frozen=True, kw_only=True)
class EncoderDecoderSettings(TransformerSettings):
    """A Transformer or a recurrent network from one text to another.

    A subclass defines ``defaults_without_data``, the settings of a small model that is trained if no data is named.
    """

    title: ClassVar[str] = "Model"
    defaults_without_data: ClassVar[dict[str, Any]] = {}

    architecture: str = setting("transformer", "transformer or seq2seq.")
    encoder_layers: int = setting(3, "Layers of the encoder.")
    decoder_layers: int = setting(3, "Layers of the decoder.")
    cell: str = setting("gru", "Seq2seq: gru or lstm.")
    score: str = setting("additive", "Seq2seq: none, dot, scaled_dot, additive or bilinear.")
    input_feeding: bool = setting(True, "Seq2seq: each step reads the attention output of the one before.")
    copy: bool = setting(False, "Copy words of the source where it helps, such as names (pointer-generator).")

    def __post_init__(self):
        super().__post_init__()
        reject_unused(self.architecture, ENCODER_DECODERS, changed(self))
        if self.copy and not getattr(self, "shared_vocabulary", True):
            problem = f"words of one vocabulary cannot be copied into another ({option('shared_vocabulary', False)})"
            raise ArgumentError("copy", problem, "share the vocabulary, or do not copy")
        if self.copy and self.architecture == "seq2seq" and self.score == "none":
            problem = f"copying follows the attention, but {option('score', 'none')}"
            raise ArgumentError("copy", problem, f"give another {option('score')}, or do not copy")

    @classmethod
    def complete(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Return a small model if no data is named, and ten epochs if nothing says how long to train."""
        architecture = given.get("architecture", "transformer")
        reject_unused(architecture, ENCODER_DECODERS, given)
        defaults = {"epochs": 10.0} if given.get("data") else cls.defaults_without_data
        defaults = without_durations(defaults, given)
        if architecture == "seq2seq":
            of_transformers = ENCODER_DECODERS["transformer"]
            defaults = {name: value for name, value in defaults.items() if name not in of_transformers}
        return {**defaults, **given}


# Settings that a pretrained encoder determines.
OF_THE_ENCODER = (
    *("width", "heads", "kv_heads", "feed_forward", "activation", "norm", "positions", "layers"),
    *("vocabulary", "vocabulary_size", "lowercase"),
)


@dataclass(frozen=True, kw_only=True)
class PretrainedSettings(TaskSettings):
    """A pretrained encoder to start from, for tasks that read :class:`DataSettings`."""

    title: ClassVar[str] = "Model"
    locations: ClassVar[tuple[str, ...]] = (*DataSettings.locations, "start")

    start: str | None = setting(
        None,
        "Pretrained encoder to start from: minilm, or a folder of BERT, RoBERTa, DistilBERT or `encode`.",
    )

    def __post_init__(self):
        super().__post_init__()
        if self.start is None:
            return
        for name in changed(self):
            if name in OF_THE_ENCODER:
                problem = f"of no use with {option('start', self.start)}, which has its own"
                raise ArgumentError(name, problem, "leave it out")


def without_encoder_settings(values: dict[str, Any]) -> dict[str, Any]:
    """Return settings without those that a pretrained encoder determines.

    >>> without_encoder_settings({"width": 64, "steps": 600})
    {'steps': 600}
    """
    return {name: value for name, value in values.items() if name not in OF_THE_ENCODER}


@dataclass(frozen=True, kw_only=True)
class BatchSettings(TrainingSettings, TaskSettings):
    """Batches of texts of similar length, and how long and how fast to train."""

    title: ClassVar[str] = "Training"
    batch_sizes: ClassVar[tuple[str, ...]] = ("batch_tokens",)

    batch_tokens: int = setting(
        4096, "Tokens of a batch, padding included (the mean where there are two sides)."
    )
    label_smoothing: float = setting(0.1, "Probability that is spread evenly over all classes or tokens.")

    def __post_init__(self):
        super().__post_init__()
        if not 0 <= self.label_smoothing < 1:
            raise ArgumentError(
                "label_smoothing", f"expected a share from 0 to below 1, got {self.label_smoothing}"
            )
        longest = getattr(self, "max_tokens", 1)
        if self.batch_tokens < longest:
            problem = f"{self.batch_tokens} tokens hold no sentence of {option('max_tokens', longest)}"
            raise ArgumentError("batch_tokens", problem)


@dataclass(frozen=True, kw_only=True)
class MeasurementSettings(Settings):
    """The data that a model is measured on, whatever its rows are."""

    title: ClassVar[str] = "Data"

    data: str | None = setting(None, "Data to measure on, in the form of the training data.")
    format: str | None = setting(
        None, "Format (tsv, csv, jsonl or parquet), if the name of the file does not show it."
    )
    split: str | None = setting(None, "Of a Hugging Face data set: the part to measure on; by default test.")
    dataset_config: str | None = setting(
        None, "Of a Hugging Face data set: its configuration, if it has several."
    )
    skip_bad_rows: bool = setting(False, "Leave out and count rows that cannot be read, instead of stopping.")
    limit: int = setting(0, "Size of a random sample to measure on, 0 for all.")
    seed: int | None = setting(None, "Seed of the sample; by default 0.")
    out: str | None = setting(None, "Write the predictions to a file, one for each row.")

    reading: ClassVar[tuple[str, ...]] = ("format", "split", "dataset_config")

    def __post_init__(self):
        super().__post_init__()
        _check_skipping(self)
        if self.limit < 0:
            raise ArgumentError("limit", f"expected 0 or more, got {self.limit}")
        for name in () if self.data else self.reading:
            if getattr(self, name) is not None:
                problem = f"given without {option('data')}"
                raise ArgumentError(name, problem, f"name the data with {option('data')}")
        if self.seed is not None and not self.limit:
            raise ArgumentError("seed", "of no use without a sample", f"add {option('limit')}")
        if self.limit and self.data and self.out is not None:
            problem = "its lines would be those of a sample, not of the data"
            raise ArgumentError("out", problem, f"leave out {option('limit')}")

    def reader_settings(self) -> dict[str, Any]:
        """Return the settings of the reader that are given, for data that is tested."""
        given = {name: getattr(self, name) for name in self.reading if getattr(self, name) is not None}
        return {"split": "test", "skip_bad_rows": self.skip_bad_rows, **given}


def _check_skipping(settings: SourceSettings | MeasurementSettings) -> None:
    """Reject the setting for bad rows where no data is read."""
    if settings.skip_bad_rows and settings.data is None:
        problem = f"of no use without {option('data')}"
        raise ArgumentError("skip_bad_rows", problem, f"leave it out, or name the data with {option('data')}")


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings(MeasurementSettings):
    """The rows with two columns that a model is measured on."""

    title: ClassVar[str] = "Data"
    reading: ClassVar[tuple[str, ...]] = ("columns", *MeasurementSettings.reading)

    columns: str | None = setting(None, "Columns (numbers) or fields (names) to read.")


def changed(settings: Settings) -> list[str]:
    """Return the names of the settings that are not at their defaults."""
    return [one.name for one in fields(settings) if getattr(settings, one.name) != one.default]


def reject_unused(architecture: str, only: dict[str, tuple[str, ...]], given: Iterable[str]) -> None:
    """Reject settings that the architecture does not use.

    ``only`` names, for each architecture, the settings that not all architectures use.
    """
    if architecture not in only:
        raise UnknownNameError("architecture", architecture, only)
    used = only[architecture]
    for name in given:
        users = [kind for kind, names in only.items() if name in names]
        if users and name not in used:
            problem = f"of no use for {option('architecture', architecture)}"
            fix = f"leave it out, or say {option('architecture', users[0])}"
            raise ArgumentError(name, problem, fix)
