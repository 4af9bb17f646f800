"""Block-sparse attention, which skips the blocks of query-key pairs that a mask hides.

Sliding windows, global tokens and block patterns run here. Time and memory grow with the number of visible pairs, not
with ``q * k``. A plan (:mod:`~regard.kernels.block_sparse.plans`) lists the blocks to compute. With a C compiler the
plan is run in C, otherwise its blocks are gathered for torch's fused kernel.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from regard.kernels.block_sparse import compiled, gather
from regard.kernels.block_sparse.gather import assembled, blocked, gathered
from regard.kernels.block_sparse.job import BlockSparseJob
from regard.kernels.dense import masked_softmax, weighted_sum
from regard.kernels.operators import gradients_with_graph
from regard.shapes import wide_dtype

__all__ = ["BlockSparseJob", "block_sparse_attention", "block_sparse_attention_dense"]


def block_sparse_attention(q: Tensor, k: Tensor, v: Tensor, job: BlockSparseJob) -> tuple[Tensor, Tensor]:
    """Compute the output ``(b,h,q,d)`` and the log-sum-exp ``(b,h,q)`` of each row.

    q, k and v have equal numbers of heads and equal widths. The output has gradients, the log-sum-exp has none.
    """
    out, lse = _BlockSparseAttention.apply(q, k, v, job)
    return out, lse


class _BlockSparseAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q: Tensor, k: Tensor, v: Tensor, job: BlockSparseJob) -> tuple[Tensor, Tensor]:
        ctx.kernel = compiled if compiled.available(q, job) else gather
        out, lse = ctx.kernel.forward(q, k, v, job)  # (t,n,d), (t,n,1)
        ctx.job = job
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.mark_non_differentiable(lse)
        return out.reshape(q.shape), lse.reshape(q.shape[:3])

    @staticmethod
    def backward(ctx, *grads: Tensor):
        grad = grads[0]
        q, k, v, out, lse = ctx.saved_tensors
        # Gradients are recorded in a backward pass only with create_graph=True.
        if torch.is_grad_enabled():
            formula = functools.partial(block_sparse_attention_dense, job=ctx.job, dropout=0.0)
            return *gradients_with_graph(formula, (q, k, v), ctx.needs_input_grad[:3], grad), None
        dq, dk, dv = ctx.kernel.backward(grad, q, k, v, out, lse, ctx.job)
        return dq.reshape(q.shape), dk.reshape(k.shape), dv.reshape(v.shape), None


def block_sparse_attention_dense(
    q: Tensor, k: Tensor, v: Tensor, job: BlockSparseJob, dropout: float
) -> Tensor:
    """Compute the output ``(b,h,q,e)`` of block-sparse attention in torch, with stored weights.

    This is for dropout, for a trained bias and for second derivatives. q, k and v have equal numbers of heads.
    """
    b, h, n, _ = q.shape
    wide = wide_dtype(q.dtype)
    blocks = blocked(q.to(wide) * job.scale, k.to(wide), v.to(wide), job.plan)
    outs = []
    for group in job.plan.groups:
        qs, ks, vs = gathered(blocks, group)  # (g,t,.,d)
        scores = (qs @ ks.transpose(-2, -1)).unflatten(1, (b, h))  # (g,b,h,r,c)
        if job.bias is not None:
            scores = scores + job.bias_of(group).movedim(2, 0)
        keep = job.keep(group)
        weights = masked_softmax(scores, None if keep is None else keep.movedim(2, 0))
        outs.append(weighted_sum(weights.flatten(1, 2), vs, dropout))
    return assembled(outs, job.plan).reshape(b, h, n, -1).to(v.dtype)
