"""The description of a block-sparse attention without its tensors, as a plan with mask, bias and scale."""

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

# The tensors of masks that are rules, by rule and lengths.
_KEPT: OrderedDict[tuple, Tensor] = OrderedDict()
_KEPT_BYTES = 2**27

# A function from query indices and key indices to the bias, (b,h,g,r,c).
BiasTile = Callable[[Tensor, Tensor], Tensor]


class BlockSparseJob(NamedTuple):
    """The plan, mask, sizes, bias and scale of a block-sparse attention."""

    plan: Plan
    mask: Mask
    grid: Grid
    bias: BiasTile | None
    scale: float

    def keep(self, group: Group) -> Tensor | None:
        """Return which pairs of a group are visible, ``(b or 1, h or 1, g, r, c)``, or None for all."""
        return None if group.whole else self.allowed(group.rows, group.cols)

    def allowed(self, rows: Tensor, cols: Tensor) -> Tensor:
        """Return the mask at ``(g,r)`` queries and ``(g,c)`` keys, ``(b or 1,h or 1,g,r,c)``.

        The index -1 stands for padding, whose pairs are hidden.
        """
        i, j = rows[:, :, None], cols[:, None, :]
        return self.mask.allow(i.clamp(min=0), j.clamp(min=0), self.grid) & (i >= 0) & (j >= 0)

    def additive(self, index: int, dtype: torch.dtype) -> Tensor | None:
        """Return the bias of group ``index`` with -inf for hidden pairs, ``(b or 1, h or 1, g, r, c)``.

        Without a bias, it is 0 for visible pairs. None means that there is no bias and no pair is hidden.
        """
        group = self.plan.groups[index]
        if self.bias is None and self.mask.symbolic:
            return kept_once(self, (index, dtype), lambda: _as_numbers(self.keep(group), dtype))
        keep = self.keep(group)
        if self.bias is None:
            return _as_numbers(keep, dtype)
        bias = self.bias_of(group).to(dtype)
        return bias if keep is None else bias.masked_fill(~keep, float("-inf"))

    def bias_of(self, group: Group) -> Tensor:
        """Return the bias of the pairs of a group, ``(b or 1, h or 1, g, r, c)``. The job must have a bias."""
        assert self.bias is not None
        return self.bias(group.rows[:, :, None].clamp(min=0), group.cols[:, None, :].clamp(min=0))


def kept_once(job: BlockSparseJob, name: tuple, make: Callable[[], Tensor | None]) -> Tensor | None:
    """Return the result of ``make``, cached for the next call with the same mask rule and lengths.

    The mask must be symbolic. ``name`` distinguishes several results for one mask. The cache holds 128 MB, and drops
    the oldest results first.
    """
    key = (job.mask.rule, job.grid.q, job.grid.k, *name)
    if key in _KEPT:
        return _KEPT[key]
    # The cached tensor is used outside inference mode too.
    with torch.inference_mode(False):
        made = make()
    if made is not None and made.nbytes <= _KEPT_BYTES:
        _KEPT[key] = made
        while sum(x.nbytes for x in _KEPT.values()) > _KEPT_BYTES:
            _KEPT.popitem(last=False)
    return made


def _as_numbers(keep: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    return None if keep is None else torch.zeros(keep.shape, dtype=dtype).masked_fill_(~keep, float("-inf"))
