"""Local attention in C, which walks along the kept blocks where they stand: nothing is gathered."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.kernels.local_gather import blocked
from regard.kernels.local_job import LocalJob, kept_once
from regard.kernels.native import library
from regard.kernels.plans import BLOCK, Pairs

__all__ = ["available", "backward", "forward"]

_WIDTH = 16  # head widths are filled up to a multiple of it: two vectors


def available(q: Tensor, job: LocalJob) -> bool:
    """Whether the compiled kernel can do this: single or half precision, no bias, and a compiler was found."""
    return q.dtype != torch.float64 and job.bias is None and library().handle is not None


def forward(q: Tensor, k: Tensor, v: Tensor, job: LocalJob) -> tuple[Tensor, Tensor]:
    """Output ``(t,n,d)`` and log-sum-exp ``(t,n,1)`` of ``(b,h,n,d)``, with ``t = b * h``."""
    plan, d, dtype = job.plan, q.shape[-1], q.dtype
    qs, ks, vs = (_ready(x) for x in blocked(q, k, v, plan))  # (t,blocks,BLOCK,d)
    out, lse = torch.empty_like(qs), qs.new_empty(*qs.shape[:3], 1)
    threads = torch.get_num_threads()
    work = qs.new_empty(threads, BLOCK, qs.shape[-1])
    library().call("local_forward", qs, ks, vs, out, lse, work, *_rest(job, qs, ks), threads)
    return plan.rows.unblocked(out)[..., :d].to(dtype), plan.rows.unblocked(lse)


def backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, job: LocalJob
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of q, k and v, ``(t,n,d)``, from that of the output."""
    plan, (b, h, n, d), dtype = job.plan, q.shape, q.dtype
    qs, ks, vs = (_ready(x) for x in blocked(q, k, v, plan))
    g, o, s = (plan.rows.blocked(x) for x in (grad.reshape(b * h, n, d), out, lse))
    g, o, s = _ready(g), _ready(o), s.contiguous()
    threads = torch.get_num_threads()
    parts = -(-threads // (b * h))  # so that every thread has work, each part with a sum of its own
    dq = torch.empty_like(qs)
    dk, dv = ks.new_zeros(parts, *ks.shape), vs.new_zeros(parts, *vs.shape)
    work = qs.new_empty(threads, BLOCK, 3 * qs.shape[-1] + 2 * BLOCK)
    tensors = (qs, ks, vs, g, o, s, dq, dk, dv, work)
    library().call("local_backward", *tensors, *_rest(job, qs, ks), parts, threads)
    dk, dv = dk.sum(0) if parts > 1 else dk[0], dv.sum(0) if parts > 1 else dv[0]
    orders = zip((plan.rows, plan.cols, plan.cols), (dq, dk, dv), strict=True)
    dq, dk, dv = (order.unblocked(x)[..., :d].to(dtype) for order, x in orders)
    return dq, dk, dv


def _ready(x: Tensor) -> Tensor:
    """Blocks in float32, contiguous, their width filled up with zeros."""
    x = x.float()
    missing = -x.shape[-1] % _WIDTH
    return F.pad(x, (0, missing)) if missing else x.contiguous()


def _rest(job: LocalJob, q: Tensor, k: Tensor) -> tuple[Tensor | int, ...]:
    """The arguments that both directions share: the pairs, their masks, the scale and the sizes."""
    pairs = job.plan.pairs
    keep = kept_once(job, ("pairs",), lambda: _keep(job, pairs)) if job.mask.symbolic else _keep(job, pairs)
    assert keep is not None
    b, h, count = keep.shape[:3]
    head_step = count * BLOCK * BLOCK
    steps = (head_step * h if b > 1 else 0, head_step if h > 1 else 0)
    scale = torch.tensor([job.scale], dtype=torch.float32)
    sizes = (job.grid.h, q.shape[0], q.shape[1], k.shape[1], q.shape[-1])
    return (pairs.start, pairs.cols, pairs.kept, keep, scale, *steps, *sizes)


def _keep(job: LocalJob, pairs: Pairs) -> Tensor:
    """Which cells of the partly kept pairs are kept, ``(b or 1, h or 1, pairs, keys, queries)``: keys down."""
    cut = zip(
        pairs.row_index.split(1024), pairs.col_index.split(1024), strict=True
    )  # bounds the index arithmetic
    parts = [job.allowed(rows, cols).transpose(-2, -1) for rows, cols in cut]
    return (
        torch.cat(parts, dim=2).contiguous()
        if parts
        else torch.empty(1, 1, 0, BLOCK, BLOCK, dtype=torch.bool)
    )
