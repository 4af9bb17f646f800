"""The settings of models that are an encoder with one output layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from regard.models.config import EncoderConfig, check_flag, check_name

__all__ = ["MaskedLanguageModelConfig", "SpanReaderConfig"]


@dataclass(frozen=True, kw_only=True)
class MaskedLanguageModelConfig(EncoderConfig):
    """The settings of a :class:`MaskedLanguageModel`, an encoder that predicts hidden tokens.

    ``head_activation`` is the activation between encoder and output layer, "gelu", "gelu_tanh" or "relu". With
    ``tied_output`` the output layer uses the embedding table as its weight.
    """

    kind: ClassVar[str] = "masked_language_model"
    head_activation: str = "gelu"
    tied_output: bool = True

    def __post_init__(self):
        super().__post_init__()
        check_name("head_activation", self.head_activation, ("gelu", "gelu_tanh", "relu"))
        check_flag("tied_output", self.tied_output)


@dataclass(frozen=True, kw_only=True)
class SpanReaderConfig(EncoderConfig):
    """The settings of a :class:`SpanReader`, which are those of its encoder."""

    kind: ClassVar[str] = "span_reader"
