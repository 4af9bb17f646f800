"""The additive score ``v . tanh(a + c)`` of every query with every key, forward and backward.

The form everyone writes stores ``b q k m`` numbers and takes as many hyperbolic tangents. Here the exponentials
are taken once a position (``tanh(a + c) = 1 - 2 / (1 + e^2a e^2c)``) and nothing of that size is kept:

* in C (:mod:`regard.kernels.native`) when there is a compiler;
* otherwise a few rows of queries at a time in torch, so that a block stays in the cache;
* small work takes the plain form, where calls and not numbers cost the time.

Which one runs depends on the sizes and the machine alone, never on what ran before: repeatable.
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
from regard.modes import transformed
from regard.shapes import axes

__all__ = ["SMALL_WORK", "additive_scores"]

SMALL_WORK = 2**18
"""Work of at most this many products (``b * h * q * k * m``) runs in plain eager mode and never waits for a
compiler."""

_SAFE = 40.0  # beyond it e^2a leaves float32; such inputs take the plain tanh
_SLICE = 32  # as in additive.c
_BLOCK = 2**20  # numbers in one eager block: enough to pay for the calls, little enough for the cache


def additive_scores(a: Tensor, c: Tensor, v: Tensor) -> Tensor:
    """``scores[t,i,j] = sum over m of v[m] * tanh(a[t,i,m] + c[t,j,m])``, differentiable any number of times.

    >>> a, c, v = torch.zeros(1, 2, 3), torch.full((1, 4, 3), 50.0), torch.ones(3)
    >>> additive_scores(a, c, v)[0, 0]
    tensor([3., 3., 3., 3.])
    """
    if _work(a, c) <= SMALL_WORK or transformed():
        return _plain(a, c, v)
    return _scores(a, c, v)


def _plain(a: Tensor, c: Tensor, v: Tensor) -> Tensor:
    """The formula as one writes it."""
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
        if torch.is_grad_enabled():  # a derivative of the derivative is wanted
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
    """What comes next is C, which believes what it is told."""
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
    return max(high) <= _SAFE and min(low) >= -_SAFE  # false for NaN too: the plain form passes it on


def _exp2(x: Tensor) -> Tensor:
    """``e^2x``, once a position instead of once a pair."""
    return (x * 2).exp_()


def _row_blocks(a: Tensor, c: Tensor) -> list[tuple[int, slice]]:
    """(batch entry, rows of queries) of each eager block."""
    rows = max(1, _BLOCK // max(1, c.shape[1] * c.shape[2]))
    return [
        (t, slice(i, min(i + rows, a.shape[1])))
        for t in range(a.shape[0])
        for i in range(0, a.shape[1], rows)
    ]


def _buffer(a: Tensor, c: Tensor) -> Tensor:
    """Memory for one block, used again for each: fresh memory costs more than the arithmetic."""
    rows = min(a.shape[1], max(1, _BLOCK // max(1, c.shape[1] * c.shape[2])))
    return a.new_empty(rows, c.shape[1], c.shape[2])


def _eager_forward(a: Tensor, c: Tensor, v: Tensor, scores: Tensor, safe: bool) -> None:
    ea, ec = (_exp2(a), _exp2(c)) if safe else (a, c)
    buffer = _buffer(a, c)
    for t, rows in _row_blocks(a, c):
        hidden = buffer[: rows.stop - rows.start]  # (rows,k,m)
        if safe:  # 1 - 2 / (1 + p)
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
        if safe:  # with r = 1 / (1 + p): tanh = 1 - 2 r and its slope is 4 p r^2
            torch.mul(ea[t, rows, None], ec[t, None], out=slope).clamp_(max=1e18)  # never inf times 0
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
