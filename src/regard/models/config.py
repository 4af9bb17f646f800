"""The settings of the models, which are saved as JSON beside the weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from regard.errors import ArgumentError
from regard.models.block_config import (
    BlockConfig,
    ModelConfig,
    check_flag,
    check_name,
    check_positive,
    check_share,
)
from regard.shapes import whole_number

__all__ = [
    "BlockConfig",
    "DecoderConfig",
    "EncoderConfig",
    "LanguageModelConfig",
    "ModelConfig",
    "Seq2SeqConfig",
    "TextClassifierConfig",
    "TransformerConfig",
    "check_flag",
    "check_name",
    "check_positive",
]

CELLS = ("gru", "lstm")
SCORES = ("dot", "scaled_dot", "additive", "bilinear")
POOLINGS = ("mean", "first", "additive", "multihead")
PROJECTIONS = ("none", "tanh", "relu")


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(BlockConfig):
    """The settings of an :class:`Encoder`.

    With ``layers=0`` it has embeddings and no blocks. ``token_types`` is the number of types of tokens, such as 2 for
    the two sentences of a pair. Each type has a learned vector. With 0 there are no types.
    """

    kind: ClassVar[str] = "encoder"
    vocabulary_size: int
    layers: int = 3
    token_types: int = 0

    def __post_init__(self):
        super().__post_init__()
        whole_number("vocabulary_size", self.vocabulary_size, least=1)
        whole_number("layers", self.layers, least=0)
        whole_number("token_types", self.token_types, least=0)


@dataclass(frozen=True, kw_only=True)
class TextClassifierConfig(EncoderConfig):
    """The settings of a :class:`TextClassifier`, an encoder with a pooling and an output for each of ``classes``.

    - ``pooling`` is "mean", "first" (the vector of the first token), "additive" or "multihead" (attention with
      learned queries).
    - ``pooling_heads`` is the number of heads of "additive" (by default 1) and of "multihead" (by default ``heads``).
      The other poolings ignore it.
    - ``ngrams`` is the largest number of tokens of an n-gram. Above 1, vectors of n-grams, hashed into
      ``ngram_buckets`` rows, are added to those of tokens.
    - ``convolution`` is the odd number of tokens that a convolution on the embedding reads, 0 for none.
    - ``recurrent_layers`` is the number of layers of a bidirectional GRU before the Transformer blocks, 0 for none.
    - ``word_dropout`` is the share of the tokens that are replaced by padding in training.
    - ``projection`` is "none", or the activation "tanh" or "relu" of a linear layer before the output, as in BERT.
    """

    kind: ClassVar[str] = "classifier"
    classes: int
    pooling: str = "mean"
    pooling_heads: int | None = None
    ngrams: int = 1
    ngram_buckets: int = 2**18
    convolution: int = 0
    recurrent_layers: int = 0
    word_dropout: float = 0.0
    projection: str = "none"

    def __post_init__(self):
        super().__post_init__()
        for name, least in (("classes", 1), ("ngrams", 1), ("ngram_buckets", 1), ("recurrent_layers", 0)):
            whole_number(name, getattr(self, name), least=least)
        check_name("pooling", self.pooling, POOLINGS)
        check_name("projection", self.projection, PROJECTIONS)
        check_share("word_dropout", self.word_dropout)
        if whole_number("convolution", self.convolution, least=0) and self.convolution % 2 == 0:
            told = f"expected an odd number of tokens, or 0 for none, got {self.convolution}"
            raise ArgumentError("convolution", told, "the token itself is in the middle")
        if self.recurrent_layers and self.width % 2:
            told = f"expected an even number for a bidirectional GRU, got {self.width}"
            raise ArgumentError("width", told, "each direction takes half of it")
        if self.pooling_heads is not None:
            whole_number("pooling_heads", self.pooling_heads, least=1)
            if self.pooling == "multihead" and self.width % self.pooling_heads:
                told = f"{self.pooling_heads} heads do not divide width = {self.width}"
                raise ArgumentError("pooling_heads", told)

    @property
    def pooling_size(self) -> int:
        """The number of heads of the pooling, with the default in place of None."""
        return self.pooling_heads or (self.heads if self.pooling == "multihead" else 1)


@dataclass(frozen=True, kw_only=True)
class DecoderConfig(BlockConfig):
    """The settings of a :class:`Decoder`.

    ``layers`` is at least 1. With ``cross_attention`` its blocks also attend to the states of an encoder. With a
    ``window`` each token attends to itself and to the ``window - 1`` tokens before it (sliding-window attention).
    """

    kind: ClassVar[str] = "decoder"
    vocabulary_size: int
    layers: int = 3
    cross_attention: bool = False
    window: int | None = None

    def __post_init__(self):
        super().__post_init__()
        whole_number("vocabulary_size", self.vocabulary_size, least=1)
        whole_number("layers", self.layers, least=1)
        if self.window is not None:
            whole_number("window", self.window, least=1)
        check_flag("cross_attention", self.cross_attention)


@dataclass(frozen=True, kw_only=True)
class LanguageModelConfig(DecoderConfig):
    """The settings of a :class:`LanguageModel`.

    With ``tied_output`` the output layer uses the embedding table as its weight. ``output_bias`` gives the output layer
    a bias.
    """

    kind: ClassVar[str] = "language_model"
    tied_output: bool = True
    output_bias: bool = True

    def __post_init__(self):
        super().__post_init__()
        for name in ("tied_output", "output_bias"):
            check_flag(name, getattr(self, name))


@dataclass(frozen=True, kw_only=True)
class EncoderDecoderConfig(ModelConfig):
    """The settings of every model with a source and a target.

    - ``source_size`` and ``target_size`` are the numbers of ids of the two vocabularies.
    - ``shared_embeddings`` uses one embedding table for source and target, which need one vocabulary.
    - ``tied_output`` uses the embedding table of the target as the output layer.
    - ``copy`` lets the model copy source tokens by an attention (pointer-generator), which needs one vocabulary.
    """

    source_size: int
    target_size: int
    shared_embeddings: bool = False
    tied_output: bool = True
    copy: bool = False

    def __post_init__(self):
        super().__post_init__()
        for name in ("source_size", "target_size"):
            whole_number(name, getattr(self, name), least=1)
        for name in ("shared_embeddings", "tied_output", "copy"):
            check_flag(name, getattr(self, name))
        for name in ("shared_embeddings", "copy"):
            if getattr(self, name) and self.source_size != self.target_size:
                raise ArgumentError(
                    name,
                    f"source_size={self.source_size} and target_size={self.target_size} differ",
                    f"use one vocabulary for both sides, or {name}=False",
                )


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(EncoderDecoderConfig, BlockConfig):
    """The settings of a :class:`Transformer`, which has an encoder and a decoder.

    ``encoder_layers`` and ``decoder_layers`` are at least 1.

    >>> TransformerConfig(source_size=100, target_size=100, width=24, heads=5)
    Traceback (most recent call last):
        ...
    regard.errors.ArgumentError: heads: 5 heads do not divide width = 24
    """

    kind: ClassVar[str] = "transformer"
    encoder_layers: int = 3
    decoder_layers: int = 3

    def __post_init__(self):
        super().__post_init__()
        for name, other in (("encoder_layers", "LanguageModel"), ("decoder_layers", "Encoder")):
            if whole_number(name, getattr(self, name), least=0) == 0:
                fix = f"use regard.models.{other} for a model with one stack"
                raise ArgumentError(name, "a Transformer has an encoder and a decoder, got 0 layers", fix)

    def encoder_config(self) -> EncoderConfig:
        """Return the settings of the encoder."""
        return self.part(EncoderConfig, vocabulary_size=self.source_size, layers=self.encoder_layers)

    def decoder_config(self) -> DecoderConfig:
        """Return the settings of the decoder."""
        return self.part(
            DecoderConfig, vocabulary_size=self.target_size, layers=self.decoder_layers, cross_attention=True
        )


@dataclass(frozen=True, kw_only=True)
class Seq2SeqConfig(EncoderDecoderConfig):
    """The settings of a :class:`Seq2Seq`, a recurrent encoder and decoder.

    - ``cell`` is "gru" or "lstm".
    - ``attention`` is the score of the attention, "dot", "scaled_dot", "additive" or "bilinear". With None the decoder
      sees one fixed context vector.
    - ``encoder_layers`` and ``decoder_layers`` are at least 1. ``width`` is even.
    - ``input_feeding`` gives each decoder step the attentional hidden state of the step before it. It has no effect
      without attention.
    """

    kind: ClassVar[str] = "seq2seq"
    cell: str = "gru"
    attention: str | None = "additive"
    encoder_layers: int = 1
    decoder_layers: int = 1
    input_feeding: bool = True

    def __post_init__(self):
        super().__post_init__()
        for name in ("encoder_layers", "decoder_layers"):
            whole_number(name, getattr(self, name), least=1)
        check_flag("input_feeding", self.input_feeding)
        check_name("cell", self.cell, CELLS)
        if self.width % 2:
            raise ArgumentError(
                "width", f"expected an even number, got {self.width}", "each direction takes half of it"
            )
        if self.attention is not None:
            check_name("attention", self.attention, SCORES)
        elif self.copy:
            problem = "copying follows the attention, but attention=None"
            raise ArgumentError("copy", problem, f"choose an attention of {', '.join(SCORES)}")
