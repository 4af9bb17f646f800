"""A module whose ``forward`` is running, with its name, its arguments and its number of heads."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

__all__ = [
    "RunningModule",
    "around",
    "heads_of",
    "heads_of_config",
]


@dataclass(slots=True)
class RunningModule:
    """A module whose ``forward`` is running."""

    module: nn.Module
    name: str
    args: tuple
    kwargs: dict[str, Any]
    # The counts of the session when the module began: kept calls, products of queries and keys, attention calls,
    # exponentials, and attentions that were noticed, recorded or not.
    first: int = 0
    products: int = 0
    calls: int = 0
    exponentials: int = 0
    noticed: int = 0
    _arguments: dict[str, Any] | None = field(default=None, repr=False)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the call, by the parameter names of ``forward``."""
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


def around(running: RunningModule, stack: Sequence[RunningModule]) -> Sequence[RunningModule]:
    """Return the two modules around a module, the nearer first."""
    return stack[: next((n for n, one in enumerate(stack) if one is running), 0)][:-3:-1]


def heads_of_config(module: nn.Module) -> int | None:
    """Return the number of heads in the config of a module of Hugging Face, which may have no attribute for it."""
    count = getattr(module.__dict__.get("config"), "num_attention_heads", None)
    return count if type(count) is int else None


def heads_of(running: RunningModule, stack: Sequence[RunningModule] = ()) -> int | None:
    """Return the number of heads among the attributes of a module, or else of one of the two modules around it."""
    for one in (running, *around(running, stack)):
        # __dict__ is faster than getattr, which searches all parts of a module for a missing name.
        own = one.module.__dict__
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
    """Return the names for a number of heads that are attributes of a class."""
    return tuple(name for name in _HEADS if hasattr(kind, name))


@functools.lru_cache(maxsize=1024)
def _parameters(kind: type[nn.Module]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return the positional parameters of the ``forward`` of a class, and the default of each parameter."""
    taken = list(inspect.signature(kind.forward).parameters.values())[1:]  # without self
    by_position = tuple(p.name for p in taken if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))
    return by_position, {p.name: p.default for p in taken if p.default is not p.empty}


def _by_name(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Bind arguments to the parameter names of ``forward``, ten times as fast as ``inspect``."""
    try:
        names, defaults = _parameters(type(module))
    except (TypeError, ValueError, AttributeError):  # a forward without a signature
        names, defaults = (), {}
    found = dict(zip(names, args, strict=False))
    if len(args) > len(names):
        found |= {f"argument {n}": x for n, x in enumerate(args[len(names) :])}
    found |= kwargs
    # The names of unused parameters are evidence as well.
    for name in defaults:
        if name not in found:
            found[name] = defaults[name]
    return found
