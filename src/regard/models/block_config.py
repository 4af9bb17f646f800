"""The settings that all models have, those of Transformer blocks, and the checks of settings."""

from __future__ import annotations

import math
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, ClassVar, Self, TypeVar

from regard.errors import (
    ArgumentError,
    DtypeError,
    UnknownArgumentError,
    UnknownNameError,
    did_you_mean,
    renamed,
)
from regard.positions.scaling import check_scaling
from regard.shapes import whole_number

__all__ = ["BlockConfig", "ModelConfig", "check_flag", "check_name", "check_positive", "check_share"]

POSITIONS = ("sinusoidal", "learned", "rotary", "alibi", "relative", "none")
ACTIVATIONS = ("gelu", "gelu_tanh", "relu", "swiglu")
NORMS = ("pre", "post")
NORM_TYPES = ("layer", "rms")
ROTARY_LAYOUTS = ("gpt-j", "llama")

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

        >>> from regard.models import TransformerConfig
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

        >>> from regard.models import EncoderConfig, TransformerConfig
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
    - ``bias=False`` leaves out the biases of all projections. ``qkv_bias`` replaces it for the queries, keys and values
      of attention, and ``attention_output_bias`` for the output of attention, unless they are None.
    - ``norm`` places the norms before ("pre") or after ("post") each part of a block.
    - ``norm_type`` is "layer" (layer norm) or "rms" (RMS norm), with ``norm_epsilon`` added to the variance.
    - ``embedding_norm`` adds a norm after the embedding.
    - ``scaled_embeddings`` multiplies token vectors by the square root of the width.
    - ``positions`` is "sinusoidal" or "learned" (added to token vectors), "rotary", "alibi" or "relative" (applied in
      self-attention), or "none".
    - ``rotary_layout``, ``rotary_base`` and ``rotary_scaling`` are those of :class:`regard.Rotary`.
    - ``attention_dropout`` is the dropout of attention weights, and ``dropout`` that of all other layers.
    - ``max_length`` is the number of learned positions. A longer input then raises ShapeError. Other positions have no
      limit.
    """

    heads: int = 4
    kv_heads: int | None = None
    feed_forward: int = 1024
    activation: str = "gelu"
    bias: bool = True
    qkv_bias: bool | None = None
    attention_output_bias: bool | None = None
    norm: str = "pre"
    norm_type: str = "layer"
    norm_epsilon: float = 1e-5
    embedding_norm: bool = False
    scaled_embeddings: bool = True
    positions: str = "sinusoidal"
    rotary_layout: str = "gpt-j"
    rotary_base: float = 10000.0
    rotary_scaling: dict[str, Any] | None = None
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
        for name in ("qkv_bias", "attention_output_bias"):
            if getattr(self, name) is not None:
                check_flag(name, getattr(self, name))
        self._check_rotary()

    def _check_rotary(self) -> None:
        if self.rotary_scaling is not None:
            with renamed(scaling="rotary_scaling"):
                check_scaling(self.rotary_scaling)
            if self.positions != "rotary":
                told = f"there is no rotation to scale with positions={self.positions!r}"
                raise ArgumentError("rotary_scaling", told)
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
