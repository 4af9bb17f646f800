"""One pass over all scores of a map: each row's log-sum-exp, and the map as it looks from afar.

The scores are taken in tiles that fit into the processor's cache, and tiles that the mask hides whole are left out.
Exponentials of single weights are never stored: they are monotone, so the largest weight of a cell of the overview
comes from its largest score.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.maps.sources import Recomputed, Tile
from regard.masks import Mask
from regard.masks.tiling import ALL, NONE, Blocking
from regard.shapes import Grid
from regard.viewer.progress import PageProgress
from regard.viewer.tiles import HIDDEN, cell_starts

__all__ = ["Pass", "pass_over"]

ROWS, KEYS = 256, 1024  # of a tile
TILE_SCORES = 2**18  # of all heads that are taken at once
_LOG2_E = math.log2(math.e)
_LOWEST = -3e38  # stands for a score of minus infinity that no mask hides


class Span(NamedTuple):
    """A tile whose parts are all slices."""

    b: slice
    h: slice
    q: slice = slice(0, 0)
    k: slice = slice(0, 0)


class Pass(NamedTuple):
    """What a pass finds out."""

    lse: Tensor  # (b,h,q)
    overview: np.ndarray | None  # (b,h,rows,cols), -1 where hidden; None where none was asked for


def pass_over(source: Recomputed, side: int | None, progress: PageProgress | None = None) -> Pass:
    """The log-sum-exp of every row, and an overview of at most ``side`` cells to a side.

    The source is one that a page stores: on the CPU, in float32, with no callable score.
    """
    b, h, q, k = source.grid
    lse = torch.full((b, h, q), float("-inf"))
    cells = None if side is None else np.full((b, h, min(q, side), min(k, side)), HIDDEN, dtype=np.float32)
    found = Pass(lse, cells)
    plain = Recomputed(source.ready, source.grid, None, source.bias, lse, source.score)
    kinds = _kinds(source.mask, source.grid)
    heads = max(1, TILE_SCORES // (min(q, ROWS) * min(k, KEYS)))
    for one in range(b):
        for first in range(0, h, heads):
            part = Span(slice(one, one + 1), slice(first, min(h, first + heads)))
            mask = None if source.mask is None else source.mask.part(part.b, part.h)
            for n in range(len(kinds)):
                rows = part._replace(q=slice(n * ROWS, min(q, (n + 1) * ROWS)))
                _take_rows(plain, mask, rows, kinds[n], found)
                if progress is not None:
                    progress.add((part.h.stop - part.h.start) * (rows.q.stop - rows.q.start) * k)
    return found


def _kinds(mask: Mask | None, grid: Grid) -> np.ndarray:
    """How much of each tile the mask keeps: NONE, SOME or ALL, ``(rows of tiles, columns of tiles)``."""
    shape = (-(-grid.q // ROWS), -(-grid.k // KEYS))
    if mask is None:
        return np.full(shape, ALL)
    rows, cols = Blocking(np.arange(grid.q), ROWS), Blocking(np.arange(grid.k), KEYS)
    return mask.classify(rows, cols, grid)


@torch.no_grad()
def _take_rows(plain: Recomputed, mask: Mask | None, rows: Span, kinds: np.ndarray, found: Pass) -> None:
    """The log-sum-exp of a few rows of some heads, and their part of the overview."""
    k = plain.grid.k
    heads, count = rows.h.stop - rows.h.start, rows.q.stop - rows.q.start
    top = torch.full((1, heads, count), float("-inf"))  # the largest score of each row so far
    total = torch.zeros((1, heads, count), dtype=torch.float64)  # of exponentials, relative to the largest
    starts = None if found.overview is None else cell_starts(k, found.overview.shape[3])
    pooled = None if starts is None else np.full((heads, count, len(starts)), -np.inf, dtype=np.float32)
    for n in np.flatnonzero(kinds != NONE):
        tile = rows._replace(k=slice(n * KEYS, min(k, (n + 1) * KEYS)))
        scores = _scores(plain, mask if kinds[n] != ALL else None, tile)  # (1,h,q,k)
        largest = _pool(scores, tile.k, starts, pooled)  # (1,h,q)
        higher = torch.maximum(top, largest)
        base = higher.masked_fill(higher == float("-inf"), 0.0)  # rows that have seen nothing yet
        total = total * (top - base).exp2() + scores.sub_(base[..., None]).exp2_().sum(dim=-1)
        top = higher
    lse = total.log2() + top.masked_fill(top == float("-inf"), 0.0)
    found.lse[rows.b, rows.h, rows.q] = (lse / _LOG2_E).float()
    if found.overview is not None and pooled is not None:
        _put_into_overview(found.overview[rows.b.start, rows.h], plain.grid.q, rows.q, pooled, lse[0].numpy())


def _scores(plain: Recomputed, mask: Mask | None, tile: Span) -> Tensor:
    """Scores of a tile times log2(e), minus infinity where hidden; ``exp2_`` takes a third of the time of ``exp_``."""
    q, keys, scale, v = plain.ready
    if v is None and plain.bias is None and keys.shape[1] == plain.grid.h:  # a product and nothing else
        scaled = q[tile.b, tile.h, tile.q] * (scale * _LOG2_E)
        scores = scaled @ keys[tile.b, tile.h, tile.k].transpose(-2, -1)  # (1,h,q,k)
    else:
        scores = plain.scores(Tile(*tile))[0].mul_(_LOG2_E).clamp_(min=_LOWEST)
    if mask is None:
        return scores
    i, j = torch.arange(tile.q.start, tile.q.stop)[:, None], torch.arange(tile.k.start, tile.k.stop)[None, :]
    keep = mask.allow(i, j, plain.grid._replace(b=1, h=scores.shape[1]))
    return scores.masked_fill_(~keep.cpu(), float("-inf"))


def _pool(scores: Tensor, keys: slice, starts: np.ndarray | None, pooled: np.ndarray | None) -> Tensor:
    """The largest score of each row, and of each cell of the overview, which is put into ``pooled (h,q,cells)``."""
    if starts is None or pooled is None:
        return scores.amax(dim=-1)
    first = int(np.searchsorted(starts, keys.start, side="right")) - 1  # the cell that the first key is in
    last = int(np.searchsorted(starts, keys.stop, side="left"))
    places = np.maximum(starts[first:last] - keys.start, 0)
    cells = np.maximum.reduceat(scores[0].numpy(), places, axis=2)  # (h,q,cells of this tile)
    np.maximum(pooled[:, :, first:last], cells, out=pooled[:, :, first:last])
    return torch.from_numpy(cells.max(axis=2))[None]


def _put_into_overview(cells: np.ndarray, q: int, rows: slice, pooled: np.ndarray, lse: np.ndarray) -> None:
    """The weights of rows whose log-sum-exp (to base 2) is known, into ``cells (h,rows,cols)``."""
    seen = pooled != -np.inf
    shift = np.where(np.isfinite(lse), lse, 0.0)[..., None]  # (h,q,1)
    weights = np.where(seen, np.exp2(np.where(seen, pooled, 0.0) - shift), HIDDEN)
    places, first = np.unique(np.arange(rows.start, rows.stop) * cells.shape[1] // q, return_index=True)
    largest = np.maximum.reduceat(weights, first, axis=1)
    cells[:, places] = np.maximum(cells[:, places], largest)
