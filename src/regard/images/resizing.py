"""Changing the size of pictures."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from torch.nn import functional

from regard.errors import ArgumentError, DtypeError, ShapeError
from regard.images.reading import by_width, in_pixels

__all__ = ["StretchedPictures", "resize_images"]

# The largest change of proportions that is not reported.
SMALL_CHANGE = 1.1


class StretchedPictures:
    """Counts pictures whose sides are in another proportion than those of ``size``, to which they are resized.

    >>> stretched = StretchedPictures((8, 8))
    >>> stretched.count("a.png", (16, 16)), stretched.count("b.png", (16, 64)), stretched.number
    (False, True, 1)
    """

    def __init__(self, size: tuple[int, int]):
        self.size = size
        self.number, self.first = 0, ""

    def count(self, name: str, size: tuple[int, int]) -> bool:
        """Count a picture if it is stretched, and return whether it is."""
        (height, width), (rows, columns) = size, self.size
        change = (height * columns) / (width * rows)
        stretched = max(change, 1 / change) > SMALL_CHANGE
        if stretched:
            self.number += 1
            self.first = self.first or f"{name} has {in_pixels(size)}"
        return stretched

    def warn(self, stacklevel: int) -> None:
        """Warn of the pictures that are stretched, if there are some. ``stacklevel`` is that of the caller's call."""
        if self.number:
            others = f", and so are {self.number - 1:,} others" if self.number > 1 else ""
            told = f"{self.first}: it is stretched to {by_width(self.size)}{others}"
            warnings.warn(told, stacklevel=stacklevel + 1)


def resize_images(images: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Return pictures ``(h,w,c)`` or ``(n,h,w,c)`` of bytes in another size, the pair (height, width).

    Pixels are interpolated linearly, and averaged where the picture gets smaller. The sides are not kept in proportion.

    >>> resize_images(np.array([[0, 100], [100, 200]], dtype=np.uint8)[..., None], (1, 1)).item()
    100
    """
    if images.dtype != np.uint8:
        raise DtypeError("images", f"expected bytes (uint8), got {images.dtype}")
    if images.ndim not in (3, 4) or 0 in images.shape:
        raise ShapeError("images", f"expected (h,w,c) or (n,h,w,c), got {images.shape}")
    if len(size) != 2 or min(size) < 1:
        raise ArgumentError("size", f"expected a height and a width, 1 or more, got {size}")
    if images.shape[-3:-1] == tuple(size):
        return images
    batch = images if images.ndim == 4 else images[None]
    channels_last = torch.from_numpy(np.require(batch, requirements=["C", "W"]))  # (n,h,w,c)
    pixels = channels_last.permute(0, 3, 1, 2).float()  # (n,c,h,w)
    scaled = functional.interpolate(pixels, size=tuple(size), mode="bilinear", antialias=True)
    found = scaled.round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous().numpy()  # (n,h,w,c)
    return found if images.ndim == 4 else found[0]
