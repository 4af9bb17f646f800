"""Pictures at random places of a larger canvas, alone or among parts of other pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.errors import ArgumentError, option
from regard.images import Augmentation
from regard.images.reading import in_pixels

__all__ = ["Canvas"]


@dataclass(frozen=True, kw_only=True)
class Canvas(Augmentation):
    """Puts each picture at a random place of a canvas, as in the experiments of Mnih et al. (2014).

    With ``mode="plain"`` pictures stay as they are. With "translated" each is on a canvas of ``canvas`` pixels in each
    direction. With "cluttered" there are also ``clutter`` square parts of ``clutter_size`` pixels on it, each from a
    random place of another picture of the same batch. Where things overlap, the pixel that differs most from the
    background is seen.

    >>> pictures = np.full((3, 2, 2, 1), 255, dtype=np.uint8)
    >>> canvas = Canvas(mode="translated", canvas=5)
    >>> placed = canvas(pictures, np.random.default_rng(0), background=[0], mean=[0.0])
    >>> placed.shape, (placed > 0).sum(axis=(1, 2, 3)).tolist()
    ((3, 5, 5, 1), [4, 4, 4])
    """

    mode: str = "plain"
    canvas: int = 60
    clutter: int = 4
    clutter_size: int = 8

    def __bool__(self) -> bool:
        return self.mode != "plain" or super().__bool__()

    def size_of(self, size: tuple[int, int]) -> tuple[int, int]:
        """Return the rows and columns of the canvas for pictures of ``size``."""
        return size if self.mode == "plain" else (self.canvas, self.canvas)

    def check(self, size: tuple[int, int]) -> None:
        """Raise ArgumentError if pictures of ``size`` do not fit on the canvas, or the clutter not in them."""
        if self.mode == "plain":
            return
        if max(size) > self.canvas:
            problem = f"pictures of {in_pixels(size)} do not fit on {self.canvas}×{self.canvas}"
            raise ArgumentError("canvas", problem, f"give a larger {option('canvas')}")
        if self.mode == "cluttered" and self.clutter_size > min(size):
            problem = f"pictures of {in_pixels(size)} have no part of {self.clutter_size}"
            raise ArgumentError("clutter_size", problem, f"give a smaller {option('clutter_size')}")

    def __call__(
        self,
        images: np.ndarray,
        rng: np.random.Generator,
        *,
        background: Sequence[int],
        mean: Sequence[float],
    ) -> np.ndarray:
        """Return pictures ``(b,h,w,c)`` of bytes on their canvases. The arguments are those of ``Augmentation``."""
        images = super().__call__(images, rng, background=background, mean=mean)
        if self.mode == "plain":
            return images
        number, height, width, channels = images.shape
        self.check((height, width))
        empty = np.array(background, dtype=np.uint8)
        canvases = np.empty((number, self.canvas, self.canvas, channels), dtype=np.uint8)
        canvases[:] = empty
        self._put(canvases, images, rng, empty)
        for _ in range(self.clutter if self.mode == "cluttered" else 0):
            self._put(canvases, self._parts(images, rng), rng, empty)
        return canvases

    def centred(self, image: np.ndarray, background: Sequence[int]) -> np.ndarray:
        """Return a picture ``(h,w,c)`` in the middle of a canvas."""
        height, width, channels = image.shape
        canvas = np.empty((self.canvas, self.canvas, channels), dtype=np.uint8)
        canvas[:] = np.array(background, dtype=np.uint8)
        top, left = (self.canvas - height) // 2, (self.canvas - width) // 2
        canvas[top : top + height, left : left + width] = image
        return canvas

    def _put(
        self, canvases: np.ndarray, things: np.ndarray, rng: np.random.Generator, empty: np.ndarray
    ) -> None:
        """Put one of ``things (b,h,w,c)`` at a random place of each canvas."""
        number, height, width, _ = things.shape
        rows = _starts(rng, number, self.canvas - height) + np.arange(height)  # (b,h)
        columns = _starts(rng, number, self.canvas - width) + np.arange(width)  # (b,w)
        at = (np.arange(number)[:, None, None], rows[:, :, None], columns[:, None, :])
        below = canvases[at]  # (b,h,w,c)
        distance = [np.abs(one.astype(np.int16) - empty) for one in (things, below)]
        canvases[at] = np.where(distance[0] > distance[1], things, below)

    def _parts(self, images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return a square part of another picture for each picture, ``(b,clutter_size,clutter_size,c)``."""
        number, height, width, _ = images.shape
        # In a batch of one picture there is no other.
        others = (np.arange(number) + rng.integers(1, max(number, 2), number)) % number  # (b,)
        rows = _starts(rng, number, height - self.clutter_size) + np.arange(self.clutter_size)
        columns = _starts(rng, number, width - self.clutter_size) + np.arange(self.clutter_size)
        return images[others[:, None, None], rows[:, :, None], columns[:, None, :]]


def _starts(rng: np.random.Generator, number: int, room: int) -> np.ndarray:
    """Return a random start ``(b,1)`` from 0 to ``room`` for each picture."""
    return rng.integers(0, room + 1, (number, 1))
