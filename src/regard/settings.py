"""Settings as frozen dataclasses, each field with its default and its help text.

The command line makes its flags from the fields, and option files use their names. Groups of fields are classes of
their own, which the settings of a task inherit.
"""

from __future__ import annotations

import numbers
import typing
from dataclasses import Field, dataclass, field, fields
from typing import Any, ClassVar, Self

from regard.errors import ArgumentError, DtypeError, UnknownArgumentError, did_you_mean

__all__ = ["Settings", "flag_of_field", "part_of", "setting"]


def setting(default: Any, text: str, *, flag: str = "") -> Any:
    """Return a dataclass field with a default and a help text.

    ``flag`` is the flag of the command line, such as "--lr", if it does not follow from the name of the field.
    """
    return field(default=default, metadata={"help": text, "flag": flag})


def flag_of_field(one: Field) -> str:
    """Return the flag that the command line has for a field of settings, such as "--learning-rate"."""
    return one.metadata.get("flag") or "--" + one.name.replace("_", "-")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The base class of all settings, which checks that each value has the type of its field and is no empty text.

    >>> @dataclass(frozen=True, kw_only=True)
    ... class Sizes(Settings):
    ...     width: int = setting(8, "Width of the model.")
    >>> Sizes(width="wide")
    Traceback (most recent call last):
        ...
    regard.errors.DtypeError: width: expected int, got 'wide'
    """

    # The heading of the fields of this class in the help of a command.
    title: ClassVar[str] = "Options"
    # Maps names of fields in files of earlier versions to the present names.
    former_names: ClassVar[dict[str, str]] = {}

    def __post_init__(self):
        for name, hint in typing.get_type_hints(type(self)).items():
            if typing.get_origin(hint) is not ClassVar:
                _check_type(name, getattr(self, name), typing.get_args(hint) or (hint,))

    @classmethod
    def complete(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Return the given values together with defaults that depend on them.

        This one adds nothing. A subclass with such defaults overrides it.
        """
        return given

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """Return the settings with these values by name, which an earlier version may have written.

        Missing values take their defaults. An unknown name raises UnknownArgumentError.
        """
        known = [one.name for one in fields(cls)]
        values = {cls.former_names.get(name, name): value for name, value in values.items()}
        for name in values:
            if name not in known:
                raise UnknownArgumentError(name, "not a known setting", did_you_mean(name, known).strip())
        return cls(**values)


def part_of(settings: Any, config: type) -> dict[str, Any]:
    """Return the values of those fields of ``settings`` that the dataclass ``config`` has too, by name."""
    wanted = {one.name for one in fields(config)}
    return {one.name: getattr(settings, one.name) for one in fields(settings) if one.name in wanted}


# Numbers of NumPy are accepted too.
_NUMBERS: dict[Any, type] = {int: numbers.Integral, float: numbers.Real}


def _check_type(name: str, value: object, kinds: tuple[Any, ...]) -> None:
    if value == "":
        raise ArgumentError(name, "expected a value, got an empty text", "give one, or leave it out")
    abstract: tuple[Any, ...] = tuple(_NUMBERS.get(kind, kind) for kind in kinds)
    if not isinstance(value, abstract) or (isinstance(value, bool) and bool not in kinds):
        words = " or ".join("nothing" if kind is type(None) else kind.__name__ for kind in kinds)
        raise DtypeError(name, f"expected {words}, got {value!r}")
