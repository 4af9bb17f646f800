"""The additive score ``v . tanh(a + c)`` of every query and key, with its gradients.

The broadcast formula stores ``b q k m`` numbers and computes as many hyperbolic tangents. With
``tanh(a + c) = 1 - 2 / (1 + e^2a e^2c)``, the exponentials are computed once for each query and key, and nothing of
that size is stored.

* With a compiler, the sums run in C (:mod:`regard.kernels.native`).
* Without one, they run in torch on a few rows of queries at a time, so that a block stays in the processor's cache.
* Small inputs use the broadcast formula, because the overhead of calls dominates there.

The choice depends only on the machine, the sizes and the largest number. The same call therefore always gives the same
result. Inputs above 40 use ``tanh`` itself, because their exponentials overflow.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.errors import ShapeError
from regard.kernels.native import library
from regard.kernels.operators import (
    below_autograd,
    define_operator,
    gradients_with_graph,
    wants_gradient,
)
from regard.modes import exported, transformed
from regard.shapes import axes

__all__ = ["SMALL_WORK", "additive_scores"]

SMALL_WORK = 2**18
"""The most products (``b * h * q * k * m``) of a call that uses the broadcast formula and needs no compiler."""

# Above this, e^2a overflows in float32, so larger inputs use tanh itself.
_SAFE = 40.0
# The same number as SLICE in additive.c.
_SLICE = 32
# The numbers in one eager block. Smaller blocks cost more calls, larger ones do not fit the processor's cache.
_BLOCK = 2**20


def additive_scores(a: Tensor, c: Tensor, v: Tensor) -> Tensor:
    """Return ``scores[t,i,j] = sum over m of v[m] * tanh(a[t,i,m] + c[t,j,m])``, with derivatives of any order.

    The queries ``a (t,q,m)`` and keys ``c (t,k,m)`` are already projected. t counts all heads of all batch entries.

    >>> a, c, v = torch.zeros(1, 2, 3), torch.full((1, 4, 3), 50.0), torch.ones(3)
    >>> additive_scores(a, c, v)[0, 0]
    tensor([3., 3., 3., 3.])
    """
    if exported() or _work(a, c) <= SMALL_WORK or transformed():
        return _plain(a, c, v)
    return _scores(a, c, v)


def _plain(a: Tensor, c: Tensor, v: Tensor) -> Tensor:
    """Evaluate the broadcast formula, which stores ``(t,q,k,m)`` numbers."""
    return torch.tanh(a[:, :, None] + c[:, None]) @ v  # (t,q,k,m) @ (m,)


def _forward(a: Tensor, c: Tensor, v: Tensor) -> Tensor:  # (t,q,m), (t,k,m), (m,) -> (t,q,k)
    _check(a, c, v)
    a, c, v = a.contiguous(), c.contiguous(), v.contiguous()
    scores = a.new_empty(a.shape[0], a.shape[1], c.shape[1])
    if scores.numel() == 0:
        return scores
    safe, threads = _is_safe(a, c), torch.get_num_threads()
    if not _native(a):
        _eager_forward(a, c, v, scores, safe)
    elif safe:
        work = a.new_empty(threads * a.shape[2] + c.numel())
        library().call("additive_forward", a, c, v, scores, work, *_sizes(a, c), threads)
    else:
        library().call("additive_forward_plain", a, c, v, scores, *_sizes(a, c), threads)
    return scores


def _backward(g: Tensor, a: Tensor, c: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    g, a, c, v = g.contiguous(), a.contiguous(), c.contiguous(), v.contiguous()
    da, dc = torch.zeros_like(a), torch.zeros_like(c)
    if g.numel() == 0 or v.numel() == 0:
        return da, dc, torch.zeros_like(v)
    safe = _is_safe(a, c)
    if safe and _native(a):
        dv = v.new_empty(a.shape[0], v.shape[0])
        threads = torch.get_num_threads()
        work = a.new_empty(threads * 2 * c.shape[1] * _SLICE)
        library().call("additive_backward", a, c, v, g, da, dc, dv, work, *_sizes(a, c), threads)
        return da, dc, dv.sum(0)
    return da, dc, _eager_backward(g, a, c, v, da, dc, safe)


class _Scores(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a: Tensor, c: Tensor, v: Tensor) -> Tensor:
        ctx.save_for_backward(a, c, v)
        with below_autograd():
            return _scores(a, c, v)

    @staticmethod
    def backward(ctx, g: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        inputs = ctx.saved_tensors
        # Gradients are recorded in a backward pass only with create_graph=True.
        if torch.is_grad_enabled():
            return gradients_with_graph(_plain, inputs, ctx.needs_input_grad, g)
        return _scores_backward(g, *inputs)


def _differentiable(a: Tensor, c: Tensor, v: Tensor) -> Tensor:
    if wants_gradient(a, c, v):
        return _Scores.apply(a, c, v)
    with below_autograd():
        return _scores(a, c, v)


_scores = define_operator(
    "_additive_scores(Tensor a, Tensor c, Tensor v) -> Tensor",
    _forward,
    lambda a, c, v: a.new_empty(a.shape[0], a.shape[1], c.shape[1]),
    _differentiable,
)
_scores_backward = define_operator(
    "_additive_scores_backward(Tensor g, Tensor a, Tensor c, Tensor v) -> (Tensor, Tensor, Tensor)",
    _backward,
    lambda g, a, c, v: tuple(x.new_empty(x.shape) for x in (a, c, v)),
)


def _check(a: Tensor, c: Tensor, v: Tensor) -> None:
    """Raise ShapeError if the shapes or dtypes do not fit, because C does not check them."""
    if not (
        a.shape[0] == c.shape[0] and a.shape[2:] == c.shape[2:] == v.shape and a.dtype == c.dtype == v.dtype
    ):
        raise ShapeError(
            "v",
            f"expected (t,q,m), (t,k,m) and (m,) of one dtype, got {axes(a.shape)}, {axes(c.shape)}, {axes(v.shape)}",
        )


def _native(a: Tensor) -> bool:
    return a.device.type == "cpu" and library().handle is not None


def _work(a: Tensor, c: Tensor) -> int:
    t, q, k, m = _sizes(a, c)
    return t * q * k * m


def _sizes(a: Tensor, c: Tensor) -> tuple[int, int, int, int]:
    return a.shape[0], a.shape[1], c.shape[1], a.shape[2]


def _is_safe(a: Tensor, c: Tensor) -> bool:
    if a.shape[-1] == 0:
        return True
    low, high = zip(*(torch.aminmax(x) for x in (a, c)), strict=True)
    # The comparison is False for NaN too, which tanh itself passes on.
    return max(high) <= _SAFE and min(low) >= -_SAFE


def _exp2(x: Tensor) -> Tensor:
    """Return ``e^2x``."""
    return (x * 2).exp_()


def _row_blocks(a: Tensor, c: Tensor) -> list[tuple[int, slice]]:
    """Return the index on axis t and the rows of queries of each eager block."""
    rows = max(1, _BLOCK // max(1, c.shape[1] * c.shape[2]))
    return [
        (t, slice(i, min(i + rows, a.shape[1])))
        for t in range(a.shape[0])
        for i in range(0, a.shape[1], rows)
    ]


def _buffer(a: Tensor, c: Tensor) -> Tensor:
    """Allocate memory for one block, which all blocks reuse because allocation costs more than the arithmetic."""
    rows = min(a.shape[1], max(1, _BLOCK // max(1, c.shape[1] * c.shape[2])))
    return a.new_empty(rows, c.shape[1], c.shape[2])


def _eager_forward(a: Tensor, c: Tensor, v: Tensor, scores: Tensor, safe: bool) -> None:
    ea, ec = (_exp2(a), _exp2(c)) if safe else (a, c)
    buffer = _buffer(a, c)
    for t, rows in _row_blocks(a, c):
        hidden = buffer[: rows.stop - rows.start]  # (rows,k,m)
        # tanh = 1 - 2 / (1 + p)
        if safe:
            torch.mul(ea[t, rows, None], ec[t, None], out=hidden)
            hidden.add_(1).reciprocal_().mul_(-2).add_(1)
        else:
            torch.add(ea[t, rows, None], ec[t, None], out=hidden).tanh_()
        torch.matmul(hidden, v, out=scores[t, rows])


def _eager_backward(g: Tensor, a: Tensor, c: Tensor, v: Tensor, da: Tensor, dc: Tensor, safe: bool) -> Tensor:
    ea, ec = (_exp2(a), _exp2(c)) if safe else (a, c)
    dv = torch.zeros_like(v)
    buffers = _buffer(a, c), _buffer(a, c)
    for t, rows in _row_blocks(a, c):
        slope, hidden = (buffer[: rows.stop - rows.start] for buffer in buffers)  # (rows,k,m)
        # With r = 1 / (1 + p), tanh is 1 - 2 r and its slope is 4 p r^2. The clamp avoids inf * 0.
        if safe:
            torch.mul(ea[t, rows, None], ec[t, None], out=slope).clamp_(max=1e18)
            torch.add(slope, 1, out=hidden).reciprocal_()
            slope.mul_(hidden).mul_(hidden).mul_(4)
            hidden.mul_(-2).add_(1)
        else:
            torch.add(ea[t, rows, None], ec[t, None], out=hidden).tanh_()
            torch.mul(hidden, hidden, out=slope).neg_().add_(1)
        weight = g[t, rows]  # (rows,k)
        dv += weight.reshape(-1) @ hidden.reshape(-1, v.shape[0])
        slope.mul_(weight[..., None])
        da[t, rows] = slope.sum(1)
        dc[t] += slope.sum(0)
    da.mul_(v)
    dc.mul_(v)
    return dv
