"""Tensors of scores, with the product that they are made of and the arithmetic on it."""

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

    values: Tensor  # (*leading,q,k), each or 1
    leading: tuple[int, ...]  # sizes of the other axes of the scores
    outer: tuple[int, ...]  # these axes from the largest stride to the smallest

    def on(self, scores: Scores) -> Tensor:
        """The numbers ``(*leading,q,k)`` for scores whose axes may have been joined or split since."""
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
    exact: bool = True  # False once something was done to the scores that cannot be followed
    born: int = 0  # its number among the products
    sinks: tuple[int, ...] = ()  # columns that are no keys of the product

    @property
    def sides(self) -> tuple[int, int]:
        return self.q.shape[-2], self.k.shape[-1]

    def stands_in(self, storages: set[int]) -> bool:
        """Whether what the scores are made of has numbers in one of these storages."""
        parts = (self.q, self.k, *(x.values for x in self.added))
        return any(x.untyped_storage().data_ptr() in storages for x in parts)

    def turned(self) -> Product:
        """With queries and keys in each other's place."""
        return replace(
            self,
            q=self.k.mT,
            k=self.q.mT,
            added=tuple(replace(x, values=x.values.mT) for x in self.added),
        )


_IN_ORDER = tuple(range(64))  # a tensor has no more axes


@dataclass(frozen=True)
class Scores:
    """A tensor of scores, by the axes that are those of the product."""

    product: Product
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    rows: int
    columns: int
    home: int  # its storage: writing to any part of it changes them
    storage: StorageWeakRef

    @classmethod
    def of(cls, x: Tensor, product: Product, rows: int = -2, columns: int = -1) -> Scores:
        storage = x.untyped_storage()
        home, ref = storage.data_ptr(), StorageWeakRef(storage)
        return cls(product, tuple(x.shape), x.stride(), rows % x.ndim, columns % x.ndim, home, ref)

    @property
    def is_freed(self) -> bool:
        """Whether the memory was released and may hold other numbers now. Empty tensors have none."""
        return self.home != 0 and self.storage.expired()

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
        parts = zip(self.shape, self.strides, strict=True)
        found = [n for n, (size, own) in enumerate(parts) if own == step and 0 < size < count]
        if not found or count % self.shape[found[0]] or product.added:
            return None
        queries = self.shape[found[0]]
        q = product.q.unflatten(1, (-1, queries)).flatten(0, 1)  # (b*h,q,d)
        k = product.k.repeat_interleave(count // queries, dim=0)  # (b*h,d,k)
        return replace(self, product=replace(product, q=q, k=k), rows=found[0])

    def _axis(
        self, shape: tuple[int, ...], strides: tuple[int, ...], own: int, usual: int, taken: int | None
    ) -> int | None:
        size, step = self.shape[own], self.strides[own]
        fitting = [a for a, n in enumerate(shape) if n == size and a != taken]
        near = [a for a in fitting if strides[a] == step] or (fitting if size == 1 else [])
        usual %= len(shape)
        return usual if usual in near else near[-1] if near else None

    def part(self, values: Tensor) -> AddedNumbers:
        """Numbers that broadcast to the scores, as something added to them."""
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
