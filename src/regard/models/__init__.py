"""Recurrent encoder–decoders and Transformers, built on :func:`regard.attention`.

:class:`Encoder`, :class:`Decoder` and the heads of :mod:`regard.models.heads` are the parts of the models
:class:`Transformer` (encoder and decoder), :class:`LanguageModel` (decoder) and :class:`TextClassifier` (encoder).
Encoders and decoders are also models of their own, which can be saved and loaded.
"""

import warnings
from typing import Any

from regard.models.config import (
    BlockConfig,
    DecoderConfig,
    EncoderConfig,
    LanguageModelConfig,
    ModelConfig,
    Seq2SeqConfig,
    TextClassifierConfig,
    TransformerConfig,
)
from regard.models.decoder import Decoder
from regard.models.encoder import Encoder
from regard.models.language_model import LanguageModel
from regard.models.pretrained import load_model
from regard.models.seq2seq import Seq2Seq
from regard.models.state import Memory
from regard.models.text_classifier import TextClassifier
from regard.models.transformer import Transformer

__all__ = [
    "BlockConfig",
    "Decoder",
    "DecoderConfig",
    "Encoder",
    "EncoderConfig",
    "LanguageModel",
    "LanguageModelConfig",
    "Memory",
    "ModelConfig",
    "Seq2Seq",
    "Seq2SeqConfig",
    "TextClassifier",
    "TextClassifierConfig",
    "Transformer",
    "TransformerConfig",
    "load_model",
]

# The config class and the model class for each ``kind`` of a config.
KINDS = {
    "classifier": (TextClassifierConfig, TextClassifier),
    "decoder": (DecoderConfig, Decoder),
    "encoder": (EncoderConfig, Encoder),
    "language_model": (LanguageModelConfig, LanguageModel),
    "seq2seq": (Seq2SeqConfig, Seq2Seq),
    "transformer": (TransformerConfig, Transformer),
}

_OLD_NAMES = {"Classifier": "TextClassifier", "ClassifierConfig": "TextClassifierConfig"}


def __getattr__(name: str) -> Any:
    if name not in _OLD_NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=None)
    new_name = _OLD_NAMES[name]
    message = f"regard.models.{name} is now regard.models.{new_name}"
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return globals()[new_name]
