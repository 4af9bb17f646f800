"""A module that is running, with its name, its arguments and its number of heads."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

__all__ = [
    "RunningModule",
    "heads_of",
]


@dataclass(slots=True)
class RunningModule:
    """A module that is running now."""

    module: nn.Module
    name: str
    args: tuple
    kwargs: dict[str, Any]
    # How many there were when it began:
    first: int = 0  # pieces
    products: int = 0  # products of scores
    calls: int = 0  # attention calls
    exponentials: int = 0
    noticed: int = 0  # attentions, recorded or not
    _arguments: dict[str, Any] | None = field(default=None, repr=False)

    @property
    def arguments(self) -> dict[str, Any]:
        """What the module was given, by the names of its ``forward``."""
        if self._arguments is None:
            self._arguments = _by_name(self.module, self.args, self.kwargs)
        return self._arguments


_HEADS = (
    "num_heads",
    "num_attention_heads",
    "n_heads",
    "n_head",
    "nhead",
    "heads",
    "num_head",
    "n_local_heads",
    "h",
)


def heads_of(running: RunningModule, stack: Sequence[RunningModule] = ()) -> int | None:
    """How many heads a module says it has, or else one of the two around it."""
    around = stack[: next((n for n, one in enumerate(stack) if one is running), 0)]
    for one in (running, *around[:-3:-1]):
        own = one.module.__dict__  # asking the module would search all its parts
        for name in _HEADS:
            count = own.get(name)
            if type(count) is int and count > 0:
                return count
        for name in _heads_named_by(type(one.module)):
            count = getattr(type(one.module), name)
            if type(count) is int and count > 0:
                return count
    return None


@functools.lru_cache(maxsize=1024)
def _heads_named_by(kind: type[nn.Module]) -> tuple[str, ...]:
    """The names for a number of heads that a class has itself."""
    return tuple(name for name in _HEADS if hasattr(kind, name))


@functools.lru_cache(maxsize=1024)
def _parameters(kind: type[nn.Module]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The names of what the ``forward`` of a class takes by position, and what it takes where nothing is given."""
    taken = list(inspect.signature(kind.forward).parameters.values())[1:]  # without self
    by_position = tuple(p.name for p in taken if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))
    return by_position, {p.name: p.default for p in taken if p.default is not p.empty}


def _by_name(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Bind arguments to the names in ``forward``, ten times as fast as ``inspect``."""
    try:
        names, defaults = _parameters(type(module))
    except (TypeError, ValueError, AttributeError):  # a forward without a signature
        names, defaults = (), {}
    found = dict(zip(names, args, strict=False))
    found |= {f"argument {n}": x for n, x in enumerate(args[len(names) :])}
    found |= kwargs
    for name, value in defaults.items():  # an argument that was offered and not used says something too
        found.setdefault(name, value)
    return found
