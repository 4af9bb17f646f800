"""The log-sum-exp of every row of a map and its overview, from one pass over the scores.

The scores are computed in tiles of a few megabytes. Tiles that the mask hides completely are skipped. The overview is
pooled from scores instead of weights: the exponential is monotone, so the largest weight of a cell follows from its
largest score.

The keys are arranged in cells of equal width, so that one reduction over a reshaped tile pools all its cells. Cells
with one key less than the others get a padding slot, whose score is minus infinity.
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

__all__ = ["ScoreSummary", "summarize_scores"]

# The size of a tile, about.
ROWS, KEYS = 512, 2560
# From this many adjacent cells on, torch takes their maxima with vector instructions.
LANES = 32
# The most scores of all heads of a tile, about.
TILE_SCORES = 2**20
# The largest distance, in powers of two, between a row's largest score and its reference. Up to it, exp2 is safe.
FAR = 64.0
_LOG2_E = math.log2(math.e)
# Stands for a score of minus infinity that no mask hides.
_LOWEST = -3e38
_INFINITY = float("inf")


class ScoreSummary(NamedTuple):
    """The log-sum-exp of every row, and the overview (None if it was not asked for)."""

    lse: Tensor  # (b,h,q)
    # (b,h,rows,cols), HIDDEN where the mask hides all pairs of a cell
    overview: np.ndarray | None


class KeyTile(NamedTuple):
    """Consecutive cells of a row of the overview, and the keys that they pool."""

    cells: slice
    # (width, cells), -1 in padding slots, which are in the last row
    keys: Tensor


def summarize_scores(
    source: Recomputed, side: int | None, progress: PageProgress | None = None
) -> ScoreSummary:
    """Return the log-sum-exp of every row, and an overview of at most ``side`` cells a side if ``side`` is given.

    The source must be one that a page stores, which is on the CPU, in float32, and without a callable score.
    """
    b, h, q, k = source.grid
    lse = torch.full((b, h, q), -_INFINITY)
    shape = (b, h, min(q, side or 1), min(k, side or 1))
    summary = ScoreSummary(lse, None if side is None else np.full(shape, HIDDEN, dtype=np.float32))
    tiles = _key_tiles(k, -(-k * LANES // KEYS) if side is None else shape[3])
    height = max(1, min(q, ROWS, TILE_SCORES // tiles[0].keys.numel()))
    coverage = _coverage(source.mask, source.grid, height, tiles)
    heads = max(1, TILE_SCORES // (height * tiles[0].keys.numel()))
    for sequence in range(b):
        for first in range(0, h, heads):
            part = slice(sequence, sequence + 1), slice(first, min(h, first + heads))
            scores = HeadScores(source, *part, tiles)
            for n in range(len(coverage)):
                rows = slice(n * height, min(q, (n + 1) * height))
                _summarize_rows(scores, rows, coverage[n], summary)
                if progress is not None:
                    progress.add((part[1].stop - first) * (rows.stop - rows.start) * k)
    return summary


def _key_tiles(k: int, cells: int) -> list[KeyTile]:
    """Arrange k keys in ``cells`` cells of equal width, and the cells in tiles of about KEYS keys.

    >>> _key_tiles(7, 3)[0].keys
    tensor([[ 0,  3,  5],
            [ 1,  4,  6],
            [ 2, -1, -1]])
    """
    starts = cell_starts(k, cells)
    ends = np.append(starts[1:], k)
    width = int((ends - starts).max())
    keys = starts + np.arange(width)[:, None]  # (width, cells)
    slots = torch.from_numpy(np.where(keys < ends, keys, -1))
    step = LANES * max(1, KEYS // (LANES * width))
    return [
        KeyTile(slice(n, min(cells, n + step)), slots[:, n : n + step].contiguous())
        for n in range(0, cells, step)
    ]


def _coverage(mask: Mask | None, grid: Grid, height: int, tiles: list[KeyTile]) -> np.ndarray:
    """Return for each tile whether the mask keeps NONE, SOME or ALL of its pairs, ``(row tiles, key tiles)``."""
    rows = Blocking(np.arange(grid.q), height)
    if mask is None:
        return np.full((len(rows), len(tiles)), ALL)
    keys = torch.cat([tile.keys.flatten() for tile in tiles]).numpy()
    return mask.classify(rows, Blocking(keys, tiles[0].keys.numel()), grid)


class HeadScores:
    """The scores of some heads of one sequence in tiles, times log2(e).

    ``exp2`` of such scores takes a third of the time of ``exp``.
    """

    def __init__(self, source: Recomputed, b: slice, h: slice, tiles: list[KeyTile]):
        self.source, self.b, self.h, self.tiles = source, b, h, tiles
        self.heads = h.stop - h.start
        self.mask = None if source.mask is None else source.mask.part(b, h)
        self._unmasked = Recomputed(source.ready, source.grid, None, source.bias, None, source.score)
        q, k, scale, v = source.ready
        self._query = q[b, h]  # (1,h,q,d)
        # Of each tile, transposed and scaled, (1,h,d,width * cells).
        self._keys: list[Tensor] | None = None
        if v is None and source.bias is None and k.shape[1] == source.grid.h:
            scaled = k[b, h].transpose(-2, -1) * (scale * _LOG2_E)
            self._keys = [scaled[..., tile.keys.flatten().clamp(min=0)] for tile in tiles]
        # The memory of the scores of a tile, which all tiles use in turn. New memory for each would have to be mapped.
        self._room = torch.empty(0)

    def tile(self, rows: slice, n: int, *, masked: bool) -> Tensor:
        """Return the scores of some queries and key tile ``n``, ``(1,h,rows,width,cells)``.

        Padding slots are minus infinity. With ``masked`` hidden pairs are, too. The next call overwrites the scores.
        """
        keys = self.tiles[n].keys
        flat = keys.flatten().clamp(min=0)
        if self._keys is not None:
            scores = self._product(self._query[:, :, rows], self._keys[n])
        else:
            tile = Tile(self.b, self.h, rows, flat)
            scores = self._unmasked.scores(tile)[0].mul_(_LOG2_E).clamp_(min=_LOWEST)
        if masked and self.mask is not None:
            i = torch.arange(rows.start, rows.stop)[:, None]
            keep = self.mask.allow(i, flat[None, :], self.source.grid._replace(b=1, h=self.heads))
            scores.masked_fill_(~keep.cpu(), -_INFINITY)
        scores = scores.unflatten(-1, keys.shape)
        scores[..., -1, :].masked_fill_(keys[-1] < 0, -_INFINITY)
        return scores

    def _product(self, query: Tensor, keys: Tensor) -> Tensor:
        """Multiply ``(1,h,rows,d)`` by ``(1,h,d,n)``, into the memory of the scores."""
        shape = (*query.shape[:3], keys.shape[3])
        if self._room.numel() < math.prod(shape):
            self._room = query.new_empty(math.prod(shape))
        return torch.matmul(query, keys, out=self._room[: math.prod(shape)].view(shape))


@torch.no_grad()
def _summarize_rows(scores: HeadScores, rows: slice, coverage: np.ndarray, summary: ScoreSummary) -> None:
    """Store the log-sum-exp of some rows, and their part of the overview, in the summary.

    Exponentials are taken relative to a reference score of each row. A reference that is far from the largest score
    of its row would overflow or underflow, so the rows are then computed again, relative to their largest scores.
    """
    reference = None
    while True:
        sums, pooled, reference = _reduce_rows(scores, rows, coverage, reference)
        top = pooled.amax(dim=-1)  # (1,h,rows)
        seen = top != -_INFINITY
        if not bool(((top - reference).abs() > FAR)[seen].any()):
            break
        reference = top.where(seen, 0.0)
    lse = (sums.double().log2() + reference).masked_fill_(~seen, -_INFINITY)
    summary.lse[scores.b, scores.h, rows] = (lse / _LOG2_E).float()
    if summary.overview is not None:
        weights = (pooled - lse.where(seen, 0.0)[..., None].float()).exp2_()  # (1,h,rows,cells)
        weights.masked_fill_(pooled == -_INFINITY, HIDDEN)
        overview = summary.overview[scores.b.start, scores.h]
        _put_into_overview(overview, weights[0].numpy(), rows, scores.source.grid.q)


def _reduce_rows(
    scores: HeadScores, rows: slice, coverage: np.ndarray, reference: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the sums of the exponentials of some rows, the largest score of each cell, and the reference scores.

    All of them are to base 2, and ``(1,h,rows)``, ``(1,h,rows,cells)`` and ``(1,h,rows)``. ``reference=None`` takes the
    largest score of each row in its first visible tile.
    """
    shape = (1, scores.heads, rows.stop - rows.start)
    sums = torch.zeros(shape)
    pooled = torch.full((*shape, scores.tiles[-1].cells.stop), -_INFINITY)
    for n in np.flatnonzero(coverage != NONE):
        tile = scores.tile(rows, int(n), masked=bool(coverage[n] != ALL))  # (1,h,rows,width,cells)
        largest = tile.amax(dim=-2)
        pooled[..., scores.tiles[n].cells] = largest
        if reference is None:
            reference = largest.amax(dim=-1)
            reference.masked_fill_(reference == -_INFINITY, 0.0)
        sums += tile.sub_(reference[..., None, None]).exp2_().flatten(-2).sum(dim=-1)
    return sums, pooled, torch.zeros(shape) if reference is None else reference


def _put_into_overview(overview: np.ndarray, weights: np.ndarray, rows: slice, q: int) -> None:
    """Max-pool the weights of some rows ``(h,rows,cols)`` into the overview ``(h,cells,cols)`` of all q rows."""
    cells, first = np.unique(np.arange(rows.start, rows.stop) * overview.shape[1] // q, return_index=True)
    pooled = np.maximum.reduceat(weights, first, axis=1)
    overview[:, cells] = np.maximum(overview[:, cells], pooled)
