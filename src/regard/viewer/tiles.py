"""Rectangles and overviews of a map for display, in which hidden pairs differ from weights of 0.

Pooling keeps the weight of the largest magnitude. Weights are negative in models that mix heads after the softmax.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from regard.maps.image_windows import ImageWindows
from regard.maps.sources import HeadMean, Recomputed, Selected, Source, Stored, Tile

__all__ = [
    "HIDDEN",
    "PENDING",
    "Overview",
    "cell_starts",
    "has_negative_weights",
    "one_head",
    "pool_columns",
    "pool_rows",
    "pooled_tile",
    "visible_weights",
]

HIDDEN = -(2.0**100)
"""The value of a pair that the mask hides. It is outside the range of weights, some of which are negative."""

PENDING = -(2.0**101)
"""The value of a cell of an overview that is not computed yet. The same two numbers stand in arrays.js."""

# Weights in memory while an overview is computed.
_AT_ONCE = 2**22


def one_head(source: Source, head: int) -> tuple[Source, int]:
    """Return the source and the index of a head in it, where the head -1 is the mean of all heads."""
    return (HeadMean(source), 0) if head < 0 else (source, head)


@torch.no_grad()
def visible_weights(source: Source, tile: Tile) -> Tensor:
    """Return the weights of a tile in float32, ``(b,h,q,k)``, with :data:`HIDDEN` where the mask hides a pair."""
    if isinstance(source, Selected):
        b, h = _inside(source.b, tile.b), _inside(source.h, tile.h)
        return visible_weights(source.source, tile._replace(b=b, h=h))
    weights = source.weights(tile).cpu().float()
    keep = _kept(source, tile)
    return weights if keep is None else weights.masked_fill(~keep.cpu(), HIDDEN)


def _inside(outer: slice, inner: slice) -> slice:
    start, stop, _ = inner.indices(outer.stop - outer.start)
    return slice(outer.start + start, outer.start + stop)


def _kept(source: Source, tile: Tile) -> Tensor | None:
    """Return the pairs that the mask keeps, ``(b or 1, h or 1, q, k)``, or None if there is no mask."""
    if isinstance(source, HeadMean):
        inner = _kept(source.source, tile._replace(h=slice(0, source.source.grid.h)))
        # A pair is hidden if all heads hide it.
        return None if inner is None else inner.any(dim=1, keepdim=True)
    if isinstance(source, Selected):
        return _kept(source.source, tile._replace(b=_inside(source.b, tile.b), h=_inside(source.h, tile.h)))
    i, j = _numbers(tile.q, source.grid.q), _numbers(tile.k, source.grid.k)
    if isinstance(source, ImageWindows):
        return (source.window[i][:, None] == source.window[j][None, :])[None, None]
    if not isinstance(source, Recomputed) or source.mask is None:
        return None
    sizes = [len(range(*part.indices(n))) for part, n in ((tile.b, source.grid.b), (tile.h, source.grid.h))]
    device = source.ready.q.device
    grid = source.grid._replace(b=sizes[0], h=sizes[1])
    return source.mask.part(tile.b, tile.h).allow(i[:, None].to(device), j[None, :].to(device), grid)


def _numbers(index: slice | Tensor, n: int) -> Tensor:
    return index.cpu() if isinstance(index, Tensor) else torch.arange(*index.indices(n))


def has_negative_weights(source: Source) -> bool:
    """Return whether a map has negative weights, which only maps that store their weights can have.

    >>> from regard.maps.sources import Stored
    >>> has_negative_weights(Stored(torch.tensor([[[[1.25, -0.25]]]])))
    True
    """
    if isinstance(source, Selected):
        part = source.source
        return (
            bool((part.values[source.b, source.h] < 0).any())
            if isinstance(part, Stored)
            else has_negative_weights(part)
        )
    if isinstance(source, HeadMean | ImageWindows):
        return has_negative_weights(source.source)
    return isinstance(source, Stored) and bool((source.values < 0).any())


def pool_columns(block: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the value of the largest magnitude in each range of columns that begins at ``starts``.

    A range ends before the next one. It is HIDDEN if all its values are.

    >>> pool_columns(np.array([[0.1, -0.4, 0.2, HIDDEN]]), np.array([0, 2]))
    array([[-0.4,  0.2]])
    """
    return _pool(block, starts, axis=1)


def pool_rows(block: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the value of the largest magnitude in each range of rows, as :func:`pool_columns` does for columns."""
    return _pool(block, starts, axis=0)


def _pool(block: np.ndarray, starts: np.ndarray, axis: int) -> np.ndarray:
    largest = np.maximum.reduceat(block, starts, axis=axis)
    negative = (block < 0) & (block > HIDDEN)
    if not negative.any():
        return largest
    lowest = np.minimum.reduceat(np.where(negative, block, 0), starts, axis=axis)
    return np.where(lowest < -np.abs(np.where(largest > HIDDEN, largest, 0)), lowest, largest)


def pooled_tile(source: Source, b: int, head: int, rows: slice, cols: slice, pool: int) -> np.ndarray:
    """Return a rectangle of one head, pooled to cells of ``pool x pool`` weights, or fewer at the far edges.

    ``b`` is the sequence. The head -1 is the mean of all heads.
    """
    source, head = one_head(source, head)
    tile = Tile(slice(b, b + 1), slice(head, head + 1), rows, cols)
    block = visible_weights(source, tile)[0, 0].numpy()  # (q,k)
    if pool == 1:
        return block
    by_rows = pool_rows(block, np.arange(0, block.shape[0], pool))
    return pool_columns(by_rows, np.arange(0, block.shape[1], pool))


def cell_starts(n: int, cells: int) -> np.ndarray:
    """Return the first key of each cell, where n keys are divided evenly into ``cells`` cells.

    >>> cell_starts(7, 3)
    array([0, 3, 5])
    """
    return -(-np.arange(cells) * n // cells)


class Overview:
    """A pooled picture of one whole head, which is filled row by row and can be read at any time.

    It has at most ``side`` rows and columns. ``values`` is PENDING where it is not computed yet, ``done`` is the share
    of computed rows, and ``error`` is the exception that ended the computation, or None.

    >>> from regard.maps import AttentionMap
    >>> overview = Overview(AttentionMap.from_weights(torch.eye(4))._source, 0, 0, side=2)
    >>> overview.advance()
    >>> overview.values, overview.done
    (array([[1., 0.],
           [0., 1.]], dtype=float32), 1.0)
    """

    def __init__(self, source: Source, b: int, head: int, side: int):
        self.source, self.head = one_head(source, head)
        self.b = b
        _, _, self.q, self.k = source.grid
        rows, cols = min(self.q, side), min(self.k, side)
        self.values = np.full((rows, cols), PENDING, dtype=np.float32)
        self.done = 0.0
        self.error: Exception | None = None
        self._steps = self.stream()

    def advance(self) -> None:
        """Compute the next rows, if any are left."""
        next(self._steps, None)

    def stream(self) -> Iterator[float]:
        """Compute the overview a few rows at a time, and yield the share that is done."""
        rows, cols = self.values.shape
        starts = cell_starts(self.k, cols)
        step = max(1, _AT_ONCE // self.k)
        for top in range(0, self.q, step):
            bottom = min(self.q, top + step)
            tile = Tile(
                slice(self.b, self.b + 1),
                slice(self.head, self.head + 1),
                slice(top, bottom),
                slice(0, self.k),
            )
            block = visible_weights(self.source, tile)[0, 0].numpy()  # (rows of the step, k)
            cells = np.arange(top, bottom) * rows // self.q
            places, first = np.unique(cells, return_index=True)
            pooled = pool_rows(pool_columns(block, starts), first)
            # A row of cells may begin in the block before.
            both = np.stack([self.values[places], pooled])
            self.values[places] = pool_rows(both.reshape(2, -1), np.array([0])).reshape(pooled.shape)
            self.done = bottom / self.q
            yield self.done
