"""Windows of a grid of patches, their shift, and the relative positions inside them.

The states of an image are ``(b,rows,columns,m)``. A window has ``side`` rows and columns. In every second block of a
Swin, the image is rolled up and to the left by ``shift`` patches before it is cut into windows, and rolled back
afterwards.
"""

from __future__ import annotations

import functools

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["from_windows", "relative_index", "to_windows", "window_mask"]


def to_windows(x: Tensor, side: int, shift: int = 0) -> Tensor:
    """Pad states with zeros to whole windows, roll them, and cut them into windows ``(b * windows,side²,m)``.

    ``x`` is ``(b,rows,columns,m)``. The windows of an image follow one another, row by row.

    >>> to_windows(torch.arange(8.0).reshape(1, 2, 4, 1), 2)[..., 0]
    tensor([[0., 1., 4., 5.],
            [2., 3., 6., 7.]])
    """
    rows, columns = x.shape[1:3]
    x = F.pad(x, (0, 0, 0, -columns % side, 0, -rows % side))  # (b,padded rows,padded columns,m)
    if shift:
        x = x.roll((-shift, -shift), dims=(1, 2))
    x = x.unflatten(2, (-1, side)).unflatten(1, (-1, side))  # (b,windows,side,windows,side,m)
    return x.transpose(2, 3).flatten(0, 2).flatten(1, 2)


def from_windows(x: Tensor, grid: tuple[int, int], side: int, shift: int = 0) -> Tensor:
    """Undo :func:`to_windows`, which gives the states ``(b,rows,columns,m)`` with ``grid = (rows, columns)``.

    >>> x = torch.rand(2, 5, 7, 3)
    >>> from_windows(to_windows(x, 3, 1), (5, 7), 3, 1).equal(x)
    True
    """
    rows, columns = grid
    down, across = -(-rows // side), -(-columns // side)
    x = x.reshape(-1, down, across, side, side, x.shape[-1]).transpose(2, 3)  # (b,down,side,across,side,m)
    x = x.flatten(3, 4).flatten(1, 2)  # (b,padded rows,padded columns,m)
    if shift:
        x = x.roll((shift, shift), dims=(1, 2))
    return x[:, :rows, :columns]


def window_mask(grid: tuple[int, int], side: int, shift: int, *, padding: bool) -> Tensor | None:
    """Return which pairs of patches of each window may attend, ``(windows,side²,side²)``, or None for all pairs.

    After the roll, some windows hold patches from opposite ends of the image, which must not attend to each other. With
    ``padding``, the padding is hidden as a key.

    >>> window_mask((4, 4), 2, 1, padding=True)[1].int()
    tensor([[1, 0, 1, 0],
            [0, 1, 0, 1],
            [1, 0, 1, 0],
            [0, 1, 0, 1]], dtype=torch.int32)
    """
    mask = _window_mask(grid, side, shift, padding)
    return None if mask is None else torch.from_numpy(mask)


@functools.lru_cache(maxsize=64)
def _window_mask(grid: tuple[int, int], side: int, shift: int, padding: bool) -> np.ndarray | None:
    rows, columns = (n + -n % side for n in grid)
    padded = padding and (rows, columns) != grid
    if not shift and not padded:
        return None
    # The part of the image to which each patch belongs after the roll. Only the last windows have two parts.
    down, across = (np.where(np.arange(n) < n - shift, 0, 1) for n in (rows, columns))
    mask = _same(down[:, None] * 2 + across[None, :], side)  # (windows,side²,side²)
    if padded:
        real = np.zeros((rows, columns), dtype=bool)
        real[: grid[0], : grid[1]] = True
        real = np.roll(real, (-shift, -shift), axis=(0, 1))
        mask = mask & _cut(real, side)[:, None, :]
    return mask


def _same(labels: np.ndarray, side: int) -> np.ndarray:
    """Return which pairs of patches of each window have the same label, ``(windows,side²,side²)``."""
    cut = _cut(labels, side)
    return cut[:, :, None] == cut[:, None, :]


def _cut(table: np.ndarray, side: int) -> np.ndarray:
    """Cut a table ``(rows,columns)`` into windows ``(windows,side²)``."""
    rows, columns = table.shape
    table = table.reshape(rows // side, side, columns // side, side).swapaxes(1, 2)
    return table.reshape(-1, side * side)


def relative_index(side: int) -> Tensor:
    """Return the row of the bias table for each query and key of a window, ``(side²,side²)``.

    The table has ``(2 side - 1)²`` rows, one for each distance in rows and columns from the key to the query. The first
    row is for a query that is above and to the left of its key, ``side - 1`` rows and columns away.

    >>> relative_index(2)
    tensor([[4, 3, 1, 0],
            [5, 4, 2, 1],
            [7, 6, 4, 3],
            [8, 7, 5, 4]])
    """
    return torch.from_numpy(_relative_index(side))


@functools.lru_cache(maxsize=64)
def _relative_index(side: int) -> np.ndarray:
    y, x = (places.reshape(-1) for places in np.indices((side, side)))
    down, across = y[:, None] - y[None, :], x[:, None] - x[None, :]  # (side²,side²) each
    return (down + side - 1) * (2 * side - 1) + across + side - 1
