"""Tensors of scores, with the product of queries and keys and the arithmetic that they were made by."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from regard.capture.reading.axes import moved
from regard.capture.reading.fast_replace import replace

__all__ = ["AddedNumbers", "Product", "Scores"]


@dataclass(frozen=True)
class AddedNumbers:
    """Numbers added to scores, with the axes of queries and keys at the end."""

    values: Tensor  # (*leading,q,k), where each axis may be 1
    # The sizes of the other axes of the scores.
    leading: tuple[int, ...]
    # These axes from the largest stride to the smallest.
    outer: tuple[int, ...]

    def on(self, scores: Scores) -> Tensor:
        """Return the numbers as ``(*leading,q,k)``, with the leading axes of ``scores``.

        These axes may have been joined, split or reordered since the numbers were added. Each axis of the result may
        be 1.
        """
        leading, outer = scores.leading, scores.outer
        if (self.leading, self.outer) == (leading, outer):
            return self.values
        m, n = self.values.shape[-2:]
        if self.values.numel() == m * n:
            return self.values.reshape(*(1,) * len(leading), m, n)
        whole = self.values.expand(*self.leading, m, n).permute(*self.outer, -2, -1)
        whole = whole.reshape(*(leading[axis] for axis in outer), m, n)
        back = sorted(range(len(outer)), key=outer.__getitem__)
        return whole.permute(*back, -2, -1)


@dataclass(frozen=True)
class Product:
    """The formula ``scale * q @ k + added`` of a tensor of scores."""

    q: Tensor  # (B,q,d)
    k: Tensor  # (B,d,k)
    scale: float = 1.0
    added: tuple[AddedNumbers, ...] = field(default=())
    # False after an operation on the scores that cannot be followed.
    exact: bool = True
    # Its number among the products of a capture.
    number: int = 0
    # Whether the queries or keys are a parameter, as in a learned memory.
    of_parameter: bool = False
    # The columns of attention sinks, which are no keys of the product.
    sinks: tuple[int, ...] = ()

    @property
    def sides(self) -> tuple[int, int]:
        """The numbers of queries and keys."""
        return self.q.shape[-2], self.k.shape[-1]

    def is_in_storages(self, storages: set[int]) -> bool:
        """Whether queries, keys or added numbers stand in one of these storages."""
        parts = (self.q, self.k, *(x.values for x in self.added))
        return any(x.untyped_storage().data_ptr() in storages for x in parts)

    def transposed(self) -> Product:
        """The product with queries and keys exchanged."""
        return replace(
            self,
            q=self.k.mT,
            k=self.q.mT,
            added=tuple(replace(x, values=x.values.mT) for x in self.added),
        )


_IN_ORDER = tuple(range(64))  # a tensor has at most 64 axes


@dataclass(frozen=True)
class Scores:
    """A tensor of scores, with the axes that hold the rows and columns of its product."""

    product: Product
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    rows: int
    columns: int
    storage: int  # the address of its storage
    storage_ref: StorageWeakRef

    @classmethod
    def of(cls, x: Tensor, product: Product, rows: int = -2, columns: int = -1) -> Scores:
        """The scores in a tensor, with the axes that hold the rows and columns of a product."""
        storage = x.untyped_storage()
        address, ref = storage.data_ptr(), StorageWeakRef(storage)
        return cls(product, tuple(x.shape), x.stride(), rows % x.ndim, columns % x.ndim, address, ref)

    @property
    def is_freed(self) -> bool:
        """Whether the memory was released and may hold other numbers now. Empty tensors have none."""
        return self.storage != 0 and self.storage_ref.expired()

    @property
    def _others(self) -> list[int]:
        return [axis for axis in range(len(self.shape)) if axis not in (self.rows, self.columns)]

    @property
    def leading(self) -> tuple[int, ...]:
        """The sizes of the other axes."""
        return tuple(self.shape[axis] for axis in self._others)

    @property
    def outer(self) -> tuple[int, ...]:
        """The other axes from the largest stride to the smallest, which is their order in the product."""
        steps = [self.strides[axis] for axis in self._others]
        return tuple(sorted(range(len(steps)), key=lambda axis: -steps[axis]))

    def seen_as(self, x: Tensor) -> Scores | None:
        """The scores as another view of the same numbers, or None where its axes cannot be identified."""
        shape, strides = tuple(x.shape), x.stride()
        if (shape, strides) == (self.shape, self.strides):
            return self
        extent = 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
        if math.prod(shape) != math.prod(self.shape) or extent != math.prod(shape):
            return None
        columns = self._axis(shape, strides, self.columns, -1, None)
        if columns is None:
            return None
        rows = self._axis(shape, strides, self.rows, -2, columns)
        seen = replace(
            self, shape=shape, strides=strides, rows=self.rows if rows is None else rows, columns=columns
        )
        return seen._with_heads_in_rows(self) if rows is None else seen

    def _with_heads_in_rows(self, whole: Scores) -> Scores | None:
        """Split the heads from the queries of a product ``(b,h*q,d)`` whose heads share their keys."""
        product, count, step = self.product, whole.shape[whole.rows], whole.strides[whole.rows]
        axes = enumerate(zip(self.shape, self.strides, strict=True))
        rows = next((axis for axis, (size, stride) in axes if stride == step and 0 < size < count), None)
        if rows is None or count % self.shape[rows] or product.added:
            return None
        queries = self.shape[rows]
        q = product.q.unflatten(1, (-1, queries)).flatten(0, 1)  # (b*h,q,d)
        k = product.k.repeat_interleave(count // queries, dim=0)  # (b*h,d,k)
        return replace(self, product=replace(product, q=q, k=k), rows=rows)

    def _axis(
        self, shape: tuple[int, ...], strides: tuple[int, ...], own: int, usual: int, taken: int | None
    ) -> int | None:
        """The axis of a view that is the axis ``own`` of the scores, recognised by its size and stride.

        ``usual`` is preferred where several axes fit, and ``taken`` is excluded.
        """
        size, step = self.shape[own], self.strides[own]
        same_size = [axis for axis, n in enumerate(shape) if n == size and axis != taken]
        fitting = [axis for axis in same_size if strides[axis] == step] or (same_size if size == 1 else [])
        usual %= len(shape)
        return usual if usual in fitting else fitting[-1] if fitting else None

    def part(self, values: Tensor) -> AddedNumbers:
        """Numbers that broadcast to the scores, as a summand of these scores."""
        values = values.reshape((1,) * (len(self.shape) - values.ndim) + tuple(values.shape))
        return AddedNumbers(moved(values, self.rows, self.columns), self.leading, self.outer)

    def in_product_order(self, x: Tensor, leading: tuple[int, ...]) -> Tensor:
        """Reshape a side of the product from ``(B,m,n)`` to ``(*leading,m,n)``, with the axes of the scores."""
        outer = self.outer
        x = x.reshape(*(leading[axis] for axis in outer), *x.shape[-2:])
        if outer == _IN_ORDER[: len(outer)]:
            return x
        back = sorted(range(len(outer)), key=outer.__getitem__)
        return torch.permute(x, (*back, -2, -1))
