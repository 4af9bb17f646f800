"""The settings of training and evaluating a reader of questions, without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from regard.errors import ArgumentError, UnknownNameError, option
from regard.settings import setting
from regard.tasks.settings import (
    BatchSettings,
    EmbeddedSettings,
    MeasurementSettings,
    PretrainedSettings,
    SourceSettings,
    TransformerSettings,
    VocabularySettings,
    changed,
    reject_unused,
    without_encoder_settings,
)
from regard.training.settings import without_durations

__all__ = ["ARCHITECTURES", "AnswerEvaluationSettings", "AnswerSettings"]

_BLOCKS = ("heads", "kv_heads", "feed_forward", "activation", "norm", "positions", "attention_dropout")
_TWO_WAYS = ("score", "forms", "layers", "width")
# For each kind of model, the settings that not all of them use.
ARCHITECTURES: dict[str, tuple[str, ...]] = {
    "gru": _TWO_WAYS,
    "transformer": (*_BLOCKS, *_TWO_WAYS),
    "joined": ("attention_dropout",),
}
SCORES = ("dot", "scaled_dot", "bilinear", "additive")
EMBEDDED = 10_000

# The settings that are used if no data is named. The model is trained in a few minutes.
DEFAULTS: dict[str, Any] = {
    "embedded": EMBEDDED,
    "vocabulary_size": 2000,
    "width": 64,
    "batch_tokens": 2000,
    "steps": 700,
    "learning_rate": 4e-3,
    "warmup": 50,
    "average": 0.99,
}
# The settings that are used for data of one's own.
FROM_SCRATCH: dict[str, Any] = {"epochs": 8.0, "warmup": 200, "learning_rate": 2e-3, "dropout": 0.3}
# The settings that are used to train all of a pretrained encoder.
FINE_TUNING: dict[str, Any] = {
    "epochs": 3.0,
    "least_steps": 300,
    "warmup": 100,
    "learning_rate": 2e-4,
    "schedule": "linear",
    "average": 0.99,
    "precision": "bfloat16",
    "batch_tokens": 3072,
}


@dataclass(frozen=True, kw_only=True)
class _Questions(EmbeddedSettings, SourceSettings):
    """Questions with contexts and answers."""

    title: ClassVar[str] = "Data"
    default_embedded: ClassVar[int] = EMBEDDED

    data: str | None = setting(
        None, "Training data: SQuAD's JSON (.json) or an object in each line (.jsonl), hf:NAME, or '-'."
    )
    format: str | None = setting(None, "Format (squad or jsonl), if the name of the file does not show it.")
    hold_out: float = setting(
        0.1, "Share of the articles, or of the contexts of few articles, to validate on."
    )
    hold_out_most: int = setting(1000, "Largest number of contexts that are held out to validate on.")
    validate_questions: int = setting(1000, "Questions to validate on, at most.")
    unanswerable: float = setting(
        0.1, "Share of the questions that are also asked of a context without the answer."
    )


@dataclass(frozen=True, kw_only=True)
class _Tokens(VocabularySettings):
    """Tokens of questions and contexts."""

    title: ClassVar[str] = "Vocabulary"

    vocabulary: str = setting("word", "word, bpe, character or byte.")
    vocabulary_size: int = setting(20000, "Entries of the vocabulary, at most.")
    lowercase: bool = setting(True, "Convert everything to lower case.")
    max_tokens: int = setting(384, "Tokens of question and context that are read at once.")
    stride: int = setting(128, "Tokens that two windows of a longer context share.")
    max_answer: int = setting(30, "Tokens of an answer, at most.")


@dataclass(frozen=True, kw_only=True)
class _ReaderNetwork(PretrainedSettings, TransformerSettings):
    """Attention between question and context, or a pretrained encoder that reads both as one sequence."""

    title: ClassVar[str] = "Model"

    architecture: str = setting(
        "gru",
        "gru (bidirectional) or transformer, before and after two-way attention; or joined, a pretrained encoder "
        "that reads question and context as one sequence, which is the default with a start.",
    )
    score: str = setting(
        "bilinear", "Attention between question and context: dot, scaled_dot, bilinear, additive."
    )
    layers: int = setting(1, "Layers before the attention, and as many after it.")
    width: int = setting(128, "Numbers that represent a token.")
    forms: bool = setting(True, "Features of the spelling, and of words that question and context share.")


@dataclass(frozen=True, kw_only=True)
class AnswerSettings(BatchSettings, _ReaderNetwork, _Tokens, _Questions):
    """The data, the model and the training of a reader of questions.

    >>> AnswerSettings(data="questions.json").score
    'bilinear'
    """

    title: ClassVar[str] = "Training"

    label_smoothing: float = setting(0.0, "Probability that is spread evenly over all places of a window.")

    def __post_init__(self):
        super().__post_init__()
        reject_unused(self.architecture, ARCHITECTURES, changed(self))
        if self.architecture == "joined" and self.start is None:
            fix = f"name a pretrained encoder with {option('start')}, or choose gru or transformer"
            raise ArgumentError("architecture", "joined needs an encoder to start from", fix)
        if self.score not in SCORES:
            raise UnknownNameError("score", self.score, SCORES)
        if not 0 <= self.unanswerable <= 1:
            raise ArgumentError("unanswerable", f"expected a share from 0 to 1, got {self.unanswerable}")
        for name in ("hold_out_most", "validate_questions", "max_answer"):
            if getattr(self, name) < 1:
                raise ArgumentError(name, f"expected 1 or more, got {getattr(self, name)}")
        self._check_data()

    def _check_data(self) -> None:
        self.check_embedded_count("questions")
        if self.data is None and (self.valid is not None or self.exclude is not None):
            name = "valid" if self.valid is not None else "exclude"
            raise ArgumentError(name, f"of no use without {option('data')}", "leave it out")
        places = [place for place in (self.data, self.valid, self.exclude) if place is not None]
        if self.format is not None and places and all(place.startswith("hf:") for place in places):
            raise ArgumentError("format", f"of no use with {places[0]}, which is no file", "leave it out")

    @classmethod
    def complete(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Return a small model if no data is named, and a number of epochs if nothing says how long to train."""
        if given.get("start") and "architecture" not in given:
            given = {**given, "architecture": "joined"}
        architecture = given.get("architecture", "gru")
        reject_unused(architecture, ARCHITECTURES, given)
        defaults = dict(FROM_SCRATCH if given.get("data") else DEFAULTS)
        if given.get("start"):
            defaults = without_encoder_settings(defaults)
        if architecture == "joined":
            defaults = dict(FINE_TUNING) | ({} if given.get("data") else {"embedded": EMBEDDED})
        return {**without_durations(defaults, given), **given}


@dataclass(frozen=True, kw_only=True)
class AnswerEvaluationSettings(MeasurementSettings):
    """The questions that a reader is measured on."""

    title: ClassVar[str] = "Data"

    format: str | None = setting(None, "Format (squad or jsonl), if the name of the file does not show it.")
    threshold: float | None = setting(
        None, "Answers below this confidence count as no answer; by default only if some questions have none."
    )
    baseline: bool = setting(False, "Also measure a sliding window of words shared with the question.")
    out: str | None = setting(None, "Write the answers to a file, as the JSON of SQuAD's script.")

    def __post_init__(self):
        super().__post_init__()
        if self.threshold is not None and not 0 <= self.threshold <= 1:
            raise ArgumentError("threshold", f"expected a number from 0 to 1, got {self.threshold}")
