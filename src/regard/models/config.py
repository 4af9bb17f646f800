"""The settings of the models, which are saved as JSON beside the weights."""

from __future__ import annotations

import math
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, ClassVar, Self, TypeVar

from regard.errors import ArgumentError, DtypeError, UnknownArgumentError, UnknownNameError, did_you_mean
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
]

POSITIONS = ("sinusoidal", "learned", "rotary", "alibi", "relative", "none")
ACTIVATIONS = ("gelu", "gelu_tanh", "relu", "swiglu")
NORMS = ("pre", "post")
NORM_TYPES = ("layer", "rms")
ROTARY_LAYOUTS = ("gpt-j", "llama")
CELLS = ("gru", "lstm")
SCORES = ("dot", "scaled_dot", "additive", "bilinear")
POOLINGS = ("mean", "first", "additive", "multihead")
PROJECTIONS = ("none", "tanh", "relu")

AnyConfig = TypeVar("AnyConfig", bound="ModelConfig")


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The settings that every model has.

    ``kind`` names the model in ``config.json``. ``width`` is the size of a state, m in shapes. ``dropout`` is the share
    of numbers that are set to zero in training, from 0 to below 1.
    """

    kind: ClassVar[str]
    width: int = 256
    dropout: float = 0.1

    def __post_init__(self):
        whole_number("width", self.width, least=1)
        check_share("dropout", self.dropout)

    def to_json(self) -> dict[str, Any]:
        """Return the settings and the kind of the model as a JSON object."""
        return {"kind": self.kind, **asdict(self)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """Make a config from the JSON object that :meth:`to_json` returned.

        Missing settings take their defaults. A setting without a default that is missing, an unknown setting, or the
        ``kind`` of another model raises ArgumentError.

        >>> TransformerConfig.from_json({"source_size": 9, "target_size": 9, "widht": 8})
        Traceback (most recent call last):
            ...
        regard.errors.UnknownArgumentError: widht: not a setting of a transformer: did you mean 'width'?
        """
        kind = values.get("kind", cls.kind)
        if kind != cls.kind:
            raise ArgumentError("kind", f"the settings of a {kind}, not of a {cls.kind}")
        known = [field.name for field in fields(cls)]
        for name in values:
            if name not in known and name != "kind":
                fix = did_you_mean(name, known).strip()
                raise UnknownArgumentError(name, f"not a setting of a {cls.kind}", fix)
        for field in fields(cls):
            if field.default is MISSING and field.name not in values:
                raise ArgumentError(field.name, f"missing from the settings of a {cls.kind}")
        return cls(**{name: value for name, value in values.items() if name != "kind"})

    def part(self, config_class: type[AnyConfig], **settings: Any) -> AnyConfig:
        """Make the config of a part of this model, such as its encoder.

        The settings that both classes have are copied. ``settings`` are added to them or replace them.

        >>> config = TransformerConfig(source_size=7, target_size=9, width=8)
        >>> config.part(EncoderConfig, vocabulary_size=7).width
        8
        """
        common = {field.name for field in fields(config_class)} & {field.name for field in fields(self)}
        return config_class(**{name: getattr(self, name) for name in common} | settings)


@dataclass(frozen=True, kw_only=True)
class BlockConfig(ModelConfig):
    """The settings of Transformer blocks and of the positions of their tokens.

    - ``heads`` is the number of query heads, which must divide ``width``.
    - ``kv_heads`` is the number of heads of keys and values, each shared by a group of query heads. With None there are
      as many as query heads.
    - ``feed_forward`` is the width between the two projections of the feed-forward layer.
    - ``activation`` is "gelu", "gelu_tanh", "relu" or "swiglu".
    - ``bias=False`` leaves out the biases of all projections.
    - ``norm`` places the norms before ("pre") or after ("post") each part of a block.
    - ``norm_type`` is "layer" (layer norm) or "rms" (RMS norm), with ``norm_epsilon`` added to the variance.
    - ``embedding_norm`` adds a norm after the embedding.
    - ``scaled_embeddings`` multiplies token vectors by the square root of the width.
    - ``positions`` is "sinusoidal" or "learned" (added to token vectors), "rotary", "alibi" or "relative" (applied in
      self-attention), or "none".
    - ``rotary_layout`` and ``rotary_base`` are those of :class:`regard.Rotary`.
    - ``attention_dropout`` is the dropout of attention weights, and ``dropout`` that of all other layers.
    - ``max_length`` is the number of learned positions. A longer input then raises ShapeError. Other positions have no
      limit.
    """

    heads: int = 4
    kv_heads: int | None = None
    feed_forward: int = 1024
    activation: str = "gelu"
    bias: bool = True
    norm: str = "pre"
    norm_type: str = "layer"
    norm_epsilon: float = 1e-5
    embedding_norm: bool = False
    scaled_embeddings: bool = True
    positions: str = "sinusoidal"
    rotary_layout: str = "gpt-j"
    rotary_base: float = 10000.0
    attention_dropout: float = 0.0
    max_length: int = 1024

    def __post_init__(self):
        super().__post_init__()
        for name in ("heads", "feed_forward", "max_length"):
            whole_number(name, getattr(self, name), least=1)
        self._check_heads()
        check_share("attention_dropout", self.attention_dropout)
        check_name("activation", self.activation, ACTIVATIONS)
        check_name("norm", self.norm, NORMS)
        check_name("norm_type", self.norm_type, NORM_TYPES)
        check_name("positions", self.positions, POSITIONS)
        check_name("rotary_layout", self.rotary_layout, ROTARY_LAYOUTS)
        for name in ("norm_epsilon", "rotary_base"):
            check_positive(name, getattr(self, name))
        for name in ("bias", "embedding_norm", "scaled_embeddings"):
            check_flag(name, getattr(self, name))
        if self.positions == "rotary" and self.width // self.heads % 2:
            raise ArgumentError(
                "positions",
                f"rotary positions rotate pairs of columns, but heads are {self.width // self.heads} wide",
                "choose width and heads so that width / heads is even",
            )

    def _check_heads(self) -> None:
        if self.width % self.heads:
            raise ArgumentError("heads", f"{self.heads} heads do not divide width = {self.width}")
        if self.kv_heads is None:
            return
        whole_number("kv_heads", self.kv_heads, least=1)
        if self.heads % self.kv_heads:
            raise ArgumentError("kv_heads", f"{self.kv_heads} does not divide the {self.heads} heads")


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

    ``layers`` is at least 1. With ``cross_attention`` its blocks also attend to the states of an encoder.
    """

    kind: ClassVar[str] = "decoder"
    vocabulary_size: int
    layers: int = 3
    cross_attention: bool = False

    def __post_init__(self):
        super().__post_init__()
        whole_number("vocabulary_size", self.vocabulary_size, least=1)
        whole_number("layers", self.layers, least=1)
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
    """

    source_size: int
    target_size: int
    shared_embeddings: bool = False
    tied_output: bool = True

    def __post_init__(self):
        super().__post_init__()
        for name in ("source_size", "target_size"):
            whole_number(name, getattr(self, name), least=1)
        for name in ("shared_embeddings", "tied_output"):
            check_flag(name, getattr(self, name))
        if self.shared_embeddings and self.source_size != self.target_size:
            raise ArgumentError(
                "shared_embeddings",
                f"source_size={self.source_size} and target_size={self.target_size} differ",
                "use one vocabulary for both sides, or shared_embeddings=False",
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


def check_name(argument: str, value: str, known: tuple[str, ...]) -> None:
    """Raise UnknownNameError unless ``value`` is one of the known names."""
    if value not in known:
        raise UnknownNameError(argument, value, known)


def check_share(argument: str, value: float) -> None:
    """Raise ArgumentError unless ``value`` is a number from 0 to below 1."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1:
        raise ArgumentError(argument, f"expected a share from 0 to below 1, got {value!r}")


def check_positive(argument: str, value: float) -> None:
    """Raise ArgumentError unless ``value`` is a finite number above 0."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < math.inf:
        raise ArgumentError(argument, f"expected a number above 0, got {value!r}")


def check_flag(argument: str, value: object) -> None:
    """Raise DtypeError unless ``value`` is True or False."""
    if not isinstance(value, bool):
        raise DtypeError(argument, f"expected True or False, got {value!r}")
