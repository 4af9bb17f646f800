"""How a model folded its heads into the batch, seen when it joined two axes to one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

__all__ = ["HeadFolds"]

_COPYING = {Tensor.contiguous, Tensor.clone, torch.clone}
_MULTIPLYING = {torch.matmul, Tensor.matmul, Tensor.__matmul__}


class HeadFolds:
    """Remembers how a model joined two axes into one, which shows whether heads or sequences come first."""

    def __init__(self) -> None:
        # Of an axis, the size of its outer part, and whether that has the smaller stride: heads do, sequences do not.
        # The second is None where nothing shows it.
        self._outer: dict[int, tuple[int, bool | None]] = {}
        # Of axes in front of queries or keys, their strides by their sizes.
        self._strides: dict[tuple[int, ...], tuple[int, ...]] = {}
        # Of copies, by the address of their first number: the strides of the tensor that was copied.
        self._copies: dict[int, tuple[StorageWeakRef, tuple[int, ...], tuple[int, ...]]] = {}

    def clear(self) -> None:
        self._outer.clear()
        self._strides.clear()
        self._copies.clear()

    def saw(self, func: Any, args: tuple, kwargs: dict[str, Any], result: Tensor) -> None:
        """Take note of a function that multiplied, copied or joined tensors."""
        if result.ndim > 4:
            if func in _MULTIPLYING:
                self.multiplied(*args[:2])
        elif func in (torch.cat, torch.concat):
            self.stacked(args[0] if args else None, kwargs.get("dim", *args[1:2]))
        elif args and type(args[0]) is Tensor:
            if func in _COPYING:
                self.copied(args[0], result)
            else:
                self.reshaped(args[0], result)

    def copied(self, before: Tensor, after: Tensor) -> None:
        """Take note of a copy on four axes, whose strides no longer show which of two equal axes is the heads."""
        sizes = after.shape
        if after.ndim != 4 or (sizes[0] != sizes[1] != sizes[2]) or before.data_ptr() == after.data_ptr():
            return
        ref = StorageWeakRef(after.untyped_storage())
        self._copies[after.data_ptr()] = (ref, tuple(sizes), self._made_with(before))

    def _made_with(self, x: Tensor) -> tuple[int, ...]:
        """The strides of a tensor, or of the one that it is a copy of."""
        ref, sizes, strides = self._copies.get(x.data_ptr(), (None, (), ()))
        return strides if ref is not None and not ref.expired() and sizes == tuple(x.shape) else x.stride()

    def multiplied(self, *sides: object) -> None:
        """Take note of how queries and keys lay in memory before their product."""
        for x in sides:
            if isinstance(x, Tensor) and x.ndim > 4 and not x.is_contiguous():
                self._strides.setdefault(tuple(x.shape[:-2]), x.stride()[:-2])

    def strides(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """The strides of axes of these sizes in queries or keys, empty where they are not known."""
        return self._strides.get(tuple(sizes), ())

    def stacked(self, parts: object, axis: object) -> None:
        """Take note of tensors that were put behind one another."""
        if axis not in (0, None) or not isinstance(parts, list | tuple) or len(parts) < 2:
            return
        if isinstance(parts[0], Tensor) and parts[0].ndim == 3:
            self._outer[parts[0].shape[0] * len(parts)] = (len(parts), True)

    def reshaped(self, before: Tensor, after: Tensor) -> None:
        """Note two axes that were joined, as in (b*h,n,d), (n,b*h,d), or (3,b*h,n,d) for q, k and v at once."""
        if after.ndim not in (3, 4) or before.ndim < 3:
            return
        old, new = before.shape, after.shape
        at = next((n for n, sizes in enumerate(zip(old, new, strict=False)) if sizes[0] != sizes[1]), 2)
        if at < 2 and new[at] > old[at] > 0 and new[at] % old[at] == 0 and at + 1 < before.ndim:
            nearer = self._is_nearer(before, at) if old[at] * old[at + 1] == new[at] else False
            if nearer is not None or new[at] not in self._outer:
                self._outer[new[at]] = (old[at], nearer)

    def _is_nearer(self, x: Tensor, axis: int) -> bool | None:
        """Whether an axis had a smaller stride than the next before it was copied, or None where that is unknown."""
        step = self._made_with(x)
        if x.is_contiguous() and step == x.stride():
            return None
        return step[axis] < step[axis + 1]

    def is_ambiguous(self, size: int, heads: int | None) -> bool:
        """Whether an axis of so many joins as many sequences as heads, and nothing shows which of them is outer."""
        return heads is not None and heads * heads == size and self._outer.get(size) == (heads, None)

    def heads_first(self, size: int, heads: int | None) -> bool | None:
        """Whether a folded axis of this size has the heads first, or None where that is unknown."""
        outer, nearer = self._outer.get(size, (0, False))
        if not outer or not heads:
            return None
        if heads * heads == size:
            return nearer
        return True if outer == heads else False if outer * heads == size else None
