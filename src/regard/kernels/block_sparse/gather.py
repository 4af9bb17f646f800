"""Block-sparse attention in torch, which gathers the key blocks of a group of query blocks into a batch."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from regard.kernels.block_sparse.job import BlockSparseJob
from regard.kernels.block_sparse.plans import BLOCK, Group, Plan
from regard.shapes import wide_dtype
from regard.torch_private import flash, flash_backward

__all__ = ["assembled", "backward", "blocked", "forward", "gathered"]


def forward(q: Tensor, k: Tensor, v: Tensor, job: BlockSparseJob) -> tuple[Tensor, Tensor]:
    """Compute the output ``(t,n,d)`` and log-sum-exp ``(t,n,1)`` of inputs ``(b,h,n,d)``, with ``t = b * h``."""
    plan, (b, h) = job.plan, q.shape[:2]
    blocks = blocked(q, k, v, plan)
    outs, sums = [], []
    for index, group in enumerate(plan.groups):
        qs, ks, vs = gathered(blocks, group)
        results = [
            flash(qs[:, heads], ks[:, heads], vs[:, heads], attn_mask=added, scale=job.scale)
            for heads, added in kernel_calls(job.additive(index, wide_dtype(q.dtype)), b, h)
        ]
        outs.append(torch.cat([out for out, _ in results], dim=1))  # (g,t,r,d)
        sums.append(torch.cat([lse for _, lse in results], dim=1)[..., None])  # (g,t,r,1)
    return assembled(outs, plan), assembled(sums, plan)


def backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, job: BlockSparseJob
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the gradients of q, k and v from the gradient ``(b,h,n,d)`` of the output.

    Each is ``(t,n,d)`` with ``t = b * h``. For k and v, n is the number of keys. ``out`` and ``lse`` are the results of
    :func:`forward`.
    """
    plan, (b, h, n, d) = job.plan, q.shape
    blocks = blocked(q, k, v, plan)
    of_rows = [plan.rows.blocked(x) for x in (grad.reshape(b * h, n, d), out, lse)]
    dk, dv = torch.zeros_like(blocks[1]), torch.zeros_like(blocks[2])
    dqs = []
    for index, group in enumerate(plan.groups):
        qkv = gathered(blocks, group)
        grads, outs, sums = (gather_blocks(x, group.row_blocks[:, None]) for x in of_rows)
        results = [
            flash_backward(
                grads[:, heads], *(x[:, heads] for x in qkv), outs[:, heads], sums[:, heads, :, 0],
                0.0, False, attn_mask=added, scale=job.scale,
            )
            for heads, added in kernel_calls(job.additive(index, wide_dtype(q.dtype)), b, h)
        ]  # fmt: skip
        dqs.append(torch.cat([part for part, _, _ in results], dim=1))
        add_back(dk, torch.cat([part for _, part, _ in results], dim=1), group.col_blocks)
        add_back(dv, torch.cat([part for _, _, part in results], dim=1), group.col_blocks)
    return assembled(dqs, plan), plan.cols.unblocked(dk), plan.cols.unblocked(dv)


def blocked(q: Tensor, k: Tensor, v: Tensor, plan: Plan) -> list[Tensor]:
    """Cut q, k and v into blocks ``(t,blocks,BLOCK,d)``, with ``t = b * h``."""
    orders = (plan.rows, plan.cols, plan.cols)
    return [order.blocked(x.flatten(0, 1)) for order, x in zip(orders, (q, k, v), strict=True)]


def gather_blocks(blocks: Tensor, chosen: Tensor) -> Tensor:
    """Gather the blocks with the indices ``chosen`` ``(g,c)`` of ``(t,blocks,BLOCK,d)`` to ``(g,t,c*BLOCK,d)``."""
    t, _, _, d = blocks.shape
    return blocks.index_select(1, chosen.reshape(-1)).reshape(t, len(chosen), -1, d).transpose(0, 1)


def add_back(blocks: Tensor, parts: Tensor, chosen: Tensor) -> None:
    """Add ``parts`` ``(g,t,c*BLOCK,d)`` to the blocks with the indices ``chosen`` ``(g,c)``."""
    t, _, _, d = blocks.shape
    blocks.index_add_(1, chosen.reshape(-1), parts.transpose(0, 1).reshape(t, -1, BLOCK, d))


def gathered(blocks: list[Tensor], group: Group) -> tuple[Tensor, Tensor, Tensor]:
    """Return the queries ``(g,t,BLOCK,d)``, and the keys and values ``(g,t,c*BLOCK,d)`` of a group."""
    q, k, v = blocks
    return (
        gather_blocks(q, group.row_blocks[:, None]),
        gather_blocks(k, group.col_blocks),
        gather_blocks(v, group.col_blocks),
    )


def assembled(parts: list[Tensor], plan: Plan) -> Tensor:
    """Put the results of the groups, ``(g,t,BLOCK,d)`` each, into the order of the queries, ``(t,n,d)``.

    Queries without keys get zeros.
    """
    if len(plan.empty):
        parts = [*parts, parts[0].new_zeros(len(plan.empty), *parts[0].shape[1:])]
    return plan.rows.unblocked(torch.cat(parts)[plan.place].transpose(0, 1))


def kernel_calls(added: Tensor | None, b: int, h: int) -> Iterator[tuple[slice, Tensor | None]]:
    """Yield a slice of the ``b * h`` heads and its mask for each kernel call.

    ``added (b or 1,h or 1,g,r,c)`` is the result of ``job.additive``. If it is the same for all heads of all batch
    entries, or None, one call takes them all. Otherwise each batch entry takes a call of its own.
    """
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
