"""Parts of a map as a viewer shows them: any rectangle, pooled or not, with the hidden pairs told apart from zeros."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from regard.maps.image_windows import ImageWindows
from regard.maps.sources import HeadMean, Recomputed, Selected, Source, Tile

__all__ = ["HIDDEN", "PENDING", "Overview", "cell_starts", "one_head", "pooled_tile", "visible_weights"]

HIDDEN = -1.0
"""What stands where a mask hides a key from a query; a weight of 0 is another thing."""

PENDING = -2.0
"""What stands in an overview where nothing is computed yet."""

_AT_ONCE = 2**22  # weights held while an overview is streamed


def one_head(source: Source, head: int) -> tuple[Source, int]:
    """The source and the number of a head in it; -1 asks for the mean of all heads."""
    return (HeadMean(source), 0) if head < 0 else (source, head)


@torch.no_grad()
def visible_weights(source: Source, tile: Tile) -> Tensor:
    """The weights of a tile, ``(b,h,q,k)`` of it in float32, and :data:`HIDDEN` where a mask hides."""
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
    """Which pairs a mask keeps, ``(b or 1, h or 1, q, k)``; None where nothing is known to be hidden."""
    if isinstance(source, HeadMean):
        inner = _kept(source.source, tile._replace(h=slice(0, source.source.grid.h)))
        return None if inner is None else inner.any(dim=1, keepdim=True)  # hidden where all heads hide it
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


def pooled_tile(source: Source, b: int, head: int, rows: slice, cols: slice, pool: int) -> np.ndarray:
    """A rectangle of one head; each cell is the largest of ``pool x pool`` weights, fewer at the far edges."""
    source, head = one_head(source, head)
    tile = Tile(slice(b, b + 1), slice(head, head + 1), rows, cols)
    block = visible_weights(source, tile)[0, 0].numpy()  # (q,k)
    if pool == 1:
        return block
    by_rows = np.maximum.reduceat(block, np.arange(0, block.shape[0], pool), axis=0)
    return np.maximum.reduceat(by_rows, np.arange(0, block.shape[1], pool), axis=1)


def cell_starts(n: int, cells: int) -> np.ndarray:
    """The first of the n keys that each of the cells stands for.

    >>> cell_starts(7, 3)
    array([0, 3, 5])
    """
    return -(-np.arange(cells) * n // cells)


class Overview:
    """One head seen from afar, filled row by row: it can be looked at while it grows.

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
        """Compute some more rows, if any are left."""
        next(self._steps, None)

    def stream(self) -> Iterator[float]:
        """One pass over the weights, a few rows at a time; says how far it is."""
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
            found, first = np.unique(cells, return_index=True)
            pooled = np.maximum.reduceat(np.maximum.reduceat(block, starts, axis=1), first, axis=0)
            self.values[found] = np.maximum(self.values[found], pooled)
            self.done = bottom / self.q
            yield self.done
