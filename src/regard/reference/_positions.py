"""Sinusoidal position encodings."""

from __future__ import annotations

import numpy as np

from ._basics import Array


def sinusoidal_positions(length: int, width: int) -> Array:
    """Return sinusoidal position encodings (length,width), one row per position.

    Even columns hold sines and odd columns cosines, with frequencies that fall from column to column. An odd
    width has one more sine than cosines.

    >>> sinusoidal_positions(2, 3).round(4).tolist()
    [[0.0, 1.0, 0.0], [0.8415, 0.5403, 0.0022]]
    """
    for name, size in (("length", length), ("width", width)):
        if size < 0:
            raise ValueError(f"{name}: expected 0 or more, got {size}")
    position = np.arange(length)[:, None]  # (n,1)
    even = np.arange(0, width, 2)  # 0, 2, 4, ...
    angle = position / 10000 ** (even / max(width, 1))  # (n,ceil(m/2))
    table = np.zeros((length, width))
    table[:, 0::2] = np.sin(angle)
    table[:, 1::2] = np.cos(angle[:, : width // 2])
    return table
