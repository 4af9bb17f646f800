"""The weights of one word over the patches of a picture."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from regard.maps.patch_grids import PatchGrid

__all__ = ["LEAST_WORDS", "SINK_FACTOR", "SINK_WORDS", "PictureMap", "sink_patches"]

# A sink patch has at least this many times the even share of a patch, for at least this share of the words.
# image.js has the same rule.
SINK_FACTOR = 4.0
SINK_WORDS = 0.9
# With fewer words, a patch that all of them attend to may be what they are about.
LEAST_WORDS = 4


@dataclass(frozen=True, kw_only=True, eq=False)
class PictureMap:
    """The weights of one word over the patches of a picture, with the places of the patches.

    ``weights`` is (rows, columns). Sink patches that were taken out have a weight of 0, and ``sinks`` lists their
    (row, column). ``total`` is the sum over all patches, including sinks. ``query`` is the position of the word.

    >>> patches = PatchGrid(picture=0, grid=(1, 2), keys=(0, 1), size=(8, 16), box=(0, 0, 16, 8))
    >>> found = PictureMap(word="cat", query=3, weights=np.array([[0.1, 0.4]]), total=0.5, patches=patches)
    >>> found.strongest, found.strongest_box
    ((0, 1), (8.0, 0.0, 16.0, 8.0))
    """

    word: str
    query: int
    weights: np.ndarray  # (rows, columns)
    total: float
    patches: PatchGrid
    sinks: tuple[tuple[int, int], ...] = ()

    @property
    def strongest(self) -> tuple[int, int]:
        """The (row, column) of the patch with the largest weight."""
        row, column = divmod(int(self.weights.argmax()), self.patches.grid[1])
        return row, column

    @property
    def strongest_box(self) -> tuple[float, float, float, float]:
        """The (left, top, right, bottom) of the patch with the largest weight, in pixels of the picture."""
        return self.patches.patch_box(*self.strongest)


def sink_patches(weights: np.ndarray) -> np.ndarray:
    """Return which patches are sinks, from the weights of some words over all patches of a picture, (words, patches).

    A sink patch has at least 4 times the even share of the weight on the picture, for at least 9 of 10 words. Words
    without weight on the picture do not count. With fewer than 4 words, no patch is a sink.

    >>> weights = np.full((5, 8), 0.05)
    >>> weights[:, 2] = 0.5
    >>> sink_patches(weights).nonzero()[0]
    array([2])
    """
    mass = weights.sum(axis=1, keepdims=True)  # (words, 1)
    counted = mass[:, 0] > 0
    if counted.sum() < LEAST_WORDS:
        return np.zeros(weights.shape[1], dtype=bool)
    share = weights[counted] / mass[counted]  # (words, patches)
    high = (share >= SINK_FACTOR / weights.shape[1]).sum(axis=0)  # (patches,)
    return high >= math.ceil(SINK_WORDS * int(counted.sum()) - 1e-9)
