"""The storages of the tensors in the output of a module, inside any container, and in its attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["attributes_of", "storages_in"]

# Levels of nested containers that are searched.
_DEEPEST = 6
_OF_MODULES = frozenset(vars(nn.Module()))  # attributes that every module has
_PLAIN = (str, bytes, int, float, complex, bool, type(None), nn.Module, type)


def attributes_of(module: nn.Module) -> list[Any]:
    """The attributes that a class of modules adds to those of ``nn.Module``."""
    return [x for name, x in vars(module).items() if name not in _OF_MODULES]


def storages_in(value: Any) -> set[int]:
    """The storages of the tensors in lists, tuples, dictionaries, dataclasses and other objects.

    >>> x = torch.ones(2, 3)
    >>> storages_in({"all": (1, [x[1:]])}) == {x.untyped_storage().data_ptr()}
    True
    """
    storages: set[int] = set()
    _collect(value, storages, _DEEPEST)
    return storages


def _collect(value: Any, storages: set[int], depth: int) -> None:
    if isinstance(value, Tensor):
        if type(value) is Tensor and value.layout is torch.strided:
            storages.add(value.untyped_storage().data_ptr())
    elif depth and not isinstance(value, _PLAIN):
        for part in _parts(value):
            _collect(part, storages, depth - 1)


def _parts(value: Any) -> list[Any]:
    if isinstance(value, list | tuple | set | frozenset):
        return list(value)
    parts = list(value.values()) if isinstance(value, Mapping) else []
    slots = [name for kind in type(value).__mro__ for name in vars(kind).get("__slots__", ())]
    parts += [getattr(value, name, None) for name in slots]
    return parts + list(getattr(value, "__dict__", {}).values())
