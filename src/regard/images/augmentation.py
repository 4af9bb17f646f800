"""Random changes of training pictures that do not change their class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.errors import ArgumentError

__all__ = ["Augmentation"]

# The sides of an erased rectangle, as shares of the sides of the picture.
_ERASED = (0.15, 0.5)


@dataclass(frozen=True, kw_only=True)
class Augmentation:
    """Shifts, reflections and erased rectangles.

    ``shift`` is the largest number of pixels that a picture is moved in each direction. ``flip`` reflects half of the
    pictures left to right, which suits garments and animals, but not digits and letters. ``erase`` is the share of
    pictures in which a rectangle is filled with the mean colour.

    >>> nothing = Augmentation()
    >>> bool(nothing), bool(Augmentation(shift=2))
    (False, True)
    """

    shift: int = 0
    flip: bool = False
    erase: float = 0.0

    def __post_init__(self):
        if self.shift < 0:
            raise ArgumentError("shift", f"expected 0 or more pixels, got {self.shift}")
        if not 0 <= self.erase <= 1:
            raise ArgumentError("erase", f"expected a share from 0 to 1, got {self.erase}")

    def __bool__(self) -> bool:
        return bool(self.shift or self.flip or self.erase)

    def __call__(
        self,
        images: np.ndarray,
        rng: np.random.Generator,
        *,
        background: Sequence[int],
        mean: Sequence[float],
    ) -> np.ndarray:
        """Return changed copies of pictures ``(b,h,w,c)`` of bytes.

        ``background`` has a byte for each channel, which fills the space beside a shifted picture. ``mean`` has the
        mean of each channel from 0 to 1, which fills erased rectangles.
        """
        if self.shift or self.flip:
            images = self._moved(images, rng, background)
        if self.erase:
            images = self._erased(images, rng, np.rint(np.array(mean) * 255).astype(np.uint8))
        return images

    def _moved(self, images: np.ndarray, rng: np.random.Generator, background: Sequence[int]) -> np.ndarray:
        number, height, width, channels = images.shape
        room = self.shift
        padded = np.empty((number, height + 2 * room, width + 2 * room, channels), dtype=np.uint8)
        padded[:] = np.array(background, dtype=np.uint8)
        padded[:, room : room + height, room : room + width] = images
        down, right = rng.integers(0, 2 * room + 1, size=(2, number))  # (b,), (b,)
        rows = down[:, None] + np.arange(height)  # (b,h)
        columns = right[:, None] + np.arange(width)  # (b,w)
        if self.flip:
            reflected = rng.random(number) < 0.5  # (b,)
            columns = np.where(reflected[:, None], columns[:, ::-1], columns)  # (b,w)
        return padded[np.arange(number)[:, None, None], rows[:, :, None], columns[:, None, :]]  # (b,h,w,c)

    def _erased(self, images: np.ndarray, rng: np.random.Generator, color: np.ndarray) -> np.ndarray:
        number, height, width, _ = images.shape
        inside = np.ones((number, height, width), dtype=bool)  # (b,h,w)
        for axis, length in ((1, height), (2, width)):
            side = np.maximum(np.rint(rng.uniform(*_ERASED, number) * length), 1)  # (b,)
            start = np.floor(rng.random(number) * (length - side + 1))  # (b,)
            places = np.arange(length)
            band = (places >= start[:, None]) & (places < (start + side)[:, None])  # (b,length)
            inside &= np.expand_dims(band, 3 - axis)
        inside &= (rng.random(number) < self.erase)[:, None, None]
        return np.where(inside[..., None], color, images)  # (b,h,w,c)
