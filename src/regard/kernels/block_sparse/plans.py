"""Plans, which list the key blocks that each query block attends to, computed from the rule of a mask."""

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

# The tokens of a block. Smaller blocks skip more pairs, larger blocks make faster matrix products.
BLOCK = 64
# With fewer pairs of a query and a key, a plan costs more than it saves.
MIN_PAIRS = SMALL_WORK
# Above this share of visible blocks, the fused kernel with a mask is as fast.
MAX_DENSITY = 0.6
_PLANS: OrderedDict[tuple, Plan] = OrderedDict()


class Order(NamedTuple):
    """The order of the tokens in the blocks.

    ``into`` and ``back`` are None if the tokens stay in their order.
    """

    into: Tensor | None  # (blocks * BLOCK,) the token at each position in the blocks
    back: Tensor | None  # (n,) the position of each token in the blocks
    blocks: int

    def blocked(self, x: Tensor) -> Tensor:
        """Cut ``(t,n,d)`` into blocks ``(t,blocks,BLOCK,d)``."""
        x = x if self.into is None else x.index_select(1, self.into)
        return x.reshape(x.shape[0], self.blocks, BLOCK, x.shape[-1])

    def unblocked(self, x: Tensor) -> Tensor:
        """Join blocks ``(t,blocks,BLOCK,d)`` to ``(t,n,d)``."""
        x = x.reshape(x.shape[0], self.blocks * BLOCK, x.shape[-1])
        return x if self.back is None else x.index_select(1, self.back)


class Group(NamedTuple):
    """Query blocks with equal numbers of key blocks, which are computed as one batch.

    ``whole`` is True if every pair is visible, so that no mask is needed.
    """

    row_blocks: Tensor  # (g,)
    col_blocks: Tensor  # (g,c)
    rows: Tensor  # (g,BLOCK) query indices, -1 for padding
    cols: Tensor  # (g,c*BLOCK) key indices, -1 for padding
    whole: bool


class Pairs(NamedTuple):
    """The pairs of query and key blocks of a plan, ordered by query block, for the compiled kernel.

    Some pairs of blocks are visible in part. They are numbered, and need a mask.
    """

    start: Tensor  # (row blocks + 1,) the first pair of each query block
    cols: Tensor  # (pairs,) the key block
    kept: Tensor  # (pairs,) the number among the partly visible pairs, -1 for a fully visible pair
    row_index: Tensor  # (partly visible pairs, BLOCK) query indices, -1 for padding
    col_index: Tensor  # (partly visible pairs, BLOCK) key indices, -1 for padding


class Plan(NamedTuple):
    """The blocks to compute, as groups for torch and as pairs for C.

    - ``empty`` are the query blocks without a visible key.
    - ``place`` is the position of each query block in the concatenation of the groups and the empty blocks.
    - ``density`` is the share of pairs of blocks with a visible pair of tokens.
    """

    rows: Order
    cols: Order
    groups: list[Group]
    pairs: Pairs
    empty: Tensor  # (empty blocks,)
    place: Tensor  # (row blocks,)
    density: float


def worth_planning(mask: Mask, grid: Grid) -> bool:
    """Return whether a mask may hide enough pairs for a plan to save time.

    This test is cheap and does not make a plan.
    """
    return grid.q * grid.k >= MIN_PAIRS and mask.is_sparse


def plan_for(mask: Mask, grid: Grid) -> Plan | None:
    """Return the plan of a mask, or None if the fused kernel with a mask is as fast or no key is visible.

    The last 32 plans are cached.
    """
    if not worth_planning(mask, grid):
        return None
    key = (mask.rule, grid.q, grid.k)
    if key not in _PLANS:
        _PLANS[key] = _make_plan(mask, grid)
        if len(_PLANS) > 32:
            _PLANS.popitem(last=False)
    plan = _PLANS[key]
    return plan if plan.groups and plan.density <= MAX_DENSITY else None


# Cached plans are used outside inference mode too.
@torch.inference_mode(False)
def _make_plan(mask: Mask, grid: Grid) -> Plan:
    pivots = np.array(sorted(set(mask.pivots())), dtype=np.int64)
    rows = Blocking(_pivots_first(grid.q, pivots - grid.shift), BLOCK)
    cols = Blocking(_pivots_first(grid.k, pivots), BLOCK)
    visible = mask.classify(rows, cols, grid)  # (row blocks, col blocks) of NONE, SOME or ALL
    needed = visible != NONE
    counts = needed.sum(axis=1)
    groups = [
        _make_group(np.flatnonzero(counts == c), visible, rows, cols)
        for c in sorted(set(counts.tolist()) - {0})
    ]
    empty = torch.from_numpy(np.flatnonzero(counts == 0))
    place = torch.argsort(torch.cat([*(group.row_blocks for group in groups), empty]))
    orders = _order(rows, grid.q), _order(cols, grid.k)
    return Plan(*orders, groups, _make_pairs(visible, rows, cols), empty, place, needed.mean().item())


def _make_pairs(visible: np.ndarray, rows: Blocking, cols: Blocking) -> Pairs:
    row, col = np.nonzero(visible != NONE)
    start = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(rows)))])
    partly = (visible[row, col] != ALL) | ~rows.real[row].all(axis=1) | ~cols.real[col].all(axis=1)
    kept = np.where(partly, np.cumsum(partly) - 1, -1)
    parts = (start, col, kept, rows.index[row[partly]], cols.index[col[partly]])
    return Pairs(*(torch.from_numpy(np.ascontiguousarray(part, dtype=np.int64)) for part in parts))


def _make_group(chosen: np.ndarray, visible: np.ndarray, rows: Blocking, cols: Blocking) -> Group:
    columns = np.nonzero(visible[chosen] != NONE)[1].reshape(len(chosen), -1)  # (g,c)
    index = cols.index[columns].reshape(len(chosen), -1)
    parts = (chosen, columns, rows.index[chosen], index)
    padded = bool((rows.index[chosen] < 0).any() or (index < 0).any())
    whole = bool((visible[chosen[:, None], columns] == ALL).all()) and not padded
    chosen_blocks, col_blocks, row_index, col_index = (torch.from_numpy(part) for part in parts)
    return Group(chosen_blocks, col_blocks, row_index, col_index, whole)


def _pivots_first(n: int, pivots: np.ndarray) -> np.ndarray:
    """Return all indices below n with the global tokens first, so that their dense rows and columns share blocks."""
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
