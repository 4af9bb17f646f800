"""Window attention of an image model (Swin), mapped to the coordinates of the whole image."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.errors import ShapeError
from regard.maps.sources import Source, Tile
from regard.shapes import Grid, axes

__all__ = ["ImageWindows"]


class ImageWindows:
    """A source of window attention ``(b * windows, h, side², side²)`` over the tokens of the whole image.

    Its sizes are ``(b, h, rows * columns, rows * columns)``, with ``image = (rows, columns)``. The model padded the
    image below and to the right to whole windows, rolled it by ``shift`` tokens up and to the left, and split it into
    square windows, row by row. Tokens of different windows have weight 0. The weights of padding are left out, so
    that rows of windows with padding may sum to less than 1. An image may be smaller than a window.
    """

    def __init__(self, source: Source, image: tuple[int, ...], side: int, shift: int):
        rows, columns = image
        if min(side, rows, columns) < 1:
            raise ShapeError("image", f"{rows} x {columns} tokens cannot be cut into windows of {side}")
        windows = -(-rows // side) * -(-columns // side)
        inner = source.grid
        if inner.b % windows or inner.q != side * side or inner.k != side * side:
            raise ShapeError("source", f"expected (b * {windows},h,{side**2},{side**2}), got {axes(inner)}")
        self.source, self.image, self.side, self.shift = source, (rows, columns), side, shift
        self.windows = windows
        self.grid = Grid(inner.b // windows, inner.h, rows * columns, rows * columns)
        self.window, self.place = _places(rows, columns, side, shift)  # (rows * columns,) each

    @property
    def is_padded(self) -> bool:
        """Whether some windows hold padding."""
        return self.windows * self.side**2 != self.grid.k

    def weights(self, tile: Tile) -> Tensor:
        """Return the weights of a part of the map, ``(b,h,q,k)`` with the sizes of the tile."""
        n = self.grid.q
        rows, cols = _tokens(tile.q, n), _tokens(tile.k, n)
        images = [
            torch.cat([self._one_head(b, head, rows, cols) for head in range(*tile.h.indices(self.grid.h))])
            for b in range(*tile.b.indices(self.grid.b))
        ]  # (h,q,k) each
        return torch.stack(images)

    def _one_head(self, b: int, head: int, rows: Tensor, cols: Tensor) -> Tensor:
        """Return the weights of one image and head, ``(1,q,k)``, from the windows that contain the rows."""
        out: Tensor | None = None
        for window in self.window[rows].unique().tolist():
            at_rows = (self.window[rows] == window).nonzero()[:, 0]
            at_cols = (self.window[cols] == window).nonzero()[:, 0]
            entry = b * self.windows + window
            inside = self.source.weights(
                Tile(
                    slice(entry, entry + 1),
                    slice(head, head + 1),
                    self.place[rows[at_rows]],
                    self.place[cols[at_cols]],
                )
            )  # (1,1,rows of the window,columns of the window)
            if out is None:
                out = inside.new_zeros(1, len(rows), len(cols))
            at_rows, at_cols = at_rows.to(out.device), at_cols.to(out.device)
            out[0, at_rows[:, None], at_cols[None, :]] = inside[0, 0]
        return torch.zeros(1, len(rows), len(cols)) if out is None else out


def _places(rows: int, columns: int, side: int, shift: int) -> tuple[Tensor, Tensor]:
    """Return the window of each token of the image and its index in the window, ``(rows * columns,)`` each."""
    down, across = -(-rows // side), -(-columns // side)
    # The coordinates of the tokens after the roll.
    y = (torch.arange(rows)[:, None] - shift) % (down * side)
    x = (torch.arange(columns)[None, :] - shift) % (across * side)
    window = (y // side) * across + x // side
    place = (y % side) * side + x % side
    return window.flatten(), place.flatten()


def _tokens(index: slice | Tensor, n: int) -> Tensor:
    return index.cpu() if isinstance(index, Tensor) else torch.arange(*index.indices(n))
