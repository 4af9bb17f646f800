"""Indices that show from which weights of a softmax the numbers of another tensor come.

The *indices* of a tensor are the positions of its numbers in the flat result of the softmax, or -1 for numbers that do
not come from it.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

__all__ = [
    "all_indices",
    "choice_of",
    "indices_after",
    "indices_of_view",
    "reorders",
    "same_without_dropout",
    "storage_of",
]

aten = torch.ops.aten
# Operations that choose numbers by their other arguments.
_CHOOSING = {id(op) for op in (aten.gather.default, aten.index_select.default, aten.index.Tensor)}
_PADDING = id(aten.constant_pad_nd.default)
_RANKING = {id(aten.topk.default): 2, id(aten.sort.default): 1, id(aten.sort.stable): 3}
"""Operations that return numbers in another order with their indices. The value is the position of ``dim``."""


def reorders(func: Any) -> bool:
    """Whether an operation may return numbers in another order."""
    return id(func) in _CHOOSING or id(func) in _RANKING


def choice_of(func: Any, args: tuple, kwargs: dict[str, Any], result: Any) -> tuple[Tensor, ...]:
    """The tensors by which an operation chose numbers or put them into another order."""
    if id(func) in _RANKING:
        return (result[1],)
    if id(func) not in _CHOOSING:
        return ()
    given = [x for arg in (*args[1:], *kwargs.values()) for x in (arg if isinstance(arg, list) else [arg])]
    return tuple(x for x in given if isinstance(x, Tensor))


def storage_of(x: Tensor) -> int:
    """The address of a tensor's storage."""
    return x.untyped_storage().data_ptr()


def all_indices(shape: tuple[int, ...], device: torch.device) -> Tensor:
    """The indices of a softmax's own result."""
    return torch.arange(math.prod(shape), device=device).view(shape)


def indices_of_view(indices: Tensor, whole: Tensor, view: Tensor) -> Tensor | None:
    """The indices of a view of a tensor, or None where they are not known."""
    extent = 1 + sum((n - 1) * step for n, step in zip(whole.shape, whole.stride(), strict=True))
    if not view.numel() or extent != whole.numel():
        return None
    if indices.stride() != whole.stride():
        # The indices get the memory layout of the tensor.
        copy = torch.empty_strided(whole.shape, whole.stride(), dtype=indices.dtype, device=indices.device)
        indices = copy.copy_(indices)
    start = int(view.storage_offset() - whole.storage_offset())
    last = start + sum((n - 1) * step for n, step in zip(view.shape, view.stride(), strict=True))
    if start < 0 or last >= extent:
        return None
    return indices.as_strided(view.shape, view.stride(), start)


def indices_after(
    func: Any, args: tuple, kwargs: dict[str, Any], result: Any, indices: Tensor
) -> Tensor | None:
    """The indices of an operation's result, computed from those of its first argument, or None if unknown."""
    first = result[0] if isinstance(result, tuple | list) else result
    if id(func) in _RANKING:
        return indices.gather(_ranked_axis(func, args, kwargs), result[1])
    if id(func) in _CHOOSING:
        return func(indices, *args[1:], **kwargs)
    if id(func) == _PADDING:
        return func(indices, args[1], -1)
    return indices if first.shape == indices.shape else None


def same_without_dropout(
    func: Any, args: tuple, kwargs: dict[str, Any], result: Any, undropped: list[Any]
) -> Tensor:
    """The result of an operation on weights, had it been given the weights without dropout, ``undropped``."""
    if id(func) in _RANKING:
        return undropped[0].gather(_ranked_axis(func, args, kwargs), result[1])
    again = func(*undropped, **kwargs)
    return again[0] if isinstance(again, tuple | list) else again


def _ranked_axis(func: Any, args: tuple, kwargs: dict[str, Any]) -> int:
    position = _RANKING[id(func)]
    return kwargs.get("dim", args[position] if len(args) > position else -1)
