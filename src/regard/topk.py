"""Exact top-k of long rows, faster than ``torch.topk`` because most of a row is never sorted.

A row is cut into blocks. The n largest numbers lie in the n blocks with the largest maxima, so only those blocks are
searched. Which of several equal numbers is returned is not specified.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["largest", "largest_sums"]

BLOCK = 64
# With fewer numbers than this for each one that is returned, `torch.topk` is as fast (measured on torch 2.13).
_WORTH_BLOCKS = 512


def largest(x: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Return the n largest numbers of the last axis and their indices, ``(...,n)`` each, largest first.

    >>> largest(torch.arange(3000.0), 2)
    (tensor([2999., 2998.]), tensor([2999, 2998]))
    """
    size = x.shape[-1]
    if size < _WORTH_BLOCKS * n:
        return x.topk(n, dim=-1)
    rows = x.reshape(-1, 1, size)
    values, _, indices = largest_sums(rows, rows.new_zeros(len(rows), 1), n)
    return values.view(*x.shape[:-1], n), indices.view(*x.shape[:-1], n)


def largest_sums(x: Tensor, added: Tensor, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the n largest of the sums ``x (b,r,k) + added (b,r)``, with their row and column, ``(b,n)`` each.

    The largest come first. The rows of one batch entry are ranked together. ``added`` is added to a few candidates
    instead of to all of ``x``.

    >>> x = torch.tensor([[[0.1, 0.9, 0.3], [0.8, 0.2, 0.7]]])
    >>> values, rows, columns = largest_sums(x, torch.tensor([[0.0, 1.0]]), 3)
    >>> rows, columns
    (tensor([[1, 1, 1]]), tensor([[0, 2, 1]]))
    """
    b, r, k = x.shape
    if r * k < _WORTH_BLOCKS * n or k < BLOCK:
        values, places = (x + added[..., None]).flatten(1).topk(n, dim=1)
        return values, places // k, places % k
    blocks = k // BLOCK
    whole = blocks * BLOCK
    blocked = x[..., :whole].unflatten(2, (blocks, BLOCK))  # (b,r,blocks,BLOCK), a view
    maxima = (blocked.amax(dim=3) + added[..., None]).flatten(1)  # (b,r*blocks)
    best = maxima.topk(min(n, r * blocks), dim=1).indices
    row, block = best // blocks, best % blocks
    entry = torch.arange(b, device=x.device)[:, None]
    candidates = blocked[entry, row, block].add_(added.gather(1, row)[..., None]).flatten(1)
    inside = candidates.shape[1]
    # The numbers after the last whole block of each row are candidates too.
    if whole < k:
        candidates = torch.cat([candidates, (x[..., whole:] + added[..., None]).flatten(1)], dim=1)
    values, place = candidates.topk(n, dim=1)
    at = (place // BLOCK).clamp(max=best.shape[1] - 1)
    rows, columns = row.gather(1, at), block.gather(1, at) * BLOCK + place % BLOCK
    if whole < k:
        behind = place - inside
        rows = torch.where(behind < 0, rows, behind // (k - whole))
        columns = torch.where(behind < 0, columns, whole + behind % (k - whole))
    return values, rows, columns
