"""What a model is built from, as values that are saved beside its weights."""

from __future__ import annotations

from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, ClassVar, Self

from regard.errors import ArgumentError, DtypeError, UnknownArgumentError, UnknownNameError, did_you_mean
from regard.shapes import whole_number

__all__ = ["ModelConfig", "Seq2SeqConfig", "TransformerConfig"]

POSITIONS = ("sinusoidal", "learned", "rotary", "alibi", "relative", "none")
ACTIVATIONS = ("gelu", "relu", "swiglu")
NORMS = ("pre", "post")
CELLS = ("gru", "lstm")
SCORES = ("dot", "scaled_dot", "additive", "bilinear")


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """What every model has: its vocabularies' sizes, its width, and how much it drops in training."""

    kind: ClassVar[str]
    source_size: int
    target_size: int
    width: int = 256
    dropout: float = 0.1
    shared_embeddings: bool = False  # one table for source and target: needs one vocabulary for both
    tied_output: bool = True  # the output layer is the target's embedding table

    def __post_init__(self):
        for name in ("source_size", "target_size", "width"):
            whole_number(name, getattr(self, name), least=1)
        check_share("dropout", self.dropout)
        for name in ("shared_embeddings", "tied_output"):
            check_flag(name, getattr(self, name))
        if self.shared_embeddings and self.source_size != self.target_size:
            raise ArgumentError(
                "shared_embeddings",
                f"source_size={self.source_size} and target_size={self.target_size} differ",
                "use one vocabulary for both sides, or shared_embeddings=False",
            )

    def to_json(self) -> dict[str, Any]:
        """The values, and which model they are for."""
        return {"kind": self.kind, **asdict(self)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """The config that :meth:`to_json` wrote.

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


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(ModelConfig):
    """Encoder and decoder; with ``decoder_layers=0`` an encoder (BERT), with ``encoder_layers=0`` a decoder (GPT).

    >>> TransformerConfig(source_size=100, target_size=100, width=24, heads=5)
    Traceback (most recent call last):
        ...
    regard.errors.ArgumentError: heads: 5 heads do not divide width = 24
    """

    kind: ClassVar[str] = "transformer"
    heads: int = 4
    kv_heads: int | None = None  # fewer heads for keys and values, each shared by a group
    encoder_layers: int = 3
    decoder_layers: int = 3
    feed_forward: int = 1024
    activation: str = "gelu"
    norm: str = "pre"
    positions: str = "sinusoidal"
    attention_dropout: float = 0.0
    max_length: int = 1024  # of learned positions; the others have no limit

    def __post_init__(self):
        super().__post_init__()
        for name in ("heads", "feed_forward", "max_length"):
            whole_number(name, getattr(self, name), least=1)
        for name in ("encoder_layers", "decoder_layers"):
            whole_number(name, getattr(self, name), least=0)
        if not self.encoder_layers and not self.decoder_layers:
            raise ArgumentError("decoder_layers", "a Transformer needs at least one layer, got 0 and 0")
        self._check_heads()
        check_share("attention_dropout", self.attention_dropout)
        check_name("activation", self.activation, ACTIVATIONS)
        check_name("norm", self.norm, NORMS)
        check_name("positions", self.positions, POSITIONS)
        if self.positions == "rotary" and self.width // self.heads % 2:
            raise ArgumentError(
                "positions",
                f"rotary turns pairs of columns, but heads are {self.width // self.heads} wide",
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
class Seq2SeqConfig(ModelConfig):
    """Recurrent encoder and decoder; ``attention=None`` leaves one fixed context vector between them."""

    kind: ClassVar[str] = "seq2seq"
    cell: str = "gru"
    attention: str | None = "additive"
    encoder_layers: int = 1
    decoder_layers: int = 1
    input_feeding: bool = True  # each step also reads what the step before it had found

    def __post_init__(self):
        super().__post_init__()
        for name in ("encoder_layers", "decoder_layers"):
            whole_number(name, getattr(self, name), least=1)
        check_flag("input_feeding", self.input_feeding)
        check_name("cell", self.cell, CELLS)
        if self.width % 2:
            raise ArgumentError(
                "width", f"expected an even number, got {self.width}", "half for each direction"
            )
        if self.attention is not None:
            check_name("attention", self.attention, SCORES)


def check_name(argument: str, value: str, known: tuple[str, ...]) -> None:
    """Refuse a name that is not one of those known."""
    if value not in known:
        raise UnknownNameError(argument, value, known)


def check_share(argument: str, value: float) -> None:
    """Refuse what is not a share from 0 to below 1."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1:
        raise ArgumentError(argument, f"expected a share from 0 to below 1, got {value!r}")


def check_flag(argument: str, value: object) -> None:
    """Refuse what is not True or False."""
    if not isinstance(value, bool):
        raise DtypeError(argument, f"expected True or False, got {value!r}")
