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

import operator
from typing import NamedTuple

import torch
from torch import Tensor

from regard.errors import ArgumentError, DtypeError, ShapeError

__all__ = ["Grid", "as_device", "as_table", "axes", "check_qkv", "four_axes", "whole_number", "wide_dtype"]


_FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


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


def as_table(name: str, value: object) -> Tensor:
    """``torch.as_tensor``, with an error that names the argument."""
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DtypeError(name, f"expected a tensor or a list of numbers, got {value!r}", str(error)) from None


def whole_number(name: str, value: object, least: int | None = None) -> int:
    """``value`` as an int, from any kind of integer; an error that names the argument otherwise.

    >>> whole_number("heads", 0, least=1)
    Traceback (most recent call last):
        ...
    regard.errors.ArgumentError: heads: expected a whole number of 1 or more, got 0
    """
    wanted = "a whole number" + ("" if least is None else f" of {least} or more")
    try:
        if isinstance(value, bool | Tensor):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise DtypeError(name, f"expected {wanted}, got {value!r}") from None
    if least is not None and number < least:
        raise ArgumentError(name, f"expected {wanted}, got {number}")
    return number


def as_device(value: object) -> torch.device:
    """A device that can be used here; an error that names the argument otherwise.

    >>> as_device("cpu")
    device(type='cpu')
    """
    try:
        device = torch.device(value)  # type: ignore[arg-type]
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:  # torch built without CUDA fails an assertion
        told = str(error).partition("\n")[0]
        raise ArgumentError("device", f"{value!r} cannot be used: {told}", "choose cpu") from None
    return device


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
    if x.dtype not in _FLOATS:  # not the floats of 8 bits either
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
