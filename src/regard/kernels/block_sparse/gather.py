"""Local attention in torch: the key blocks that a group of query blocks needs are gathered into a batch."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from regard.kernels.block_sparse.job import BlockSparseJob
from regard.kernels.block_sparse.plans import BLOCK, Group, Plan
from regard.kernels.sdpa import flash
from regard.shapes import wide_dtype

__all__ = ["assembled", "backward", "blocked", "forward", "gathered"]

_flash_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default


def forward(q: Tensor, k: Tensor, v: Tensor, job: BlockSparseJob) -> tuple[Tensor, Tensor]:
    """Output ``(t,n,d)`` and log-sum-exp ``(t,n,1)`` of ``(b,h,n,d)``, with ``t = b * h``."""
    plan, (b, h) = job.plan, q.shape[:2]
    blocks = blocked(q, k, v, plan)
    outs, sums = [], []
    for index, group in enumerate(plan.groups):
        qs, ks, vs = gathered(blocks, group)
        results = [
            flash(qs[:, heads], ks[:, heads], vs[:, heads], attn_mask=added, scale=job.scale)
            for heads, added in calls(job.additive(index, wide_dtype(q.dtype)), b, h)
        ]
        outs.append(torch.cat([out for out, _ in results], dim=1))  # (g,t,r,d)
        sums.append(torch.cat([lse for _, lse in results], dim=1)[..., None])  # (g,t,r,1)
    return assembled(outs, plan), assembled(sums, plan)


def backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, job: BlockSparseJob
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of q, k and v, ``(t,n,d)``, from that of the output."""
    plan, (b, h, n, d) = job.plan, q.shape
    blocks = blocked(q, k, v, plan)
    of_rows = [plan.rows.blocked(x) for x in (grad.reshape(b * h, n, d), out, lse)]
    dk, dv = torch.zeros_like(blocks[1]), torch.zeros_like(blocks[2])
    dqs = []
    for index, group in enumerate(plan.groups):
        qkv = gathered(blocks, group)
        grads, outs, sums = (take(x, group.row_blocks[:, None]) for x in of_rows)
        results = [
            _flash_backward(
                grads[:, heads], *(x[:, heads] for x in qkv), outs[:, heads], sums[:, heads, :, 0],
                0.0, False, attn_mask=added, scale=job.scale,
            )
            for heads, added in calls(job.additive(index, wide_dtype(q.dtype)), b, h)
        ]  # fmt: skip
        dqs.append(torch.cat([part for part, _, _ in results], dim=1))
        give(dk, torch.cat([part for _, part, _ in results], dim=1), group.col_blocks)
        give(dv, torch.cat([part for _, _, part in results], dim=1), group.col_blocks)
    return assembled(dqs, plan), plan.cols.unblocked(dk), plan.cols.unblocked(dv)


def blocked(q: Tensor, k: Tensor, v: Tensor, plan: Plan) -> list[Tensor]:
    """q, k, v as ``(t,blocks,BLOCK,d)`` with ``t = b * h``."""
    orders = (plan.rows, plan.cols, plan.cols)
    return [order.blocked(x.flatten(0, 1)) for order, x in zip(orders, (q, k, v), strict=True)]


def take(blocks: Tensor, chosen: Tensor) -> Tensor:
    """Blocks ``(t,blocks,BLOCK,d)`` chosen by ``(g,c)``: ``(g,t,c*BLOCK,d)``."""
    t, _, _, d = blocks.shape
    return blocks.index_select(1, chosen.reshape(-1)).reshape(t, len(chosen), -1, d).transpose(0, 1)


def give(blocks: Tensor, parts: Tensor, chosen: Tensor) -> None:
    """The reverse of taking: add ``(g,t,c*BLOCK,d)`` to the blocks it came from."""
    t, _, _, d = blocks.shape
    blocks.index_add_(1, chosen.reshape(-1), parts.transpose(0, 1).reshape(t, -1, BLOCK, d))


def gathered(blocks: list[Tensor], group: Group) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of a group."""
    q, k, v = blocks
    return take(q, group.row_blocks[:, None]), take(k, group.col_blocks), take(v, group.col_blocks)


def assembled(parts: list[Tensor], plan: Plan) -> Tensor:
    """Results of the groups ``(g,t,BLOCK,d)``, with zeros for queries without keys, in order: ``(t,n,d)``."""
    if len(plan.empty):
        parts = [*parts, parts[0].new_zeros(len(plan.empty), *parts[0].shape[1:])]
    return plan.rows.unblocked(torch.cat(parts)[plan.place].transpose(0, 1))


def calls(added: Tensor | None, b: int, h: int) -> Iterator[tuple[slice, Tensor | None]]:
    """What goes through the kernel at once: all heads where they share a mask, else one batch entry at a time."""
    if added is None:
        yield slice(None), None
    elif added.shape[:2] == (1, 1):
        yield slice(None), added[0, 0, :, None]  # (g,1,r,c)
    else:
        for i in range(b):
            yield (
                slice(i * h, (i + 1) * h),
                added[min(i, added.shape[0] - 1)].transpose(0, 1),
            )  # (g,h or 1,r,c)
