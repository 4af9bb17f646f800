"""Plans: which blocks of keys each block of queries needs, worked out from a mask's rule alone."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.kernels.additive import SMALL_WORK
from regard.masks import Mask
from regard.masks.tiling import ALL, NONE, Blocking
from regard.shapes import Grid

__all__ = ["BLOCK", "Group", "Order", "Pairs", "Plan", "plan_for", "worth_planning"]

BLOCK = 64  # side of a block: small enough to skip much, large enough for a matrix product
MIN_PAIRS = SMALL_WORK  # with fewer pairs a plan costs more than it saves
MAX_DENSITY = 0.6  # above it the plain kernel with a mask is as fast
_PLANS: OrderedDict[tuple, Plan] = OrderedDict()


class Order(NamedTuple):
    """How tokens are put into blocks and taken out again; None where they stand that way already."""

    into: Tensor | None  # (blocks * BLOCK,) the token of each place
    back: Tensor | None  # (n,) the place of each token
    blocks: int

    def blocked(self, x: Tensor) -> Tensor:
        """``(t,n,d)`` as ``(t,blocks,BLOCK,d)``."""
        x = x if self.into is None else x.index_select(1, self.into)
        return x.reshape(x.shape[0], self.blocks, BLOCK, x.shape[-1])

    def unblocked(self, x: Tensor) -> Tensor:
        """``(t,blocks,BLOCK,d)`` as ``(t,n,d)``."""
        x = x.reshape(x.shape[0], self.blocks * BLOCK, x.shape[-1])
        return x if self.back is None else x.index_select(1, self.back)


class Group(NamedTuple):
    """Query blocks that need equally many key blocks: a batch for the kernel."""

    row_blocks: Tensor  # (g,)
    col_blocks: Tensor  # (g,c)
    rows: Tensor  # (g,BLOCK) query indices, -1 where a block is filled up
    cols: Tensor  # (g,c*BLOCK) key indices, likewise
    whole: bool  # every pair is kept: no mask needed


class Pairs(NamedTuple):
    """The same as a list of (query block, key block), row after row: what the compiled kernel walks along."""

    start: Tensor  # (row blocks + 1,) where each query block's pairs begin
    cols: Tensor  # (pairs,) the key block
    kept: Tensor  # (pairs,) which of the partly kept pairs it is, -1 for one that is kept whole
    row_index: Tensor  # (partly kept pairs, BLOCK) query indices, -1 where a block is filled up
    col_index: Tensor  # (partly kept pairs, BLOCK) key indices, likewise


class Plan(NamedTuple):
    """What to compute, and what share of all pairs that is."""

    rows: Order
    cols: Order
    groups: list[Group]
    pairs: Pairs
    empty: Tensor  # query blocks without a key
    place: Tensor  # (row blocks,) where each stands after the groups, and the empty ones, one after the other
    density: float


def worth_planning(mask: Mask, grid: Grid) -> bool:
    """Whether a mask may leave out enough pairs to pay for a plan; cheap to ask."""
    return grid.q * grid.k >= MIN_PAIRS and mask.is_sparse


def plan_for(mask: Mask, grid: Grid) -> Plan | None:
    """The plan for a mask, or None where the plain kernel with a mask is as good."""
    if not worth_planning(mask, grid):
        return None
    key = (mask.rule, grid.q, grid.k)
    if key not in _PLANS:
        _PLANS[key] = _make_plan(mask, grid)
        if len(_PLANS) > 32:
            _PLANS.popitem(last=False)
    plan = _PLANS[key]
    return plan if plan.groups and plan.density <= MAX_DENSITY else None


@torch.inference_mode(False)  # a plan outlives the call that made it
def _make_plan(mask: Mask, grid: Grid) -> Plan:
    pivots = np.array(sorted(set(mask.pivots())), dtype=np.int64)
    rows = Blocking(_pivots_first(grid.q, pivots - grid.shift), BLOCK)
    cols = Blocking(_pivots_first(grid.k, pivots), BLOCK)
    found = mask.classify(rows, cols, grid)  # (row blocks, col blocks)
    needed = found != NONE
    counts = needed.sum(axis=1)
    groups = [
        _make_group(np.flatnonzero(counts == c), found, rows, cols)
        for c in sorted(set(counts.tolist()) - {0})
    ]
    empty = torch.from_numpy(np.flatnonzero(counts == 0))
    place = torch.argsort(torch.cat([*(group.row_blocks for group in groups), empty]))
    orders = _order(rows, grid.q), _order(cols, grid.k)
    return Plan(*orders, groups, _make_pairs(found, rows, cols), empty, place, needed.mean().item())


def _make_pairs(found: np.ndarray, rows: Blocking, cols: Blocking) -> Pairs:
    row, col = np.nonzero(found != NONE)
    start = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(rows)))])
    partly = (found[row, col] != ALL) | ~rows.real[row].all(axis=1) | ~cols.real[col].all(axis=1)
    kept = np.where(partly, np.cumsum(partly) - 1, -1)
    parts = (start, col, kept, rows.index[row[partly]], cols.index[col[partly]])
    return Pairs(*(torch.from_numpy(np.ascontiguousarray(part, dtype=np.int64)) for part in parts))


def _make_group(chosen: np.ndarray, found: np.ndarray, rows: Blocking, cols: Blocking) -> Group:
    columns = np.nonzero(found[chosen] != NONE)[1].reshape(len(chosen), -1)  # (g,c)
    index = cols.index[columns].reshape(len(chosen), -1)
    parts = (chosen, columns, rows.index[chosen], index)
    filled_up = bool((rows.index[chosen] < 0).any() or (index < 0).any())
    whole = bool((found[chosen[:, None], columns] == ALL).all()) and not filled_up
    chosen_blocks, col_blocks, row_index, col_index = (torch.from_numpy(part) for part in parts)
    return Group(chosen_blocks, col_blocks, row_index, col_index, whole)


def _pivots_first(n: int, pivots: np.ndarray) -> np.ndarray:
    """All indices, global tokens in front: their rows and columns are dense and share blocks."""
    pivots = pivots[(pivots >= 0) & (pivots < n)]
    rest = np.ones(n, dtype=bool)
    rest[pivots] = False
    return np.concatenate([pivots, np.flatnonzero(rest)])


def _order(blocking: Blocking, n: int) -> Order:
    flat = blocking.index.reshape(-1)
    if len(flat) == n and (flat == np.arange(n)).all():
        return Order(None, None, len(blocking))
    back = np.empty(n, dtype=np.int64)
    back[flat[flat >= 0]] = np.flatnonzero(flat >= 0)
    return Order(torch.from_numpy(np.maximum(flat, 0)), torch.from_numpy(back), len(blocking))
