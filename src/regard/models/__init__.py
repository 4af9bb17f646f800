"""Recurrent encoder–decoders and Transformers, built on :func:`regard.attention`."""

from regard.models.config import ModelConfig, Seq2SeqConfig, TransformerConfig
from regard.models.pretrained import load_model
from regard.models.seen import Seen
from regard.models.seq2seq import Seq2Seq
from regard.models.state import Memory
from regard.models.transformer import Transformer

__all__ = [
    "Memory",
    "ModelConfig",
    "Seen",
    "Seq2Seq",
    "Seq2SeqConfig",
    "Transformer",
    "TransformerConfig",
    "load_model",
]

# The config class and the model class for each ``kind`` of a config.
KINDS = {
    "seq2seq": (Seq2SeqConfig, Seq2Seq),
    "transformer": (TransformerConfig, Transformer),
}
