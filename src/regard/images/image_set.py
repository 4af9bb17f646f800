"""Labelled pictures of one size in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from regard.errors import ArgumentError, DtypeError, ShapeError
from regard.images.reading import as_bytes, on_background

__all__ = ["ImageSet", "background_of"]

# Numbers of classes above this are taken for labels of another kind.
_MOST_CLASSES = 10_000


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Pictures ``(n,h,w,c)`` of bytes, the number of the class of each, and the names of the classes.

    :meth:`of` makes one from other arrays, and checks them.

    >>> images = ImageSet.of(np.zeros((3, 8, 8)), [0, 1, 1], classes=["cat", "dog"])
    >>> len(images), images.size, images.channels, images.counts()
    (3, (8, 8), 1, {'cat': 1, 'dog': 2})
    """

    images: np.ndarray  # (n,h,w,c)
    labels: np.ndarray  # (n,)
    classes: tuple[str, ...]

    @classmethod
    def of(cls, images: np.ndarray, labels: Sequence[int] | np.ndarray, classes: Sequence[str] | None = None):
        """Make a set from an array of pictures ``(n,h,w)`` or ``(n,h,w,c)`` and the numbers of their classes.

        There are 1 to 4 channels, grey or colours with or without opacity, which is put on white. Floats are from 0 to
        1 or to 255. ``classes`` are the names of the classes, by default their numbers.
        """
        pixels = np.asarray(images)
        if pixels.ndim == 3:
            pixels = pixels[..., None]  # (n,h,w,1)
        if pixels.ndim != 4 or pixels.shape[3] not in (1, 2, 3, 4) or 0 in pixels.shape:
            told = f"expected (n,h,w), or (n,h,w,c) with 1 to 4 channels, got {np.shape(images)}"
            fix = (
                "put the channels last with transpose(0, 2, 3, 1)"
                if pixels.shape[1:2] in ((1,), (3,))
                else ""
            )
            raise ShapeError("images", told, fix)
        pixels = as_bytes(pixels, "images")
        if pixels.shape[3] in (2, 4):
            pixels = on_background(pixels)
        numbers = _checked_labels(np.asarray(labels), len(pixels), classes)
        names = tuple(classes) if classes is not None else tuple(map(str, range(int(numbers.max()) + 1)))
        if len(set(names)) != len(names):
            raise ArgumentError("classes", f"expected different names, got {', '.join(names[:10])}")
        return cls(np.ascontiguousarray(pixels), numbers, names)

    def __len__(self) -> int:
        return len(self.images)

    @property
    def size(self) -> tuple[int, int]:
        """The height and the width of each picture."""
        return self.images.shape[1], self.images.shape[2]

    @property
    def channels(self) -> int:
        """The number of channels, 1 (grey) or 3."""
        return self.images.shape[3]

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the pictures, the labels and the names of the classes."""
        digest = hashlib.sha256(repr((self.images.shape, self.classes)).encode())
        digest.update(np.ascontiguousarray(self.images).data)
        digest.update(np.ascontiguousarray(self.labels).data)
        return digest.hexdigest()

    def counts(self) -> dict[str, int]:
        """Return the number of pictures of each class."""
        return dict(
            zip(self.classes, np.bincount(self.labels, minlength=len(self.classes)).tolist(), strict=True)
        )

    def select(self, indices: Sequence[int] | np.ndarray) -> ImageSet:
        """Return the pictures at these indices as a set of their own."""
        places = np.asarray(indices, dtype=np.int64)
        return ImageSet(self.images[places], self.labels[places], self.classes)

    def mean_and_deviation(self) -> tuple[list[float], list[float]]:
        """Return the mean and the standard deviation of each channel, for pixels from 0 to 1.

        A channel without contrast has the deviation 1.
        """
        means, deviations = [], []
        for channel in range(self.channels):
            counts = np.bincount(self.images[..., channel].reshape(-1), minlength=256)  # (256,)
            values, share = np.arange(256) / 255, counts / counts.sum()
            mean = float((values * share).sum())
            deviation = float(np.sqrt(((values - mean) ** 2 * share).sum()))
            means.append(mean)
            deviations.append(deviation if deviation > 1e-4 else 1.0)
        return means, deviations

    def background(self) -> list[int]:
        """Return the median of each channel at the edges of the pictures, which fills the space beside shifted ones."""
        return background_of(self.images)

    def hold_out(self, share: float, seed: int = 0, *, most: int | None = None) -> tuple[ImageSet, ImageSet]:
        """Return the set without a share of the pictures of each class, and the pictures of that share.

        Pictures are chosen by a hash of their pixels and the seed, so equal pictures are on one side, and the order of
        the pictures has no effect. ``most`` is about the largest number of all pictures that are held out. At least one
        picture of each class is held out, unless the class has a single picture. That is kept.

        >>> images = ImageSet.of(np.arange(20 * 4, dtype=np.uint8).reshape(20, 2, 2), [0, 1] * 10)
        >>> [len(part) for part in images.hold_out(0.2)]
        [16, 4]
        """
        if not 0 < share < 1:
            raise ArgumentError("share", f"expected a number between 0 and 1, got {share}")
        if most is not None:
            share = min(share, most / len(self))
        keys = self._keys(seed)
        held = np.zeros(len(self), dtype=bool)  # (n,)
        for label in np.unique(self.labels):
            places = np.flatnonzero(self.labels == label)
            distinct = np.unique(keys[places])  # in the order of the hashes
            number = min(max(1, round(len(distinct) * share)), len(distinct) - 1)
            held[places] = np.isin(keys[places], distinct[:number])
        if not held.any():
            problem = "each class has one picture only, which is needed to train on"
            raise ArgumentError("share", problem, "give more pictures, or validation data of its own")
        return self.select(np.flatnonzero(~held)), self.select(np.flatnonzero(held))

    def _keys(self, seed: int) -> np.ndarray:
        """Return a hash of each picture and the seed, (n,)."""
        salt = str(seed).encode()[:16]
        rows = self.images.reshape(len(self), -1)  # (n,pixels)
        hashes = (hashlib.blake2b(row.tobytes(), digest_size=8, salt=salt).digest() for row in rows)
        return np.frombuffer(b"".join(hashes), dtype=np.uint64)


def background_of(images: np.ndarray) -> list[int]:
    """Return the median of each channel at the edges of pictures ``(n,h,w,c)`` of bytes."""
    channels = images.shape[3]
    edges = [images[:, 0], images[:, -1], images[:, :, 0], images[:, :, -1]]
    border = np.concatenate([edge.reshape(-1, channels) for edge in edges])  # (pixels,c)
    counts = [np.bincount(border[:, channel], minlength=256) for channel in range(channels)]
    return [int(np.searchsorted(np.cumsum(count), count.sum() / 2)) for count in counts]


def _checked_labels(labels: np.ndarray, pictures: int, classes: Sequence[str] | None) -> np.ndarray:
    """Return labels as int64, or raise an error if they are not the numbers of classes."""
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]  # (n,), as in the files of CIFAR
    if labels.shape != (pictures,):
        told = f"expected one label for each of {pictures} pictures, (n,) = ({pictures},), got {labels.shape}"
        raise ShapeError("labels", told)
    if not np.issubdtype(labels.dtype, np.integer):
        raise DtypeError("labels", f"expected the numbers of classes as integers, got {labels.dtype}")
    limit = len(classes) if classes is not None else _MOST_CLASSES
    wrong = np.flatnonzero((labels < 0) | (labels >= limit))
    if len(wrong):
        place = int(wrong[0])
        told = f"expected classes from 0 to {limit - 1}, got {labels[place]} for picture {place}"
        raise ArgumentError("labels", told, f"{len(wrong)} labels are out of range")
    return labels.astype(np.int64)
