"""Recurrent encoder–decoders and Transformers, built on :func:`regard.attention`.

:class:`Encoder`, :class:`Decoder` and the heads of :mod:`regard.models.heads` are the parts of the models
:class:`Transformer` (encoder and decoder), :class:`LanguageModel` (decoder) and :class:`Classifier` (encoder). Encoders
and decoders are also models of their own, which can be saved and loaded.
"""

from regard.models.classifier import Classifier
from regard.models.config import (
    BlockConfig,
    ClassifierConfig,
    DecoderConfig,
    EncoderConfig,
    LanguageModelConfig,
    ModelConfig,
    Seq2SeqConfig,
    TransformerConfig,
)
from regard.models.decoder import Decoder
from regard.models.encoder import Encoder
from regard.models.language_model import LanguageModel
from regard.models.pretrained import load_model
from regard.models.seq2seq import Seq2Seq
from regard.models.state import Memory
from regard.models.transformer import Transformer

__all__ = [
    "BlockConfig",
    "Classifier",
    "ClassifierConfig",
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
    "Transformer",
    "TransformerConfig",
    "load_model",
]

# The config class and the model class for each ``kind`` of a config.
KINDS = {
    "classifier": (ClassifierConfig, Classifier),
    "decoder": (DecoderConfig, Decoder),
    "encoder": (EncoderConfig, Encoder),
    "language_model": (LanguageModelConfig, LanguageModel),
    "seq2seq": (Seq2SeqConfig, Seq2Seq),
    "transformer": (TransformerConfig, Transformer),
}
