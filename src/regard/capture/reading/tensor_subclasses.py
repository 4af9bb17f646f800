"""Tensor subclasses that wrap other tensors, and fake tensors.

Quantised weights (torchao) and distributed tensors (DTensor) are such subclasses. A capture sees their operations on
the plain tensors inside.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from regard.torch_private import sparse_values

__all__ = ["is_fake", "is_wrapper", "local_tensor", "storages_of"]


def is_wrapper(x: object) -> bool:
    """Return whether an object is a tensor of a subclass that handles the operations of torch itself.

    >>> is_wrapper(torch.zeros(2)), is_wrapper(2)
    (False, False)
    """
    if type(x) in (Tensor, torch.nn.Parameter) or not isinstance(x, Tensor):
        return False
    return vars(Tensor)["__torch_dispatch__"] is not getattr(type(x), "__torch_dispatch__", None)


def is_fake(x: object) -> bool:
    """Return whether a tensor is a fake tensor of torch, which has a shape and no data."""
    fake = sys.modules.get("torch._subclasses.fake_tensor")
    return fake is not None and isinstance(x, fake.FakeTensor)


def local_tensor(x: Tensor) -> Tensor | None:
    """Return the part of a distributed tensor that this process holds, or a plain tensor itself.

    The result is None for other tensor subclasses.
    """
    if not is_wrapper(x):
        return x
    # A DTensor has this method.
    local: Any = getattr(x, "to_local", None)
    return None if local is None or is_fake(x) else local()


def storages_of(tensors: Iterable[Tensor]) -> set[int]:
    """Return the addresses of the storages of some tensors, or of the tensors that they wrap."""
    found: set[int] = set()
    for x in tensors:
        if type(x) is not torch.nn.Parameter and is_wrapper(x):
            found |= storages_of(part for part in _parts(x) if isinstance(part, Tensor))
        elif x.layout is torch.strided and not x.is_meta:
            found.add(x.untyped_storage().data_ptr())
        elif x.layout is torch.sparse_coo:
            found |= storages_of([sparse_values(x.detach())])
    return found


def _parts(x: Tensor) -> list[object]:
    """Return the tensors inside a wrapper, from ``__tensor_flatten__`` or else all its attributes."""
    if is_fake(x):
        return []
    flatten: Any = getattr(x, "__tensor_flatten__", None)
    if flatten is not None:
        return [getattr(x, name) for name in flatten()[0]]
    return list(vars(x).values())
