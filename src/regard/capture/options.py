"""The options of ``capture()`` that choose layers, heads and modules, checked before the model runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch import nn

from regard.capture.reading.axes import AxisLetters
from regard.capture.reading.kinds import is_attention
from regard.capture.reading.module_choice import ModuleChoice
from regard.errors import ArgumentError, DtypeError, UnknownNameError, did_you_mean
from regard.shapes import whole_number

__all__ = ["as_layers", "as_modules", "as_numbers"]

# The number of names that an error gives as examples.
_EXAMPLES = 5


def as_numbers(name: str, value: int | Iterable[int]) -> list[int]:
    """Return one or several numbers as a list, or raise an error if one occurs twice."""
    if isinstance(value, slice):
        raise DtypeError(name, f"expected a number or a list of numbers, got {value}", "use range(...)")
    numbers = [whole_number(name, n) for n in (value if isinstance(value, Iterable) else [value])]
    if not numbers:
        raise ArgumentError(name, "expected at least one number")
    twice = [n for n, count in Counter(numbers).items() if count > 1]
    if twice:
        raise ArgumentError(name, f"{twice[0]} is there {numbers.count(twice[0])} times", "give each once")
    return numbers


def as_layers(layers: int | Iterable[int] | slice | None) -> Any:
    """Return the layer numbers to keep as a collection, or None for all layers."""
    if layers is None:
        return None
    return _Slice(layers) if isinstance(layers, slice) else set(as_numbers("layers", layers))


class _Slice:
    """The layer numbers of a slice, since the number of layers is not known before the model runs."""

    def __init__(self, wanted: slice):
        start, stop, step = (
            None if n is None else whole_number("layers", n, bits=None)
            for n in (wanted.start, wanted.stop, wanted.step)
        )
        if any(n is not None and n < 0 for n in (start, stop, step)):
            raise ArgumentError("layers", f"a slice from the end, {wanted}, needs the number of layers")
        if step == 0 or (stop is not None and stop <= (start or 0)):
            why = "its step is 0" if step == 0 else "it ends where it starts, or before"
            raise ArgumentError("layers", f"{wanted} holds no layer: {why}", "for example slice(0, 5)")
        self._start, self._stop, self._step = start or 0, stop, step or 1

    def __contains__(self, layer: object) -> bool:
        if not isinstance(layer, int) or layer < self._start:
            return False
        return (self._stop is None or layer < self._stop) and (layer - self._start) % self._step == 0


def as_modules(
    names: Mapping[nn.Module, str],
    modules: ModuleChoice | Iterable[ModuleChoice] | Mapping[ModuleChoice, str | None] | None,
) -> dict[ModuleChoice, AxisLetters | None]:
    """Return the modules that the user chose, with the axis letters of each.

    ``names`` holds the name of every module of the model.
    """
    wanted: dict[ModuleChoice, AxisLetters | None] = {}
    for entry, letters in _entries(modules):
        _check_module(entry, names)
        wanted[entry] = None if letters is None else AxisLetters.read(letters)
    return wanted


def _entries(modules: Any) -> Sequence[tuple[Any, Any]]:
    if modules is None:
        return []
    if isinstance(modules, Mapping):
        return list(modules.items())
    if isinstance(modules, str | nn.Module | type):
        return [(modules, None)]
    if not isinstance(modules, Iterable):
        raise DtypeError("modules", f"expected names, modules or classes, got {modules!r}")
    return [(entry, None) for entry in modules]


def _check_module(entry: object, names: Mapping[nn.Module, str]) -> None:
    """Raise an error for an entry of ``modules=`` that matches no module of the model."""
    if isinstance(entry, str):
        if entry not in names.values():
            raise UnknownNameError("modules", entry, _likely_first(names, names.values()))
    elif isinstance(entry, nn.Module):
        if entry not in names:
            raise _absent(f"this {type(entry).__name__} is not a module of the model", entry, names)
    elif isinstance(entry, type):
        if not any(isinstance(module, entry) for module in names):
            raise _absent(f"the model has no module of the class {entry.__name__}", entry, names)
        if not issubclass(entry, nn.Module):
            raise DtypeError("modules", f"expected a class of modules, got {entry.__name__}")
    else:
        raise DtypeError("modules", f"expected names, modules or classes, got {type(entry).__name__}")


def _absent(problem: str, entry: nn.Module | type, names: Mapping[nn.Module, str]) -> ArgumentError:
    """Return the error for a module or a class that the model does not have, with some names that it has."""
    kind = entry if isinstance(entry, type) else type(entry)
    classes = _likely_first(names, (type(module).__name__ for module in names))
    known = _likely_first(names, names.values())[:_EXAMPLES]
    fix = f"{did_you_mean(kind.__name__, classes)}give a name, such as {', '.join(map(repr, known))}"
    return ArgumentError("modules", problem, fix)


def _likely_first(names: Mapping[nn.Module, str], words: Iterable[str]) -> list[str]:
    """Return the distinct words, of which ``words`` has one for each module, with those of attention modules first."""
    pairs = list(zip(names.items(), words, strict=True))
    attentions = [word for (module, name), word in pairs if is_attention(module, name)]
    return list(dict.fromkeys((*attentions, *(word for _, word in pairs))))
