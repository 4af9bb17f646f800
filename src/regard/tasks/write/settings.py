"""The settings of training and measuring a writer, without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from regard.errors import ArgumentError, option
from regard.settings import Settings, setting
from regard.tasks.plain_texts import PlainTextSettings
from regard.tasks.settings import BatchSettings, TokenSettings, TransformerSettings
from regard.training.settings import without_durations

__all__ = ["WritingEvaluationSettings", "WritingSettings"]

VOCABULARIES = ("character", "bpe", "byte")

# The settings that are used if no data is named. The model is trained in about a minute.
DEFAULTS: dict[str, Any] = {
    "embedded": 30_000,
    "width": 96,
    "layers": 3,
    "feed_forward": 256,
    "context": 96,
    "steps": 600,
    "validate_every": 300,
}


@dataclass(frozen=True, kw_only=True)
class _OneText(PlainTextSettings):
    """A text to train and validate on."""

    title: ClassVar[str] = "Data"
    default_embedded: ClassVar[int] = DEFAULTS["embedded"]

    valid: str | None = setting(
        None, "Validation text. Without it, the end of the training text is held out."
    )
    hold_out: float = setting(0.1, "Share of the characters, at the end of the text, to validate on.")


@dataclass(frozen=True, kw_only=True)
class _Tokens(TokenSettings):
    """The tokens that a writer writes."""

    title: ClassVar[str] = "Vocabulary"

    vocabulary: str = setting("character", "character, bpe (byte pairs) or byte.")
    vocabulary_size: int = setting(2000, "Entries of the vocabulary, at most.")

    def __post_init__(self):
        super().__post_init__()
        if self.vocabulary == "word":
            problem = "words do not give back the spaces and line ends of a text"
            raise ArgumentError("vocabulary", problem, f"choose one of {', '.join(VOCABULARIES)}")


@dataclass(frozen=True, kw_only=True)
class _WriterNetwork(TransformerSettings):
    """A Transformer decoder."""

    title: ClassVar[str] = "Model"

    width: int = setting(128, "Numbers that represent a token.")
    layers: int = setting(4, "Layers of the model.")
    feed_forward: int = setting(384, "Width of the feed-forward layers.")
    activation: str = setting("swiglu", "gelu, gelu_tanh, relu or swiglu.")
    norm_type: str = setting("rms", "Kind of norm: rms or layer.")
    positions: str = setting("rotary", "sinusoidal, learned, rotary, alibi, relative or none.")
    bias: bool = setting(False, "Biases in all projections.")
    tied_output: bool = setting(False, "Use the table of the embedding in the output layer.")
    dropout: float = setting(0.0, "Share of the activations dropped in training.")
    context: int = setting(128, "Tokens that the model reads at once.")


@dataclass(frozen=True, kw_only=True)
class WritingSettings(BatchSettings, _WriterNetwork, _Tokens, _OneText):
    """The data, the model and the training of a writer.

    >>> WritingSettings(data="plays.txt").context
    128
    """

    title: ClassVar[str] = "Training"

    batch_tokens: int = setting(2048, "Tokens of a batch.")
    label_smoothing: float = setting(0.0, "Probability that is spread evenly over all tokens.")
    optimizer: str = setting(
        "muon", "adamw, or muon for the matrices inside the blocks and adamw for the rest."
    )
    learning_rate: float = setting(1e-2, "The highest learning rate.")
    warmup: int = setting(50, "Steps until the highest learning rate is reached.")
    schedule: str = setting("linear", "linear, cosine, inverse_sqrt or constant.")
    precision: str = setting("auto", "float32, bfloat16, or auto for bfloat16 where the machine has it.")
    average: float = setting(0.0, "Decay of the exponential average of the weights, 0 for none.")

    def __post_init__(self):
        super().__post_init__()
        if self.context < 8:
            raise ArgumentError("context", f"expected 8 or more, got {self.context}")
        if self.batch_tokens < self.context:
            problem = f"{self.batch_tokens} tokens hold no part of {option('context', self.context)} tokens"
            raise ArgumentError("batch_tokens", problem)

    @classmethod
    def complete(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Return a small model if no data is named, and 2,000 steps if nothing says how long to train."""
        defaults = {"steps": 2000} if given.get("data") else dict(DEFAULTS)
        return {**without_durations(defaults, given), **given}


@dataclass(frozen=True, kw_only=True)
class WritingEvaluationSettings(Settings):
    """The text that a writer is measured on."""

    title: ClassVar[str] = "Data"

    data: str | None = setting(None, "Text to measure on, also .gz; by default embedded sentences.")
    last: float = setting(1.0, "Share of the characters, at the end of the text, to measure on.")
    skip_bad_rows: bool = setting(
        False, "Leave out and count lines that cannot be read, instead of stopping."
    )

    def __post_init__(self):
        super().__post_init__()
        if not 0 < self.last <= 1:
            raise ArgumentError("last", f"expected a share above 0 and up to 1, got {self.last}")
        for name, unset in (("skip_bad_rows", False), ("last", 1.0)):
            if self.data is None and getattr(self, name) != unset:
                raise ArgumentError(
                    name, f"of no use without {option('data')}", "leave it out, or name the data"
                )
