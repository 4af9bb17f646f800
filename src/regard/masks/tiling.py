"""Block arithmetic: what a rule about indices says of whole blocks of them, without looking at each pair.

Three-valued: NONE, SOME or ALL pairs of a block are kept. ``and`` is the minimum, ``or`` the maximum,
``not`` is ``ALL - x``; so masks compose on blocks exactly as they do on elements.
"""

from __future__ import annotations

import numpy as np

__all__ = ["ALL", "NONE", "SOME", "Blocking"]

NONE, SOME, ALL = np.int8(0), np.int8(1), np.int8(2)


class Blocking:
    """Indices in some order, cut into blocks of one size; the last is filled up with -1.

    >>> Blocking(np.arange(5), size=2).index
    array([[ 0,  1],
           [ 2,  3],
           [ 4, -1]])
    """

    def __init__(self, order: np.ndarray, size: int):
        count = -(-len(order) // size)
        self.index = np.full(count * size, -1, dtype=np.int64)
        self.index[: len(order)] = order
        self.index = self.index.reshape(count, size)  # (blocks, size)
        self.real = self.index >= 0
        self.high = self.index.max(axis=1)  # no block is all filling
        self.low = np.where(self.real, self.index, self.high[:, None]).min(axis=1)

    def __len__(self) -> int:
        return len(self.index)

    def at_most(self, cols: Blocking, shift: int) -> np.ndarray:
        """The rule ``col <= row + shift`` on every pair of blocks."""
        every = cols.high[None, :] <= self.low[:, None] + shift
        some = cols.low[None, :] <= self.high[:, None] + shift
        return np.where(every, ALL, np.where(some, SOME, NONE))

    def at_least(self, cols: Blocking, shift: int) -> np.ndarray:
        """The rule ``col >= row + shift`` on every pair of blocks."""
        every = cols.low[None, :] >= self.high[:, None] + shift
        some = cols.high[None, :] >= self.low[:, None] + shift
        return np.where(every, ALL, np.where(some, SOME, NONE))

    def contains(self, chosen: np.ndarray) -> np.ndarray:
        """Whether the indices of each block are among the chosen: ``(blocks,)``."""
        inside = np.isin(self.index, chosen) & self.real
        return np.where((inside | ~self.real).all(axis=1), ALL, np.where(inside.any(axis=1), SOME, NONE))

    def count_in(self, cols: Blocking, layout: np.ndarray, size: tuple[int, int]) -> np.ndarray:
        """The rule ``layout[row // size[0], col // size[1]]`` on every pair of blocks."""
        total = np.zeros((layout.shape[0] + 1, layout.shape[1] + 1), dtype=np.int64)
        total[1:, 1:] = layout.cumsum(axis=0).cumsum(axis=1)  # summed-area table: any rectangle in four reads
        top, bottom = self.low // size[0], self.high // size[0] + 1
        left, right = cols.low // size[1], cols.high // size[1] + 1
        kept = (
            total[np.ix_(bottom, right)]
            - total[np.ix_(top, right)]
            - total[np.ix_(bottom, left)]
            + total[np.ix_(top, left)]
        )
        area = (bottom - top)[:, None] * (right - left)[None, :]
        return np.where(kept == area, ALL, np.where(kept > 0, SOME, NONE))
