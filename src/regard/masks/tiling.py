"""Evaluation of mask rules on whole blocks of indices, without evaluating each pair.

The answer for a block is NONE, SOME or ALL of its pairs. ``and`` is the minimum of two answers, ``or`` the
maximum and ``not`` is ``ALL - x``, so masks combine on blocks as they do on single pairs.
"""

from __future__ import annotations

import numpy as np

__all__ = ["ALL", "NONE", "SOME", "Blocking"]

NONE, SOME, ALL = np.int8(0), np.int8(1), np.int8(2)


class Blocking:
    """A sequence of indices split into blocks of equal size, the last padded with -1.

    ``index`` holds the blocks, and ``real`` is False on their padding. ``low`` and ``high`` hold the smallest and the
    largest index of each block. The methods that take ``cols`` treat the blocks of this object as rows.

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
        self.high = self.index.max(axis=1)
        self.low = np.where(self.real, self.index, self.high[:, None]).min(axis=1)

    def __len__(self) -> int:
        return len(self.index)

    def at_most(self, cols: Blocking, shift: int) -> np.ndarray:
        """Evaluate the rule ``col <= row + shift`` on every pair of blocks, ``(row blocks, col blocks)``."""
        all_pairs = cols.high[None, :] <= self.low[:, None] + shift
        some_pairs = cols.low[None, :] <= self.high[:, None] + shift
        return np.where(all_pairs, ALL, np.where(some_pairs, SOME, NONE))

    def at_least(self, cols: Blocking, shift: int) -> np.ndarray:
        """Evaluate the rule ``col >= row + shift`` on every pair of blocks, ``(row blocks, col blocks)``."""
        all_pairs = cols.low[None, :] >= self.high[:, None] + shift
        some_pairs = cols.high[None, :] >= self.low[:, None] + shift
        return np.where(all_pairs, ALL, np.where(some_pairs, SOME, NONE))

    def contains(self, indices: np.ndarray) -> np.ndarray:
        """Return for each block whether NONE, SOME or ALL of its members are in ``indices``, ``(blocks,)``."""
        inside = np.isin(self.index, indices) & self.real
        return np.where((inside | ~self.real).all(axis=1), ALL, np.where(inside.any(axis=1), SOME, NONE))

    def count_in(self, cols: Blocking, layout: np.ndarray, size: tuple[int, int]) -> np.ndarray:
        """Evaluate the rule ``layout[row // size[0], col // size[1]]`` on every pair of blocks.

        The result is ``(row blocks, col blocks)``. The layout holds booleans. The answer may be SOME instead of NONE or
        ALL for a block with gaps in its indices.
        """
        # A summed-area table gives the sum of any rectangle of the layout from four entries.
        total = np.zeros((layout.shape[0] + 1, layout.shape[1] + 1), dtype=np.int64)
        total[1:, 1:] = layout.cumsum(axis=0).cumsum(axis=1)
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
