"""Biases, which are finite numbers added to the scores, given as a tensor or as a rule about positions.

A rule (:class:`regard.positions.ALiBi`, :class:`regard.positions.RelativeBias`) has a method
``tile(i, j, grid)`` that computes the numbers for any query and key indices, so the full matrix is never stored.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from regard.errors import ArgumentError, DtypeError, ShapeError
from regard.masks.stored import check_broadcast
from regard.modes import readable
from regard.shapes import Grid, axes, check_dense, four_axes

__all__ = ["Bias", "StoredBias", "SumOfBiases", "as_bias", "dense_bias", "moved_bias", "part_of_bias"]


class Bias(Protocol):
    """The interface of a bias."""

    def tile(self, i: Tensor, j: Tensor, grid: Grid) -> Tensor:
        """Return the bias at query indices ``i`` and key indices ``j``, which broadcast together.

        ``grid`` has the sizes of the whole attention, which relative positions depend on. The result is
        ``(b or 1, h or 1, *shape of i and j broadcast)``.
        """
        ...


class StoredBias(NamedTuple):
    """A bias held as a tensor of four axes that broadcasts to ``(b,h,q,k)``."""

    values: Tensor  # four axes

    def tile(self, i: Tensor, j: Tensor, grid: Grid) -> Tensor:
        """Return the values at query indices ``i`` and key indices ``j``."""
        i = i if self.values.shape[2] > 1 else torch.zeros_like(i)
        j = j if self.values.shape[3] > 1 else torch.zeros_like(j)
        # The bias may be on another device than the indices.
        return self.values.to(i.device)[:, :, i, j]

    def part(self, b: slice, h: slice) -> StoredBias:
        """Return the bias of the batch entries ``b`` and heads ``h`` only."""
        values = self.values if self.values.shape[0] == 1 else self.values[b]
        return StoredBias(values if values.shape[1] == 1 else values[:, h])


class SumOfBiases(NamedTuple):
    """The sum of two biases."""

    left: Bias
    right: Bias

    def tile(self, i: Tensor, j: Tensor, grid: Grid) -> Tensor:
        """Return the sum of both biases at query indices ``i`` and key indices ``j``."""
        return self.left.tile(i, j, grid) + self.right.tile(i, j, grid)

    def part(self, b: slice, h: slice) -> SumOfBiases:
        """Return the sum for the batch entries ``b`` and heads ``h`` only."""
        return SumOfBiases(part_of_bias(self.left, b, h), part_of_bias(self.right, b, h))


class _SomeHeads(NamedTuple):
    """The batch entries ``b`` and heads ``h`` of a bias that has no ``part`` method.

    The bias is computed for all ``heads`` and then sliced.
    """

    whole: Bias
    b: slice
    h: slice
    heads: int

    def tile(self, i: Tensor, j: Tensor, grid: Grid) -> Tensor:
        values = self.whole.tile(i, j, grid._replace(h=self.heads))
        values = values if values.shape[0] == 1 else values[self.b]
        return values if values.shape[1] == 1 else values[:, self.h]


def part_of_bias(bias: Bias, b: slice, h: slice, heads: int = 0) -> Bias:
    """Return the bias of the batch entries ``b`` and heads ``h`` only.

    ``heads`` is the number of heads of the whole bias. It is needed only for a bias without a ``part`` method.
    """
    return bias.part(b, h) if hasattr(bias, "part") else _SomeHeads(bias, b, h, heads)  # type: ignore[attr-defined]


def moved_bias(bias: Bias | None, device: torch.device) -> Bias | None:
    """Return the bias with its tensors on another device, or None for None.

    A bias that is a module, such as :class:`regard.positions.RelativeBias`, is itself moved.
    """
    if isinstance(bias, StoredBias):
        return StoredBias(bias.values.to(device))
    if isinstance(bias, SumOfBiases):
        left, right = moved_bias(bias.left, device), moved_bias(bias.right, device)
        assert left is not None
        assert right is not None
        return SumOfBiases(left, right)
    return bias.to(device) if isinstance(bias, torch.nn.Module) else bias


def as_bias(bias: Tensor | Bias | None, grid: Grid, like: Tensor) -> Bias | None:
    """Convert the ``bias`` argument of a caller to a :class:`Bias`, after checking type, shape and values.

    A tensor of two to four axes has to broadcast to ``grid`` and be finite. ``like`` is the query tensor, whose device
    a bias tensor must share. None and an object with a ``tile`` method are returned as they are.
    """
    if bias is None:
        return None
    if isinstance(bias, type):
        name = bias.__name__
        raise DtypeError("bias", f"expected a position bias, got the class {name}", f"make one: {name}(...)")
    if not isinstance(bias, Tensor):
        if not hasattr(bias, "tile"):
            raise DtypeError("bias", f"expected a tensor or a position bias, got {type(bias).__name__}")
        return bias
    check_dense("bias", bias)
    if not bias.is_floating_point() or bias.dtype.itemsize == 1:
        raise DtypeError("bias", f"expected a floating dtype, got {bias.dtype}", "use mask=... to hide pairs")
    if not 2 <= bias.ndim <= 4:
        raise ShapeError("bias", f"expected (q,k), (b,q,k) or (b,h,q,k), got {axes(bias.shape)}")
    if bias.device != like.device:
        raise DtypeError("bias", f"on {bias.device}, but q is on {like.device}", "use bias.to(q.device)")
    check_broadcast("bias", bias.shape, grid)
    if readable(bias) and not bool(torch.isfinite(bias.detach()).all()):
        raise ArgumentError("bias", "found NaN or infinity", "hide pairs with mask=..., a bias is finite")
    return StoredBias(four_axes(bias))


def dense_bias(bias: Bias, grid: Grid, device: torch.device) -> Tensor:
    """Return a bias as a tensor, ``(b or 1, h or 1, q or 1, k or 1)``.

    A stored bias stays on its own device. Others are computed on ``device``.
    """
    if isinstance(bias, StoredBias):
        return bias.values
    i = torch.arange(grid.q, device=device)[:, None]
    return bias.tile(i, torch.arange(grid.k, device=device)[None, :], grid)
