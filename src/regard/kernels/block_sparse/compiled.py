"""Local attention in C, which walks along the kept blocks where they stand: nothing is gathered."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.kernels.block_sparse.gather import blocked
from regard.kernels.block_sparse.job import BlockSparseJob, kept_once
from regard.kernels.block_sparse.plans import BLOCK, Pairs
from regard.kernels.native import library
from regard.kernels.operators import define_operator

__all__ = ["available", "backward", "forward"]

_WIDTH = 16  # head widths are filled up to a multiple of it: two vectors


def available(q: Tensor, job: BlockSparseJob) -> bool:
    """Whether the compiled kernel can do this: single or half precision, no bias, and a compiler was found."""
    return q.dtype != torch.float64 and job.bias is None and library().handle is not None


def forward(q: Tensor, k: Tensor, v: Tensor, job: BlockSparseJob) -> tuple[Tensor, Tensor]:
    """Output ``(t,n,d)`` and log-sum-exp ``(t,n,1)`` of ``(b,h,n,d)``, with ``t = b * h``."""
    plan, d, dtype = job.plan, q.shape[-1], q.dtype
    qs, ks, vs = (_ready(x) for x in blocked(q, k, v, plan))  # (t,blocks,BLOCK,d)
    out, lse = _attend(qs, ks, vs, *_pattern(job))
    return plan.rows.unblocked(out)[..., :d].to(dtype), plan.rows.unblocked(lse)


def backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, job: BlockSparseJob
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of q, k and v, ``(t,n,d)``, from that of the output."""
    plan, (b, h, n, d), dtype = job.plan, q.shape, q.dtype
    qs, ks, vs = (_ready(x) for x in blocked(q, k, v, plan))
    g, o, s = (plan.rows.blocked(x) for x in (grad.reshape(b * h, n, d), out, lse))
    grads = _attend_backward(_ready(g), qs, ks, vs, _ready(o), s.contiguous(), *_pattern(job))
    orders = zip((plan.rows, plan.cols, plan.cols), grads, strict=True)
    dq, dk, dv = (order.unblocked(x)[..., :d].to(dtype) for order, x in orders)
    return dq, dk, dv


def _ready(x: Tensor) -> Tensor:
    """Blocks in float32, contiguous, their width filled up with zeros."""
    x = x.float()
    missing = -x.shape[-1] % _WIDTH
    return F.pad(x, (0, missing)) if missing else x.contiguous()


def _forward(q, k, v, start, cols, kept, keep, scale, heads) -> tuple[Tensor, Tensor]:
    """The operator on blocks ``(t,blocks,BLOCK,d)``, as :func:`_ready` makes them."""
    out, lse = torch.empty_like(q), q.new_empty(*q.shape[:3], 1)
    threads = torch.get_num_threads()
    work = q.new_empty(threads, BLOCK, q.shape[-1])
    pattern = (start, cols, kept, keep, *_numbers(q, k, keep, scale, heads))
    library().call("block_sparse_forward", q, k, v, out, lse, work, *pattern, threads)
    return out, lse


def _backward(g, q, k, v, out, lse, start, cols, kept, keep, scale, heads) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients ``(t,blocks,BLOCK,d)`` of the blocks of q, k and v."""
    threads = torch.get_num_threads()
    parts = -(-threads // q.shape[0])  # so that every thread has work, each part with a sum of its own
    dq = torch.empty_like(q)
    dk, dv = k.new_zeros(parts, *k.shape), v.new_zeros(parts, *v.shape)
    work = q.new_empty(threads, BLOCK, 3 * q.shape[-1] + 2 * BLOCK)
    pattern = (start, cols, kept, keep, *_numbers(q, k, keep, scale, heads))
    library().call("block_sparse_backward", q, k, v, g, out, lse, dq, dk, dv, work, *pattern, parts, threads)
    return (dq, dk.sum(0), dv.sum(0)) if parts > 1 else (dq, dk[0], dv[0])


def _numbers(q: Tensor, k: Tensor, keep: Tensor, scale: float, heads: int) -> tuple[Tensor | int, ...]:
    """The scale, the steps from one mask to the next, and the sizes."""
    b, h, count = keep.shape[:3]
    head_step = count * BLOCK * BLOCK
    steps = (head_step * h if b > 1 else 0, head_step if h > 1 else 0)
    factor = torch.tensor([scale], dtype=torch.float32, device="cpu")
    return (factor, *steps, heads, q.shape[0], q.shape[1], k.shape[1], q.shape[-1])


_PATTERN = "Tensor start, Tensor cols, Tensor kept, Tensor keep, float scale, int heads"
_attend = define_operator(
    f"_block_sparse_attention(Tensor q, Tensor k, Tensor v, {_PATTERN}) -> (Tensor, Tensor)",
    _forward,
    lambda q, k, v, *pattern: (q.new_empty(q.shape), q.new_empty(*q.shape[:3], 1)),
)
_attend_backward = define_operator(
    "_block_sparse_attention_backward(Tensor g, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, "
    f"{_PATTERN}) -> (Tensor, Tensor, Tensor)",
    _backward,
    lambda g, q, k, v, *rest: tuple(x.new_empty(x.shape) for x in (q, k, v)),
)


def _pattern(job: BlockSparseJob) -> tuple[Tensor | float, ...]:
    """The arguments that both directions share: the pairs of blocks, their masks, the scale and the heads."""
    pairs = job.plan.pairs
    keep = kept_once(job, ("pairs",), lambda: _keep(job, pairs)) if job.mask.symbolic else _keep(job, pairs)
    assert keep is not None
    return pairs.start, pairs.cols, pairs.kept, keep, job.scale, job.grid.h


def _keep(job: BlockSparseJob, pairs: Pairs) -> Tensor:
    """Which cells of the partly kept pairs are kept, ``(b or 1, h or 1, pairs, keys, queries)``: keys down."""
    cut = zip(
        pairs.row_index.split(1024), pairs.col_index.split(1024), strict=True
    )  # bounds the index arithmetic
    parts = [job.allowed(rows, cols).transpose(-2, -1) for rows, cols in cut]
    return (
        torch.cat(parts, dim=2).contiguous()
        if parts
        else torch.empty(1, 1, 0, BLOCK, BLOCK, dtype=torch.bool, device="cpu")
    )
