"""Block-sparse attention in C, which reads the visible blocks in place instead of gathering them."""

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

# Head widths are padded to a multiple of two vectors of eight numbers.
_WIDTH = 16


def available(q: Tensor, job: BlockSparseJob) -> bool:
    """Return whether the compiled kernel supports the inputs (no float64, no bias) and a compiler was found."""
    return q.dtype != torch.float64 and job.bias is None and library().handle is not None


def forward(q: Tensor, k: Tensor, v: Tensor, job: BlockSparseJob) -> tuple[Tensor, Tensor]:
    """Compute the output ``(t,n,d)`` and log-sum-exp ``(t,n,1)`` of inputs ``(b,h,n,d)``, with ``t = b * h``."""
    plan, d, dtype = job.plan, q.shape[-1], q.dtype
    qs, ks, vs = (_ready(x) for x in blocked(q, k, v, plan))  # (t,blocks,BLOCK,d)
    out, lse = _attend(qs, ks, vs, *_pattern(job))
    return plan.rows.unblocked(out)[..., :d].to(dtype), plan.rows.unblocked(lse)


def backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, job: BlockSparseJob
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the gradients of q, k and v from the gradient ``(b,h,n,d)`` of the output.

    Each is ``(t,n,d)`` with ``t = b * h``. For k and v, n is the number of keys. ``out`` and ``lse`` are the results of
    :func:`forward`.
    """
    plan, (b, h, n, d), dtype = job.plan, q.shape, q.dtype
    qs, ks, vs = (_ready(x) for x in blocked(q, k, v, plan))
    g, o, s = (plan.rows.blocked(x) for x in (grad.reshape(b * h, n, d), out, lse))
    grads = _attend_backward(_ready(g), qs, ks, vs, _ready(o), s.contiguous(), *_pattern(job))
    orders = zip((plan.rows, plan.cols, plan.cols), grads, strict=True)
    dq, dk, dv = (order.unblocked(x)[..., :d].to(dtype) for order, x in orders)
    return dq, dk, dv


def _ready(x: Tensor) -> Tensor:
    """Convert blocks to contiguous float32, with the width padded by zeros."""
    x = x.float()
    missing = -x.shape[-1] % _WIDTH
    return F.pad(x, (0, missing)) if missing else x.contiguous()


def _forward(q, k, v, start, cols, kept, keep, scale, heads) -> tuple[Tensor, Tensor]:
    """Compute the output and log-sum-exp of blocks ``(t,blocks,BLOCK,d)`` from :func:`_ready`.

    The arguments from ``start`` on are those of :func:`_pattern`.
    """
    out, lse = torch.empty_like(q), q.new_empty(*q.shape[:3], 1)
    threads = torch.get_num_threads()
    work = q.new_empty(threads, BLOCK, q.shape[-1])
    pattern = (start, cols, kept, keep, *_numbers(q, k, keep, scale, heads))
    library().call("block_sparse_forward", q, k, v, out, lse, work, *pattern, threads)
    return out, lse


def _backward(g, q, k, v, out, lse, start, cols, kept, keep, scale, heads) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the gradients ``(t,blocks,BLOCK,d)`` of the blocks of q, k and v."""
    threads = torch.get_num_threads()
    # Enough parts for all threads. Each part has its own sum.
    parts = -(-threads // q.shape[0])
    dq = torch.empty_like(q)
    dk, dv = k.new_zeros(parts, *k.shape), v.new_zeros(parts, *v.shape)
    work = q.new_empty(threads, BLOCK, 3 * q.shape[-1] + 2 * BLOCK)
    pattern = (start, cols, kept, keep, *_numbers(q, k, keep, scale, heads))
    library().call("block_sparse_backward", q, k, v, g, out, lse, dq, dk, dv, work, *pattern, parts, threads)
    return (dq, dk.sum(0), dv.sum(0)) if parts > 1 else (dq, dk[0], dv[0])


def _numbers(q: Tensor, k: Tensor, keep: Tensor, scale: float, heads: int) -> tuple[Tensor | int, ...]:
    """Return the scale, the strides of the mask over batch and heads, and the sizes, as C takes them."""
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
    """Return the arguments that forward and backward share (pairs of blocks, masks, scale and heads)."""
    pairs = job.plan.pairs
    keep = kept_once(job, ("pairs",), lambda: _keep(job, pairs)) if job.mask.symbolic else _keep(job, pairs)
    assert keep is not None
    return pairs.start, pairs.cols, pairs.kept, keep, job.scale, job.grid.h


def _keep(job: BlockSparseJob, pairs: Pairs) -> Tensor:
    """Return the masks of the partly visible pairs of blocks, ``(b or 1, h or 1, pairs, keys, queries)``."""
    # The index tensors of 1024 pairs take little memory.
    cut = zip(pairs.row_index.split(1024), pairs.col_index.split(1024), strict=True)
    parts = [job.allowed(rows, cols).transpose(-2, -1) for rows, cols in cut]
    return (
        torch.cat(parts, dim=2).contiguous()
        if parts
        else torch.empty(1, 1, 0, BLOCK, BLOCK, dtype=torch.bool, device="cpu")
    )
