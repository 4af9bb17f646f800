"""The handwritten digits of 8×8 pixels that come with scikit-learn."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import MissingExtraError, UnknownNameError
from regard.images.image_set import ImageSet

__all__ = ["read_digits"]

# The share of the pictures that are for tests, which no training sees.
TEST_SHARE = 0.2
# Fixed, so that every run has the same test pictures.
_TEST_SEED = 8
SPLITS = ("train", "test", "all")


def read_digits(split: str = "train") -> ImageSet:
    """Return 1797 handwritten digits of 8×8 grey pixels, or the part of them for training or tests.

    A fifth of each class is for tests. Which pictures these are never changes. Needs scikit-learn.

    >>> len(read_digits("train")), len(read_digits("test"))
    (1438, 359)
    """
    if split not in SPLITS:
        raise UnknownNameError("split", split, SPLITS)
    pixels, labels = _digits()
    whole = ImageSet.of(np.rint(pixels * (255 / 16)).astype(np.uint8), labels)
    if split == "all":
        return whole
    return whole.hold_out(TEST_SHARE, _TEST_SEED)[SPLITS.index(split)]


def _digits() -> tuple[np.ndarray, np.ndarray]:
    """Return pictures (n,8,8) with values from 0 to 16, and the digits (n,)."""
    package = importlib.util.find_spec("sklearn")
    if package is None or package.origin is None:
        raise MissingExtraError("scikit-learn", "images", "the embedded pictures of digits")
    path = Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
    if path.is_file():
        # Reading the file takes milliseconds. Importing scikit-learn takes seconds.
        rows = np.loadtxt(path, delimiter=",")  # (n,65)
        return rows[:, :-1].reshape(-1, 8, 8), rows[:, -1].astype(np.int64)
    from sklearn.datasets import load_digits

    loaded: Any = load_digits()
    return loaded.images, loaded.target.astype(np.int64)
