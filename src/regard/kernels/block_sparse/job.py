"""A local attention to compute: the plan, and how its pairs are masked and biased."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from regard.kernels.block_sparse.plans import Group, Plan
from regard.masks import Mask
from regard.shapes import Grid

__all__ = ["BiasTile", "BlockSparseJob", "kept_once"]

_KEPT: OrderedDict[tuple, Tensor] = OrderedDict()  # masks of rules, made once
_KEPT_BYTES = 2**27

BiasTile = Callable[[Tensor, Tensor], Tensor]  # query indices, key indices -> numbers to add, (b,h,g,r,c)


class BlockSparseJob(NamedTuple):
    """Everything but the tensors: what to compute and how pairs are masked."""

    plan: Plan
    mask: Mask
    grid: Grid
    bias: BiasTile | None
    scale: float

    def keep(self, group: Group) -> Tensor | None:
        """Which pairs of a group are kept, ``(b or 1, h or 1, g, r, c)``; None for all."""
        return None if group.whole else self.allowed(group.rows, group.cols)

    def allowed(self, rows: Tensor, cols: Tensor) -> Tensor:
        """The mask on ``(g,r)`` queries and ``(g,c)`` keys, nothing where an index is -1: ``(b or 1,h or 1,g,r,c)``."""
        i, j = rows[:, :, None], cols[:, None, :]
        return self.mask.allow(i.clamp(min=0), j.clamp(min=0), self.grid) & (i >= 0) & (j >= 0)

    def additive(self, index: int, dtype: torch.dtype) -> Tensor | None:
        """What is added to the scores of a group, ``(b or 1, h or 1, g, r, c)``."""
        group = self.plan.groups[index]
        if self.bias is None and self.mask.symbolic:
            return kept_once(self, (index, dtype), lambda: _as_numbers(self.keep(group), dtype))
        keep = self.keep(group)
        if self.bias is None:
            return _as_numbers(keep, dtype)
        bias = self.bias_of(group).to(dtype)
        return bias if keep is None else bias.masked_fill(~keep, float("-inf"))

    def bias_of(self, group: Group) -> Tensor:
        """The bias on the pairs of a group, ``(b or 1, h or 1, g, r, c)``."""
        assert self.bias is not None
        return self.bias(group.rows[:, :, None].clamp(min=0), group.cols[:, None, :].clamp(min=0))


def kept_once(job: BlockSparseJob, name: tuple, make: Callable[[], Tensor | None]) -> Tensor | None:
    """What ``make`` gives for a mask that is a rule, kept for the next call with the same lengths."""
    key = (job.mask.rule, job.grid.q, job.grid.k, *name)
    if key in _KEPT:
        return _KEPT[key]
    with torch.inference_mode(False):  # it outlives this call
        made = make()
    if made is not None and made.nbytes <= _KEPT_BYTES:
        _KEPT[key] = made
        while sum(x.nbytes for x in _KEPT.values()) > _KEPT_BYTES:
            _KEPT.popitem(last=False)
    return made


def _as_numbers(keep: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    return None if keep is None else torch.zeros(keep.shape, dtype=dtype).masked_fill_(~keep, float("-inf"))
