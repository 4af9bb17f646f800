"""The axis alphabet, and the checks on it.

Every shape comment and every error uses these letters:

===  ==============================
b    batch
h    head
q    query
k    key
d    width of one head
m    width of the model (or hidden width of a score)
===  ==============================

``q``, ``k``, ``v`` come as ``(b,h,n,d)``, ``(b,n,d)`` or ``(n,d)``; inside they are always ``(b,h,n,d)``.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.errors import DtypeError, ShapeError

__all__ = ["Grid", "axes", "check_qkv", "four_axes", "wide_dtype"]


class Grid(NamedTuple):
    """The four sizes an attention map has."""

    b: int
    h: int
    q: int
    k: int

    @property
    def shift(self) -> int:
        """What turns a query's index into its position among the keys: both sequences end together."""
        return self.k - self.q


def axes(shape: tuple[int, ...] | torch.Size) -> str:
    """A shape as the errors print it.

    >>> axes((2, 5, 7))
    '(2,5,7)'
    """
    return "(" + ",".join(str(n) for n in shape) + ")"


def wide_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype that sums are taken in: half precision is widened to float32."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def four_axes(x: Tensor) -> Tensor:
    """``(n,d)`` or ``(b,n,d)`` seen as ``(b,h,n,d)``."""
    if x.ndim == 4:
        return x
    return x[:, None] if x.ndim == 3 else x[None, None]


def check_qkv(q: Tensor, k: Tensor, v: Tensor | None) -> Grid:
    """Check everything about q, k, v that does not depend on the score; give the sizes."""
    given = (("q", q), ("k", k)) if v is None else (("q", q), ("k", k), ("v", v))
    for name, x in given:
        _check_tensor(name, x, q)
    b, h, q_len = _leading(q)
    for name, x in given[1:]:
        b_x, h_x, _ = _leading(x)
        if b_x != b:
            raise ShapeError(
                name, f"batch of {b_x}, but q has {b}", f"q is {axes(q.shape)}, {name} is {axes(x.shape)}"
            )
        if h_x == 0 or h % h_x:
            raise ShapeError(
                name,
                f"{h_x} heads do not divide the {h} heads of q",
                "give k and v 1 head, h heads, or a divisor of h",
            )
    if v is not None:
        if k.shape[-2] != v.shape[-2]:
            raise ShapeError(
                "v",
                f"{v.shape[-2]} values for {k.shape[-2]} keys",
                f"k is {axes(k.shape)}, v is {axes(v.shape)}",
            )
        if _leading(k)[1] != _leading(v)[1]:
            raise ShapeError(
                "v", f"{_leading(v)[1]} heads, but k has {_leading(k)[1]}", "k and v must have the same heads"
            )
    return Grid(b, h, q_len, k.shape[-2])


def _check_tensor(name: str, x: Tensor, q: Tensor) -> None:
    if not isinstance(x, Tensor):
        raise DtypeError(name, f"expected a torch.Tensor, got {type(x).__name__}", "use torch.as_tensor(...)")
    if not x.is_floating_point():
        raise DtypeError(name, f"expected a floating dtype, got {x.dtype}", f"use {name}.float()")
    if not 2 <= x.ndim <= 4:
        raise ShapeError(name, f"expected (n,d), (b,n,d) or (b,h,n,d), got {axes(x.shape)}")
    if x.ndim != q.ndim:
        raise ShapeError(
            name, f"{x.ndim} axes, but q has {q.ndim}", f"q is {axes(q.shape)}, {name} is {axes(x.shape)}"
        )
    if x.dtype != q.dtype:
        raise DtypeError(name, f"{x.dtype}, but q is {q.dtype}", f"use {name}.to(q.dtype)")
    if x.device != q.device:
        raise DtypeError(name, f"on {x.device}, but q is on {q.device}", f"use {name}.to(q.device)")


def _leading(x: Tensor) -> tuple[int, int, int]:
    """(b, h, n) of a tensor of 2, 3 or 4 axes."""
    shape = x.shape
    if len(shape) == 4:
        return shape[0], shape[1], shape[2]
    return (shape[0], 1, shape[1]) if len(shape) == 3 else (1, 1, shape[0])
