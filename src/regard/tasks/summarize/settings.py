"""The settings of training and evaluating a summariser, without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from regard.errors import ArgumentError, option
from regard.settings import setting
from regard.tasks.search_settings import BeamSearchSettings
from regard.tasks.settings import (
    BatchSettings,
    DataSettings,
    EmbeddedSettings,
    EncoderDecoderSettings,
    EvaluationSettings,
    VocabularySettings,
)

__all__ = ["DEFAULTS", "SummaryEvaluationSettings", "SummarySettings"]

# The settings that are used if no data is named. The model learns the reports of the embedded corpus in some minutes.
DEFAULTS: dict[str, Any] = {
    "embedded": 12_000,
    "vocabulary_size": 1500,
    "width": 96,
    "heads": 4,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "feed_forward": 192,
    "dropout": 0.0,
    "label_smoothing": 0.0,
    "batch_tokens": 1500,
    "steps": 1500,
    "learning_rate": 3e-3,
    "warmup": 150,
    "average": 0.995,
    "validate_texts": 200,
}


@dataclass(frozen=True, kw_only=True)
class _Summaries(EmbeddedSettings, DataSettings):
    """Texts and their summaries."""

    title: ClassVar[str] = "Data"
    default_embedded: ClassVar[int] = DEFAULTS["embedded"]

    columns: str | None = setting(
        None, "Columns (numbers) or fields (names) of text and summary; known names are found."
    )
    embedded: int | None = setting(
        None, "Reports of the embedded corpus to add to the data, or to train on where there is none."
    )
    embedded_seed: int = setting(0, "Seed of the reports of the embedded corpus.")
    test_share: float = setting(
        0.0, "Share of the data that is kept as a test part, by a hash of the text; never trained on."
    )
    test_seed: int = setting(0, "Seed of the hash that chooses the test part.")


@dataclass(frozen=True, kw_only=True)
class _Tokens(VocabularySettings):
    """Tokens of texts and of summaries, in one vocabulary."""

    title: ClassVar[str] = "Vocabulary"

    lowercase: bool = setting(
        True, "Convert everything to lower case. Summaries get the capitals of their text."
    )
    max_tokens: int = setting(250, "Tokens that are read of a text. The end of a longer one is cut off.")
    max_summary: int = setting(60, "Tokens of a summary, at most. Longer ones are left out of the training.")


@dataclass(frozen=True, kw_only=True)
class _SummarizerNetwork(EncoderDecoderSettings):
    """A Transformer or a recurrent network that may copy words."""

    title: ClassVar[str] = "Model"
    defaults_without_data: ClassVar[dict[str, Any]] = DEFAULTS

    decoder_layers: int = setting(2, "Layers of the decoder.")
    copy: bool = setting(True, "Copy words of the text where it helps, such as names (pointer-generator).")


@dataclass(frozen=True, kw_only=True)
class SummarySettings(BatchSettings, _SummarizerNetwork, _Tokens, _Summaries):
    """The data, the model and the training of a summariser.

    >>> SummarySettings(data="papers.tsv").copy
    True
    """

    title: ClassVar[str] = "Training"
    changeable: ClassVar[tuple[str, ...]] = (*BatchSettings.changeable, "validate_texts")

    validate_texts: int = setting(300, "Texts that are summarised to validate.")

    def __post_init__(self):
        super().__post_init__()
        for name in ("validate_texts", "max_summary"):
            if getattr(self, name) < 1:
                raise ArgumentError(name, f"expected 1 or more, got {getattr(self, name)}")
        self.check_embedded_count("texts")
        self._check_test_part()

    def _check_test_part(self) -> None:
        if not 0 <= self.test_share < 1:
            raise ArgumentError("test_share", f"expected a share from 0 to below 1, got {self.test_share}")
        if self.test_share and not self.data:
            raise ArgumentError("test_share", f"of no use without {option('data')}", "leave it out")
        if self.test_seed and not self.test_share:
            fix = f"add {option('test_share')}"
            raise ArgumentError("test_seed", "of no use without a test part", fix)


@dataclass(frozen=True, kw_only=True)
class SummaryEvaluationSettings(BeamSearchSettings, EvaluationSettings):
    """The texts that a summariser is measured on, and how it summarises."""

    title: ClassVar[str] = "Summaries"

    test_part: bool = setting(
        False, "Measure the test part of the data alone, as the training of the model kept it."
    )
    stemmer: bool = setting(True, "Cut the endings of words off before they are compared.")

    def __post_init__(self):
        super().__post_init__()
        if self.test_part and not self.data:
            fix = f"name the data with {option('data')}"
            raise ArgumentError("test_part", f"of no use without {option('data')}", fix)
        if self.test_part and self.out is not None:
            problem = "its lines would be those of the test part, not of the data"
            raise ArgumentError("out", problem, f"leave out {option('test_part')}")
