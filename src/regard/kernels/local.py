"""Attention that skips the blocks a mask leaves out: windows, global tokens, block-sparse patterns.

Query blocks that need equally many key blocks (:mod:`regard.kernels.plans`) are taken together: their keys are
gathered, and the fused kernel runs on them as on a batch. Time and memory grow with the pairs that are kept, not
with ``q * k``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from regard.kernels.dense import masked_softmax, weighted_sum
from regard.kernels.plans import BLOCK, Group, Plan
from regard.kernels.sdpa import flash as _flash
from regard.masks import Mask
from regard.shapes import Grid, wide_dtype

__all__ = ["LocalJob", "local_attention", "local_attention_dense"]

_flash_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default
_KEPT: OrderedDict[tuple, Tensor] = OrderedDict()  # additive masks of rules, made once
_KEPT_BYTES = 2**27

BiasTile = Callable[[Tensor, Tensor], Tensor]  # query indices, key indices -> numbers to add, (b,h,g,r,c)


class LocalJob(NamedTuple):
    """Everything but the tensors: what to compute and how pairs are masked."""

    plan: Plan
    mask: Mask
    grid: Grid
    bias: BiasTile | None
    scale: float

    def keep(self, group: Group) -> Tensor | None:
        """Which pairs of a group are kept, ``(b or 1, h or 1, g, r, c)``; None for all."""
        if group.whole and self.mask.symbolic:
            return None
        rows, cols = group.rows[:, :, None], group.cols[:, None, :]
        keep = self.mask.allow(rows.clamp(min=0), cols.clamp(min=0), self.grid)
        return keep & (rows >= 0) & (cols >= 0)

    def additive(self, index: int, dtype: torch.dtype) -> Tensor | None:
        """What is added to the scores of a group, ``(b or 1, h or 1, g, r, c)``."""
        group = self.plan.groups[index]
        if self.bias is None and self.mask.symbolic:
            return _kept(self, index, dtype)
        keep = self.keep(group)
        if self.bias is None:
            return _as_numbers(keep, dtype)
        bias = self.bias_of(group).to(dtype)
        return bias if keep is None else bias.masked_fill(~keep, float("-inf"))

    def bias_of(self, group: Group) -> Tensor:
        """The bias on the pairs of a group, ``(b or 1, h or 1, g, r, c)``."""
        assert self.bias is not None
        return self.bias(group.rows[:, :, None].clamp(min=0), group.cols[:, None, :].clamp(min=0))


def local_attention(q: Tensor, k: Tensor, v: Tensor, job: LocalJob) -> tuple[Tensor, Tensor]:
    """Output ``(b,h,q,d)`` and log-sum-exp ``(b,h,q)``, with q, k, v of equal heads and width; differentiable."""
    out, lse = _Local.apply(q, k, v, job)
    return out, lse


class _Local(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q: Tensor, k: Tensor, v: Tensor, job: LocalJob) -> tuple[Tensor, Tensor]:
        plan, (b, h, n, d) = job.plan, q.shape
        blocks = _blocked(q, k, v, plan)
        outs, sums = [], []
        for index, group in enumerate(plan.groups):
            qs, ks, vs = _gathered(blocks, group)
            results = [
                _flash(qs[:, heads], ks[:, heads], vs[:, heads], attn_mask=added, scale=job.scale)
                for heads, added in _calls(job.additive(index, q.dtype), b, h)
            ]
            outs.append(torch.cat([out for out, _ in results], dim=1))  # (g,t,r,d)
            sums.append(torch.cat([lse for _, lse in results], dim=1)[..., None])  # (g,t,r,1)
        out, lse = _assembled(outs, plan), _assembled(sums, plan)  # (t,n,d), (t,n,1)
        ctx.job = job
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.mark_non_differentiable(lse)
        return out.reshape(b, h, n, d), lse.reshape(b, h, n)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad: Tensor, _: Tensor):
        q, k, v, out, lse = ctx.saved_tensors
        job, plan, (b, h, n, d) = ctx.job, ctx.job.plan, q.shape
        blocks = _blocked(q, k, v, plan)
        of_rows = [plan.rows.blocked(x) for x in (grad.reshape(b * h, n, d), out, lse)]
        dk, dv = torch.zeros_like(blocks[1]), torch.zeros_like(blocks[2])
        dqs = []
        for index, group in enumerate(plan.groups):
            qkv = _gathered(blocks, group)
            grads, outs, sums = (_take(x, group.row_blocks[:, None]) for x in of_rows)
            results = [
                _flash_backward(
                    grads[:, heads], *(x[:, heads] for x in qkv), outs[:, heads], sums[:, heads, :, 0],
                    0.0, False, attn_mask=added, scale=job.scale,
                )
                for heads, added in _calls(job.additive(index, q.dtype), b, h)
            ]  # fmt: skip
            dqs.append(torch.cat([dq for dq, _, _ in results], dim=1))
            _give(dk, torch.cat([dk_ for _, dk_, _ in results], dim=1), group.col_blocks)
            _give(dv, torch.cat([dv_ for _, _, dv_ in results], dim=1), group.col_blocks)
        dq = _assembled(dqs, plan)
        return dq.reshape(q.shape), plan.cols.unblocked(dk).reshape(k.shape), plan.cols.unblocked(dv).reshape(v.shape), None


def local_attention_dense(q: Tensor, k: Tensor, v: Tensor, job: LocalJob, dropout: float) -> Tensor:
    """The same in plain torch, for what the fused kernel cannot do: dropout, and a bias that is trained."""
    b, h, n, _ = q.shape
    wide = wide_dtype(q.dtype)
    blocks = _blocked(q.to(wide) * job.scale, k.to(wide), v.to(wide), job.plan)
    outs = []
    for group in job.plan.groups:
        qs, ks, vs = _gathered(blocks, group)  # (g,t,.,d)
        scores = (qs @ ks.transpose(-2, -1)).unflatten(1, (b, h))  # (g,b,h,r,c)
        if job.bias is not None:
            scores = scores + job.bias_of(group).movedim(2, 0)
        keep = job.keep(group)
        weights = masked_softmax(scores, None if keep is None else keep.movedim(2, 0))
        outs.append(weighted_sum(weights.flatten(1, 2), vs, dropout))
    return _assembled(outs, job.plan).reshape(b, h, n, -1).to(v.dtype)


def _blocked(q: Tensor, k: Tensor, v: Tensor, plan: Plan) -> list[Tensor]:
    """q, k, v as ``(t,blocks,BLOCK,d)`` with ``t = b * h``."""
    orders = (plan.rows, plan.cols, plan.cols)
    return [order.blocked(x.flatten(0, 1)) for order, x in zip(orders, (q, k, v), strict=True)]


def _take(blocks: Tensor, chosen: Tensor) -> Tensor:
    """Blocks ``(t,blocks,BLOCK,d)`` chosen by ``(g,c)``: ``(g,t,c*BLOCK,d)``."""
    t, _, _, d = blocks.shape
    return blocks.index_select(1, chosen.reshape(-1)).reshape(t, len(chosen), -1, d).transpose(0, 1)


def _give(blocks: Tensor, parts: Tensor, chosen: Tensor) -> None:
    """The reverse of taking: add ``(g,t,c*BLOCK,d)`` to the blocks it came from."""
    t, _, _, d = blocks.shape
    blocks.index_add_(1, chosen.reshape(-1), parts.transpose(0, 1).reshape(t, -1, BLOCK, d))


def _gathered(blocks: list[Tensor], group: Group) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = blocks
    return _take(q, group.row_blocks[:, None]), _take(k, group.col_blocks), _take(v, group.col_blocks)


def _assembled(parts: list[Tensor], plan: Plan) -> Tensor:
    """Results of the groups ``(g,t,BLOCK,d)``, with zeros for queries without keys, in order: ``(t,n,d)``."""
    if len(plan.empty):
        parts = [*parts, parts[0].new_zeros(len(plan.empty), *parts[0].shape[1:])]
    return plan.rows.unblocked(torch.cat(parts)[plan.place].transpose(0, 1))


def _calls(added: Tensor | None, b: int, h: int) -> Iterator[tuple[slice, Tensor | None]]:
    """What goes through the kernel at once: all heads where they share a mask, else one batch entry at a time."""
    if added is None:
        yield slice(None), None
    elif added.shape[:2] == (1, 1):
        yield slice(None), added[0, 0, :, None]  # (g,1,r,c)
    else:
        for i in range(b):
            yield slice(i * h, (i + 1) * h), added[min(i, added.shape[0] - 1)].transpose(0, 1)  # (g,h or 1,r,c)


def _as_numbers(keep: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    return None if keep is None else torch.zeros(keep.shape, dtype=dtype).masked_fill_(~keep, float("-inf"))


def _kept(job: LocalJob, index: int, dtype: torch.dtype) -> Tensor | None:
    """The additive mask of a rule, made once for each group and length."""
    key = (job.mask.rule, job.grid.q, job.grid.k, index, dtype)
    if key in _KEPT:
        return _KEPT[key]
    made = _as_numbers(job.keep(job.plan.groups[index]), dtype)
    if made is not None and made.nbytes <= _KEPT_BYTES:
        _KEPT[key] = made
        while sum(x.nbytes for x in _KEPT.values()) > _KEPT_BYTES:
            _KEPT.popitem(last=False)
    return made
