"""The training and validation pictures of a classifier that reads pictures in glimpses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import ArgumentError
from regard.images import ImageBatches, ImageSet
from regard.images.reading import by_width
from regard.tasks.glimpse.canvas import Canvas
from regard.tasks.glimpse.settings import GlimpseSettings
from regard.tasks.images.data import fitting_shift
from regard.tasks.images.data import prepare as read_pictures
from regard.text import Skipped

__all__ = ["GlimpseData", "batches_of", "prepare"]

VALIDATION_SEED = 1  # of the places on the canvas, the same in all runs


@dataclass(frozen=True)
class GlimpseData:
    """The pictures to train on and to validate on, and the canvas they are put on."""

    train: ImageSet
    valid: ImageSet
    canvas: Canvas
    skipped: Skipped

    @property
    def size(self) -> tuple[int, int]:
        """The rows and columns that the model sees."""
        return self.canvas.size_of(self.train.size)


def prepare(settings: GlimpseSettings, folder: Path, *, learn: bool) -> GlimpseData:
    """Read the pictures that the settings name, or the embedded digits."""
    with_same_names: Any = settings  # the settings of pictures are those of the task `images`
    data = read_pictures(with_same_names, folder, learn=learn)
    names = ("mode", "canvas", "clutter", "clutter_size")
    shift = fitting_shift(settings.shift, data.train.size)
    canvas = Canvas(shift=shift, **{name: getattr(settings, name) for name in names})
    canvas.check(data.train.size)
    _check_glimpse_size(settings, canvas.size_of(data.train.size))
    return GlimpseData(data.train, data.valid, canvas, data.skipped)


def _check_glimpse_size(settings: GlimpseSettings, size: tuple[int, int]) -> None:
    """Raise ArgumentError if a glimpse is larger than the pictures, so that most of it would be empty."""
    side = settings.glimpse_size
    if settings.architecture == "glimpse" and side > max(size):
        problem = f"a glimpse of {side}×{side} pixels is larger than the pictures of {by_width(size)}"
        raise ArgumentError("glimpse_size", problem, f"give at most {max(size)}")


def batches_of(images: ImageSet, canvas: Canvas, *, size: int, seed: int, **options: Any) -> ImageBatches:
    """Return batches of pictures on their canvases, whose pixels are from 0 to 1.

    Pixels are not normalised, because the retina sees 0 outside of the picture. ``options`` are further ones of
    :class:`~regard.images.ImageBatches`.
    """
    scale = {"mean": [0.0] * images.channels, "deviation": [1.0] * images.channels}
    return ImageBatches(images, size=size, seed=seed, augmentation=canvas, **scale, **options)
