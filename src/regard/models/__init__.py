"""Recurrent encoder–decoders and Transformers, built on :func:`regard.attention`.

:class:`Encoder`, :class:`Decoder` and the heads of :mod:`regard.models.heads` are the parts of the models
:class:`Transformer` (encoder and decoder), :class:`LanguageModel` (decoder), and :class:`TextClassifier`,
:class:`MaskedLanguageModel` and :class:`SpanReader` (encoder). Encoders and decoders are also models of their own,
which can be saved and loaded. :func:`load_huggingface` loads the folders of BERT, RoBERTa and DistilBERT into them.
:func:`load_language_model` loads Hugging Face folders of Llama, Mistral, Qwen2 and GPT-2, GGUF files and the flat files
of llama2.c. :class:`VisionTransformer` and :class:`Swin` classify images, and :class:`GlimpseModel` reads them in
glimpses. :class:`ConvolutionalClassifier`, :class:`LinearClassifier` and :class:`DensePictureModel` have no attention,
to compare them with.
"""

import warnings
from typing import Any

from regard.models.captioner import CaptionNetwork, CaptionNetworkConfig
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
from regard.models.glimpse import DensePictureModel, GlimpseModel
from regard.models.glimpse_config import DensePictureConfig, GlimpseConfig
from regard.models.head_config import MaskedLanguageModelConfig, SpanReaderConfig
from regard.models.huggingface import HuggingFaceFolder, load_huggingface
from regard.models.image_baselines import (
    ConvolutionalClassifier,
    ConvolutionalClassifierConfig,
    LinearClassifier,
    LinearClassifierConfig,
)
from regard.models.language_files import load_language_model
from regard.models.language_model import LanguageModel
from regard.models.masked_language_model import MaskedLanguageModel
from regard.models.pretrained import load_model
from regard.models.seq2seq import Seq2Seq
from regard.models.span_reader import SpanReader
from regard.models.state import Memory
from regard.models.swin import Swin
from regard.models.text_classifier import TextClassifier
from regard.models.transformer import Transformer
from regard.models.two_way_reader import TwoWayReader, TwoWayReaderConfig
from regard.models.vision_config import SwinConfig, VisionTransformerConfig
from regard.models.vision_transformer import VisionEncoder, VisionTransformer

__all__ = [
    "BlockConfig",
    "CaptionNetwork",
    "CaptionNetworkConfig",
    "ConvolutionalClassifier",
    "ConvolutionalClassifierConfig",
    "Decoder",
    "DecoderConfig",
    "DensePictureConfig",
    "DensePictureModel",
    "Encoder",
    "EncoderConfig",
    "GlimpseConfig",
    "GlimpseModel",
    "HuggingFaceFolder",
    "LanguageModel",
    "LanguageModelConfig",
    "LinearClassifier",
    "LinearClassifierConfig",
    "MaskedLanguageModel",
    "MaskedLanguageModelConfig",
    "Memory",
    "ModelConfig",
    "Seq2Seq",
    "Seq2SeqConfig",
    "SpanReader",
    "SpanReaderConfig",
    "Swin",
    "SwinConfig",
    "TextClassifier",
    "TextClassifierConfig",
    "Transformer",
    "TransformerConfig",
    "TwoWayReader",
    "TwoWayReaderConfig",
    "VisionEncoder",
    "VisionTransformer",
    "VisionTransformerConfig",
    "load_huggingface",
    "load_language_model",
    "load_model",
]

# The config class and the model class for each ``kind`` of a config.
KINDS = {
    "captioner": (CaptionNetworkConfig, CaptionNetwork),
    "classifier": (TextClassifierConfig, TextClassifier),
    "convolutional_classifier": (ConvolutionalClassifierConfig, ConvolutionalClassifier),
    "decoder": (DecoderConfig, Decoder),
    "dense_pictures": (DensePictureConfig, DensePictureModel),
    "encoder": (EncoderConfig, Encoder),
    "glimpse": (GlimpseConfig, GlimpseModel),
    "language_model": (LanguageModelConfig, LanguageModel),
    "linear_classifier": (LinearClassifierConfig, LinearClassifier),
    "masked_language_model": (MaskedLanguageModelConfig, MaskedLanguageModel),
    "seq2seq": (Seq2SeqConfig, Seq2Seq),
    "span_reader": (SpanReaderConfig, SpanReader),
    "swin": (SwinConfig, Swin),
    "transformer": (TransformerConfig, Transformer),
    "two_way_reader": (TwoWayReaderConfig, TwoWayReader),
    "vision_transformer": (VisionTransformerConfig, VisionTransformer),
}

_OLD_NAMES = {"Classifier": "TextClassifier", "ClassifierConfig": "TextClassifierConfig"}


def __getattr__(name: str) -> Any:
    if name not in _OLD_NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=None)
    new_name = _OLD_NAMES[name]
    message = f"regard.models.{name} is now regard.models.{new_name}"
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return globals()[new_name]
