"""The modules that a user chooses in ``modules=``, and the axes given with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from torch import nn

from regard.capture.reading.axes import AxisLetters
from regard.capture.reading.running_modules import RunningModule

__all__ = ["ModuleChoice", "axis_letters_of", "is_chosen"]

ModuleChoice = str | nn.Module | type[nn.Module]


def is_chosen(module: nn.Module, name: str, modules: Iterable[ModuleChoice]) -> bool:
    """Return whether a module is one of those that the user chose, by name, class or instance."""
    return any(_is(module, name, wanted) for wanted in modules)


def axis_letters_of(
    stack: Sequence[RunningModule], modules: Mapping[ModuleChoice, AxisLetters | None]
) -> AxisLetters | None:
    """Return the axes that the user gave for the innermost running module, or None if there are none."""
    given = [(wanted, letters) for wanted, letters in modules.items() if letters is not None]
    if not given:
        return None
    return next(
        (
            x
            for running in reversed(stack)
            for wanted, x in given
            if _is(running.module, running.name, wanted)
        ),
        None,
    )


def _is(module: nn.Module, name: str, wanted: ModuleChoice) -> bool:
    if isinstance(wanted, str):
        return name == wanted
    return isinstance(module, wanted) if isinstance(wanted, type) else module is wanted
