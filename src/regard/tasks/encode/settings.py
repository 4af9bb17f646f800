"""The settings of training and measuring an encoder, without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from regard.errors import ArgumentError, UnknownNameError, option
from regard.settings import Settings, setting
from regard.tasks.plain_texts import PlainTextSettings
from regard.tasks.settings import (
    BatchSettings,
    PretrainedSettings,
    TransformerSettings,
    VocabularySettings,
    without_encoder_settings,
)
from regard.training.settings import without_durations

__all__ = ["EncodingEvaluationSettings", "EncodingSettings"]

POOLINGS = ("mean", "first", "max")

# The settings that are used if no data is named. The model is trained in a few minutes.
DEFAULTS: dict[str, Any] = {
    "embedded": 40_000,
    "vocabulary": "word",
    "vocabulary_size": 3000,
    "width": 96,
    "layers": 2,
    "heads": 4,
    "feed_forward": 288,
    "batch_tokens": 2000,
    "steps": 1000,
    "learning_rate": 3e-3,
    "warmup": 100,
    "validate_every": 250,
    "average": 0.99,
}
# For a pretrained encoder, whose weights should change little at a time.
STARTED: dict[str, Any] = {"learning_rate": 1e-4, "average": 0.99}


@dataclass(frozen=True, kw_only=True)
class _PlainTexts(PlainTextSettings):
    """Texts to train and validate on."""

    title: ClassVar[str] = "Data"
    default_embedded: ClassVar[int] = DEFAULTS["embedded"]
    of_files: ClassVar[tuple[str, ...]] = ("valid", "column", "join_lines", "skip_bad_rows")

    data: str | None = setting(None, "Training texts: a file with one text in each line, also .gz, or '-'.")
    valid: str | None = setting(
        None, "Validation texts, in the form of the training data. Without it, some of the data is held out."
    )
    hold_out: float = setting(0.1, "Largest share of the texts that is held out to validate on.")
    hold_out_most: int = setting(2000, "Largest number of texts that are held out to validate on.")
    column: str | None = setting(
        None, "Column (number) or field (name) with the text, of TSV, CSV, JSONL, Parquet or hf:NAME."
    )
    join_lines: bool = setting(False, "Join the lines of one long text, and cut it into pieces.")
    skip_bad_rows: bool = setting(False, "Leave out and count rows that cannot be read, instead of stopping.")

    def __post_init__(self):
        super().__post_init__()
        if self.hold_out_most < 1:
            raise ArgumentError("hold_out_most", f"expected 1 or more, got {self.hold_out_most}")
        if self.column is not None and self.join_lines:
            raise ArgumentError(
                "join_lines", f"of no use with {option('column')}", "rows are texts of their own"
            )


@dataclass(frozen=True, kw_only=True)
class _EncoderNetwork(PretrainedSettings, TransformerSettings):
    """A Transformer encoder."""

    title: ClassVar[str] = "Model"
    locations: ClassVar[tuple[str, ...]] = (*_PlainTexts.locations, "start")

    layers: int = setting(4, "Layers of the encoder.")
    pooling: str = setting("mean", "Vector of a text: mean, first or max of its tokens.")


@dataclass(frozen=True, kw_only=True)
class EncodingSettings(BatchSettings, _EncoderNetwork, VocabularySettings, _PlainTexts):
    """The data, the model and the training of an encoder.

    >>> EncodingSettings(data="texts.txt").mask_share
    0.15
    """

    title: ClassVar[str] = "Training"

    max_tokens: int = setting(128, "Tokens of a piece, with special tokens. Longer texts are several pieces.")
    mask_share: float = setting(0.15, "Share of the tokens that the model has to predict.")
    label_smoothing: float = setting(0.0, "Probability that is spread evenly over all tokens.")

    def __post_init__(self):
        super().__post_init__()
        if self.max_tokens < 8:
            raise ArgumentError("max_tokens", f"expected 8 or more, got {self.max_tokens}")
        if not 0 < self.mask_share < 1:
            raise ArgumentError("mask_share", f"expected a share between 0 and 1, got {self.mask_share}")
        if self.pooling not in POOLINGS:
            raise UnknownNameError("pooling", self.pooling, POOLINGS)

    @classmethod
    def complete(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Return a small model if no data is named, and ten epochs if nothing says how long to train."""
        defaults = {"epochs": 10.0} if given.get("data") else dict(DEFAULTS)
        if given.get("start"):
            defaults = {**without_encoder_settings(defaults), **STARTED}
        return {**without_durations(defaults, given), **given}


@dataclass(frozen=True, kw_only=True)
class EncodingEvaluationSettings(Settings):
    """The texts that an encoder is measured on."""

    title: ClassVar[str] = "Data"

    data: str | None = setting(None, "Texts to measure on, one in each line; by default embedded ones.")
    column: str | None = setting(
        None, "Column (number) or field (name) with the text, of TSV, CSV, JSONL, Parquet or hf:NAME."
    )
    skip_bad_rows: bool = setting(False, "Leave out and count rows that cannot be read, instead of stopping.")
    limit: int = setting(0, "Size of a random sample to measure on, 0 for all.")
    seed: int | None = setting(
        None, "Which texts the sample takes and which tokens are hidden; by default 0."
    )

    def __post_init__(self):
        super().__post_init__()
        if self.limit < 0:
            raise ArgumentError("limit", f"expected 0 or more, got {self.limit}")
        for name in ("column", "skip_bad_rows"):
            if self.data is None and getattr(self, name):
                raise ArgumentError(
                    name, f"of no use without {option('data')}", "leave it out, or name the data"
                )
