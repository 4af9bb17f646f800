"""Pictures of single objects, digits and garments, from which scenes are composed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from regard.errors import ArgumentError, FileError, UnknownNameError, option, renamed
from regard.images.digits import read_digits
from regard.images.image_set import ImageSet
from regard.images.scene_captions import DIGITS, GARMENTS, USUAL_WORDS
from regard.images.sources import read_image_set

__all__ = ["SPLITS", "ObjectPictures"]

SPLITS = ("train", "valid", "test")
# The share of the training pictures whose scenes are validated on.
VALID_SHARE = 0.1
_VALID_SEED = 5  # fixed, so that every run validates on the same pictures
# Pixels of at most this value are not a part of an object.
BACKGROUND = 16


class ObjectPictures:
    """Cropped pictures of objects by word, for one of the splits "train", "valid" and "test".

    No picture is in two splits. The pictures of "test" are those of the test files of MNIST and Fashion-MNIST, or a
    fixed fifth of scikit-learn's digits.
    """

    def __init__(self, pictures: dict[str, list[np.ndarray]], split: str):
        self.split = split
        self._pictures = pictures
        self.words = list(pictures)

    @classmethod
    def read(
        cls,
        digits: str | os.PathLike | None = None,
        garments: str | os.PathLike | None = None,
        *,
        split: str = "train",
        words: Sequence[str] = USUAL_WORDS,
    ) -> ObjectPictures:
        """Read the pictures of digits and garments from folders of idx files, as MNIST and Fashion-MNIST have them.

        Without both folders, the digits are those of 8×8 pixels that come with scikit-learn. Of ``words``, those are
        used whose pictures are there, in the order of their classes.

        >>> pictures = ObjectPictures.read(split="test", words=["seven", "two", "bag"])
        >>> pictures.words, pictures.shape("seven", 0, 14)[0]
        (['two', 'seven'], 14)
        """
        if split not in SPLITS:
            raise UnknownNameError("split", split, SPLITS)
        part = "test" if split == "test" else "train"
        sets: list[tuple[Sequence[str], str, ImageSet]] = []
        for name, folder, known in (("digits", digits, DIGITS), ("garments", garments, GARMENTS)):
            if folder is not None:
                with renamed(source=name, labels=name):
                    sets.append((known, name, read_image_set(folder, split=part)))
        if not sets:
            sets.append((DIGITS, "digits", read_digits(part)))
        found: dict[str, list[np.ndarray]] = {}
        for known, name, pictures in sets:
            if split != "test":
                kept = pictures.hold_out(VALID_SHARE, _VALID_SEED)
                pictures = kept[split == "valid"]
            found |= _by_word(pictures, known, name, words)
        if len(found) < 2:
            problem = f"only {', '.join(found) or 'none'} of them have pictures"
            fix = f"name more words, or more pictures with {option('digits')} and {option('garments')}"
            raise ArgumentError("words", problem, fix)
        return cls(found, split)

    def count(self, word: str) -> int:
        """Return the number of pictures of a word."""
        return len(self._pictures[word])

    def picture(self, word: str, number: int) -> np.ndarray:
        """Return a picture without its empty border, ``(h,w)`` bytes."""
        return self._pictures[word][number]

    def shape(self, word: str, number: int, side: int) -> tuple[int, int]:
        """Return the (height, width) of a picture whose longer side is scaled to ``side`` pixels."""
        height, width = self._pictures[word][number].shape
        longer = max(height, width)
        return max(1, round(height * side / longer)), max(1, round(width * side / longer))

    def resized(self, word: str, number: int, shape: tuple[int, int]) -> np.ndarray:
        """Return a picture in another size, the pair (height, width), as bytes."""
        picture = self._pictures[word][number]
        rows, columns = _weights(picture.shape[0], shape[0]), _weights(picture.shape[1], shape[1])
        return np.rint(rows @ picture @ columns.T).astype(np.uint8)


def _by_word(
    pictures: ImageSet, known: Sequence[str], argument: str, words: Sequence[str]
) -> dict[str, list[np.ndarray]]:
    """Return the cropped pictures of each word, whose class has the number of its place in ``known``."""
    if len(pictures.classes) > len(known) or pictures.channels != 1:
        problem = f"{len(pictures.classes)} classes of pictures with {pictures.channels} channels"
        raise FileError(f"expected grey pictures of {len(known)} classes, got {problem}", argument=argument)
    found: dict[str, list[np.ndarray]] = {}
    for number, word in enumerate(known):
        if word in words:
            chosen = [_cropped(image[..., 0]) for image in pictures.images[pictures.labels == number]]
            found |= {word: [image for image in chosen if image.size]}
    return {word: several for word, several in found.items() if several}


def _cropped(image: np.ndarray) -> np.ndarray:
    """Return a picture ``(h,w)`` without its border of background, empty if there is nothing else."""
    rows, columns = (np.flatnonzero((image > BACKGROUND).any(axis=axis)) for axis in (1, 0))
    if not len(rows):
        return image[:0, :0]
    return image[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].copy()


@lru_cache(maxsize=4096)
def _weights(old: int, new: int) -> np.ndarray:
    """Return the weights ``(new,old)`` of old pixels in new ones, by linear interpolation that averages when smaller.

    >>> _weights(2, 1)
    array([[0.5, 0.5]], dtype=float32)
    """
    scale = old / new
    centers = (np.arange(new) + 0.5) * scale - 0.5  # (new,)
    distances = np.abs(np.arange(old)[None] - centers[:, None]) / max(1.0, scale)  # (new,old)
    weights = np.clip(1 - distances, 0, None)
    weights /= weights.sum(axis=1, keepdims=True)
    return weights.astype(np.float32)
