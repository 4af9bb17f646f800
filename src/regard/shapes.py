"""The letters for tensor axes, and checks of shapes and arguments.

Every shape comment and every error message uses these letters.

===  ==============================
b    batch
h    head
q    query
k    key
d    width of one head
m    width of the model (or hidden width of a score)
===  ==============================

Callers pass ``q``, ``k``, ``v`` as ``(b,h,n,d)``, ``(b,n,d)`` or ``(n,d)``. Internally they are always
``(b,h,n,d)``.
"""

from __future__ import annotations

import reprlib
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.checks import whole_number
from regard.errors import ArgumentError, DtypeError, ShapeError

__all__ = [
    "Grid",
    "as_device",
    "as_table",
    "axes",
    "check_dense",
    "check_grid",
    "check_qkv",
    "check_tensor",
    "four_axes",
    "whole_number",
    "wide_dtype",
]


_FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


class Grid(NamedTuple):
    """The sizes of an attention map, as numbers of batch entries, heads, queries and keys."""

    b: int
    h: int
    q: int
    k: int

    @property
    def shift(self) -> int:
        """The offset ``k - q`` from a query's index to its position among the keys.

        It aligns the last query with the last key.
        """
        return self.k - self.q


def check_grid(grid: object) -> None:
    """Raise an error unless ``grid`` is a :class:`Grid` of whole numbers of 0 or more."""
    if not isinstance(grid, Grid):
        raise DtypeError(
            "grid", f"expected a Grid(b, h, q, k), got {type(grid).__name__}", "use regard.shapes.Grid"
        )
    for name, size in zip(Grid._fields, grid, strict=True):
        # A symbolic size of a trace must stay symbolic.
        if type(size) is not int and not isinstance(size, torch.SymInt):
            whole_number(f"grid.{name}", size, least=0)
        elif type(size) is int and size < 0:
            raise ArgumentError(f"grid.{name}", f"expected a whole number of 0 or more, got {size}")


def axes(shape: tuple[int, ...] | torch.Size) -> str:
    """Format a shape for an error message, without spaces.

    >>> axes((2, 5, 7))
    '(2,5,7)'
    """
    return "(" + ",".join(str(n) for n in shape) + ")"


def as_table(name: str, value: object) -> Tensor:
    """Return ``torch.as_tensor(value)``, or raise DtypeError that names the argument if that fails."""
    if isinstance(value, np.ndarray):
        # Torch accepts neither negative strides nor the byte order of another machine.
        native = value.dtype.newbyteorder("=")
        value = np.ascontiguousarray(value, dtype=native)
    try:
        table = torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        got = reprlib.repr(value)
        raise DtypeError(name, f"expected a tensor or a list of numbers, got {got}", str(error)) from None
    check_dense(name, table)
    return table


def check_dense(name: str, x: Tensor) -> None:
    """Raise DtypeError for a sparse, nested, masked or quantized tensor.

    Attention reads all numbers of a tensor by their place in memory, which these tensors do not have.

    >>> check_dense("mask", torch.eye(2).to_sparse())
    Traceback (most recent call last):
        ...
    regard.errors.DtypeError: mask: expected a dense tensor, got a sparse one: use mask.to_dense()
    """
    if x.is_nested:
        fix = f"use torch.nested.to_padded_tensor({name}, 0.0) and mask=regard.padding(lengths)"
        raise DtypeError(name, "expected a dense tensor, got a nested one", fix)
    if x.layout is not torch.strided:
        raise DtypeError(name, "expected a dense tensor, got a sparse one", f"use {name}.to_dense()")
    if x.is_quantized:
        raise DtypeError(name, "expected plain numbers, got a quantized tensor", f"use {name}.dequantize()")
    if isinstance(x, torch.masked.MaskedTensor):
        fix = f"use {name}.get_data(), and {name}.get_mask() as a mask"
        raise DtypeError(name, "expected a dense tensor, got a masked one", fix)


def as_device(value: object) -> torch.device:
    """Convert a value to a ``torch.device``, or raise ArgumentError if this machine does not have the device.

    >>> as_device("cpu")
    device(type='cpu')
    """
    try:
        device = torch.device(value)  # type: ignore[arg-type]
        torch.empty(1, device=device)
    # A torch that was built without CUDA raises AssertionError.
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).partition("\n")[0]
        raise ArgumentError("device", f"{value!r} cannot be used: {reason}", "choose cpu") from None
    return device


def wide_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype for accumulating sums, float64 for float64 and float32 for everything else."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def four_axes(x: Tensor) -> Tensor:
    """Return a view of ``(n,d)`` or ``(b,n,d)`` as ``(b,h,n,d)``, with axes of size 1, and four axes as they are."""
    if x.ndim == 4:
        return x
    return x[:, None] if x.ndim == 3 else x[None, None]


def check_qkv(q: Tensor, k: Tensor, v: Tensor | None) -> Grid:
    """Check dtypes, devices and shapes of q, k and v, and return the sizes of their attention map.

    A batch of one fits any other batch. The heads of k and v are equally many and divide those of q. The widths of q
    and k are not checked here, because they depend on the score. ``v`` is None if only weights are computed.
    """
    named = (("q", q), ("k", k)) if v is None else (("q", q), ("k", k), ("v", v))
    for name, x in named:
        _check_float_tensor(name, x, q)
    b, h, q_len = _leading(q)
    if h == 0:
        raise ShapeError("q", f"no heads, q is {axes(q.shape)}", "give at least one head")
    for name, x in named[1:]:
        b_x, h_x, _ = _leading(x)
        if b_x != b and b_x != 1:
            if b != 1:
                problem = f"batch of {b_x}, but {'q' if _leading(q)[0] == b else 'k'} has {b}"
                raise ShapeError(name, problem, f"q is {axes(q.shape)}, {name} is {axes(x.shape)}")
            b = b_x
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


def check_tensor(name: str, x: object) -> None:
    """Raise DtypeError for anything but a dense tensor."""
    if not isinstance(x, Tensor):
        raise DtypeError(name, f"expected a torch.Tensor, got {type(x).__name__}", "use torch.as_tensor(...)")
    check_dense(name, x)


def _check_float_tensor(name: str, x: Tensor, q: Tensor) -> None:
    check_tensor(name, x)
    # Torch's own kernel has no rule for a DTensor either.
    if type(x) is not Tensor and hasattr(x, "placements"):
        problem = "a DTensor, and attention does not know how to compute on tensors spread over processes"
        raise DtypeError(name, problem, f"shard the heads or the batch, and pass {name}.to_local()")
    # 8-bit floats are rejected too.
    if x.dtype not in _FLOATS:
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
    """Return (b, h, n) of a tensor ``(n,d)``, ``(b,n,d)`` or ``(b,h,n,d)``, with 1 for missing axes."""
    shape = x.shape
    if len(shape) == 4:
        return shape[0], shape[1], shape[2]
    return (shape[0], 1, shape[1]) if len(shape) == 3 else (1, 1, shape[0])
