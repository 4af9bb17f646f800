"""Watches how a model folds heads into the batch, as (b*h) or (h*b), or into the queries, when it joins two axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef

from regard.capture.reading.axes import head_strides

__all__ = ["HeadFolds"]

_COPYING = {Tensor.contiguous, Tensor.clone, torch.clone}
_MULTIPLYING = {torch.matmul, Tensor.matmul, Tensor.__matmul__}


class HeadFolds:
    """Records how a model joined two axes into one, which shows whether heads or sequences come first."""

    def __init__(self) -> None:
        # For the size of a joined axis, the size of its outer part, and whether the outer part had the smaller stride.
        # Heads have a smaller stride than sequences. The second is None if it is unknown.
        self._outer: dict[int, tuple[int, bool | None]] = {}
        # The strides of the leading axes of queries or keys, by the sizes of these axes.
        self._strides: dict[tuple[int, ...], tuple[int, ...]] = {}
        # For the address of a copy, its storage and sizes, and the strides of the original.
        self._copies: dict[int, tuple[StorageWeakRef, tuple[int, ...], tuple[int, ...]]] = {}
        # For the sizes (b,g,rows) of queries into which heads were folded, the same as for a joined axis.
        self._rows: dict[tuple[int, ...], tuple[int, bool | None]] = {}

    def clear(self) -> None:
        """Forget all calls."""
        self._outer.clear()
        self._strides.clear()
        self._copies.clear()
        self._rows.clear()

    def saw(self, func: Any, args: tuple, kwargs: dict[str, Any], result: Tensor) -> None:
        """Record a call of a function that multiplies, copies or joins tensors."""
        if func in _MULTIPLYING:
            self.multiplied(*args[:2])
        elif func is torch.einsum:
            self.contracted(*args)
        elif result.ndim > 4:
            return
        elif func in (torch.cat, torch.concat):
            self.stacked(args[0] if args else None, kwargs.get("dim", *args[1:2]))
        elif args and type(args[0]) is Tensor:
            if func in _COPYING:
                self.copied(args[0], result)
            else:
                self.reshaped(args[0], result)

    def copied(self, before: Tensor, after: Tensor) -> None:
        """Record a copy with four axes of which two are equal, since its own strides do not show the heads."""
        sizes = after.shape
        if after.ndim != 4 or (sizes[0] != sizes[1] != sizes[2]) or before.data_ptr() == after.data_ptr():
            return
        ref = StorageWeakRef(after.untyped_storage())
        self._copies[after.data_ptr()] = (ref, tuple(sizes), self._made_with(before))

    def _made_with(self, x: Tensor) -> tuple[int, ...]:
        """Return the strides of a tensor, or of the original if it is a copy."""
        ref, sizes, strides = self._copies.get(x.data_ptr(), (None, (), ()))
        return strides if ref is not None and not ref.expired() and sizes == tuple(x.shape) else x.stride()

    def multiplied(self, *sides: object) -> None:
        """Record the strides of queries and keys in their product."""
        tensors = [x for x in sides if _has_strides(x)]
        if tensors and all(x.ndim == 4 for x in tensors):
            sizes = tensors[0].shape[:2]
            strides = (self.of_heads(x) for x in tensors if x.shape[:2] == sizes)
            self._strides[tuple(sizes)] = next(filter(None, strides), ())
            return
        for x in tensors:
            if x.ndim > 4 and not x.is_contiguous():
                self._strides.setdefault(tuple(x.shape[:-2]), x.stride()[:-2])

    def contracted(self, equation: object, *operands: object) -> None:
        """Record the strides of the two axes that ``torch.einsum`` keeps of both its operands."""
        if not isinstance(equation, str) or "." in equation or "->" not in equation or len(operands) != 2:
            return
        terms, result = equation.replace(" ", "").split("->")
        left, right = terms.split(",")
        kept = [letter for letter in result if letter in left and letter in right]
        x = operands[0]
        if _has_strides(x) and len(kept) == 2 and x.ndim == len(left) == 4:
            made = dict(zip(left, self._made_with(x), strict=True))
            leading, others = [made.pop(letter) for letter in kept], made.values()
            sizes = tuple(x.shape[left.index(letter)] for letter in kept)
            shown = head_strides(leading, tuple(others))
            if not shown and sizes[0] == sizes[1]:
                # Operands without a trace of their making have the order of torch, which the result may not have.
                shown = tuple(leading)
            self._strides[sizes] = shown

    def of_heads(self, x: Tensor) -> tuple[int, ...]:
        """Return the strides of the leading axes of ``(b,h,n,d)`` or ``(h,b,n,d)`` if they show the heads, or ()."""
        if not _has_strides(x):
            return ()
        strides = self._made_with(x)
        return head_strides(strides[:2], strides[2:])

    def strides(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Return the strides of leading axes of these sizes, or () if they are unknown."""
        return self._strides.get(tuple(sizes), ())

    def stacked(self, parts: object, axis: object) -> None:
        """Record a concatenation along the first axis, in which each part is a head."""
        if axis not in (0, None) or not isinstance(parts, list | tuple) or len(parts) < 2:
            return
        if isinstance(parts[0], Tensor) and parts[0].ndim == 3:
            self._outer[parts[0].shape[0] * len(parts)] = (len(parts), True)

    def reshaped(self, before: Tensor, after: Tensor) -> None:
        """Record two axes that were joined, as in (b*h,n,d), (n,b*h,d), or (3,b*h,n,d) for q, k and v at once."""
        if after.ndim not in (3, 4) or before.ndim < 3:
            return
        old, new = before.shape, after.shape
        if after.ndim == 4 and before.ndim in (4, 5) and new[2] > old[2]:
            self._joined_rows(before, after)
        at = next((n for n, sizes in enumerate(zip(old, new, strict=False)) if sizes[0] != sizes[1]), 2)
        if at < 2 and new[at] > old[at] > 0 and new[at] % old[at] == 0 and at + 1 < before.ndim:
            nearer = self._is_nearer(before, at) if old[at] * old[at + 1] == new[at] else False
            if nearer is not None or new[at] not in self._outer:
                self._outer[new[at]] = (old[at], nearer)

    def _joined_rows(self, before: Tensor, after: Tensor) -> None:
        """Record heads that were folded into the queries, from ``(b,h,n,d)`` or ``(b,g,heads,n,d)``."""
        old, sizes = before.shape, tuple(after.shape[:3])
        if before.ndim == 5 and old[:2] == sizes[:2] and old[2] * old[3] == sizes[2]:
            self._rows[sizes] = (old[2], self._is_nearer(before, 2))
        elif before.ndim == 4 and old[0] == sizes[0] and old[1] * old[2] == sizes[1] * sizes[2]:
            self._rows[sizes] = (sizes[2] // old[2], True)

    def heads_before_tokens(self, sizes: Sequence[int], heads: int) -> bool | None:
        """Return whether the heads that were folded into queries ``(b,g,rows)`` come first, or None if it is unknown.

        ``heads`` is the number of heads in a group.
        """
        outer, nearer = self._rows.get(tuple(sizes), (0, None))
        tokens = sizes[2] // heads
        if tokens == 1 or (outer == heads != tokens):
            return True
        return nearer if outer == heads else False if outer == tokens else None

    def _is_nearer(self, x: Tensor, axis: int) -> bool | None:
        """Return whether an axis had a smaller stride than the next one, or None if a copy hides it."""
        step = self._made_with(x)
        if x.is_contiguous() and step == x.stride():
            return None
        return step[axis] < step[axis + 1]

    def is_ambiguous(self, size: int, heads: int | None) -> bool:
        """Return whether a joined axis has as many sequences as heads, and it is unknown which come first."""
        return heads is not None and heads * heads == size and self._outer.get(size) == (heads, None)

    def heads_first(self, size: int, heads: int | None) -> bool | None:
        """Return whether a joined axis of this size has the heads first, or None if that is unknown."""
        outer, nearer = self._outer.get(size, (0, False))
        if not outer or not heads:
            return None
        if heads * heads == size:
            return nearer
        return True if outer == heads else False if outer * heads == size else None


def _has_strides(x: object) -> TypeGuard[Tensor]:
    """Return whether an argument is a tensor with strides and an address."""
    return type(x) in (Tensor, nn.Parameter) and x.layout is torch.strided and not x.is_meta  # type: ignore[union-attr]
