"""The training and validation pictures of a classifier."""

from __future__ import annotations

import json
import os
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from regard.errors import ArgumentError, FileError, renamed
from regard.files import make_folder, read_json, write_atomically
from regard.images import ImageSet, read_digits, read_image_set
from regard.images.reading import by_width
from regard.images.sources import holds_picture_files
from regard.tasks.image_settings import class_names, shape_of
from regard.tasks.images.settings import SHIFT, ImageSettings
from regard.tasks.pairs import check_labels, parsed_columns
from regard.text import Skipped

__all__ = ["SETTINGS_OF_READER", "ImageData", "fitting_shift", "prepare"]

FORMAT = "regard.images/1"
# The names of the arguments of the reader that are settings of other names.
SETTINGS_OF_READER = {
    "source": "data",
    "labels": "labels_file",
    "size": "image_height",
    "mixed": "mixed_sizes",
    "classes": "class_names",
}


@dataclass(frozen=True)
class ImageData:
    """The pictures to train and to validate on, and the numbers that normalise them."""

    train: ImageSet
    valid: ImageSet
    mean: list[float]
    deviation: list[float]
    skipped: Skipped


def prepare(settings: ImageSettings, folder: Path, *, learn: bool) -> ImageData:
    """Read the pictures, and hold some of them out unless the settings name validation data.

    Files of pictures are decoded once. The pixels are kept in ``cache`` of ``folder``. A resumed run (``learn=False``)
    and the other processes of a run use them.
    """
    make_folder(folder)
    skipped = Skipped()
    if settings.data is None:
        whole = _digits(settings)
    else:
        reading = _Source(settings, settings.data, class_names(settings.class_names), shape_of(settings))
        with renamed(**SETTINGS_OF_READER):
            whole = reading.read(folder / "cache", skipped, learn=learn)
    if len(np.unique(whole.labels)) < 2:
        names = ", ".join(repr(name) for name, count in whole.counts().items() if count)
        problem = f"there is one class only, {names}: expected two or more"
        raise FileError(problem, argument="data")
    present = np.unique(whole.labels)
    fix = "a class needs several pictures to learn from: are these the names of classes?"
    check_labels(len(present), len(whole), whole.classes[present[0]], fix)
    fitting_shift(settings.shift, whole.size)
    if learn:
        _warn_of_empty_classes(whole, settings.data)
    train, valid = _divided(settings, whole, folder, learn=learn)
    mean, deviation = train.mean_and_deviation()
    return ImageData(train, valid, mean, deviation, skipped)


def fitting_shift(shift: int, size: tuple[int, int]) -> int:
    """Return a shift that leaves a part of each picture of this size in its place.

    The default shift is lowered to it. Raises ArgumentError if a larger one can move a picture out of itself.

    >>> fitting_shift(2, (28, 28)), fitting_shift(2, (2, 28))
    (2, 1)
    """
    if shift <= SHIFT:
        return min(shift, min(size) - 1)
    if shift >= min(size):
        problem = f"{shift} pixels can move a picture of {by_width(size)} out of itself"
        raise ArgumentError("shift", problem, f"give at most {min(size) - 1}")
    return shift


def _warn_of_empty_classes(images: ImageSet, source: str | None) -> None:
    """Warn of classes that no picture belongs to, which the model gets outputs for."""
    empty = [name for name, count in images.counts().items() if not count]
    if empty:
        shown = ", ".join(empty[:10]) + (f" and {len(empty) - 10:,} more" if len(empty) > 10 else "")
        warnings.warn(
            f"{source}: {len(empty)} of {len(images.classes)} classes have no picture: {shown}. If they are no "
            "classes, number the labels from 0 without gaps",
            stacklevel=2,
        )


def _divided(
    settings: ImageSettings, whole: ImageSet, folder: Path, *, learn: bool
) -> tuple[ImageSet, ImageSet]:
    """Return the pictures to train on and those to validate on."""
    if settings.valid is None:
        try:
            return whole.hold_out(settings.hold_out, settings.seed, most=settings.hold_out_most)
        except ArgumentError as error:
            raise FileError(error.in_words(), argument="data") from None
    skipped = Skipped()
    known = replace(settings, channels=whole.channels, labels_file=settings.valid_labels_file)
    reading = _Source(known, settings.valid, list(whole.classes), whole.size)
    with renamed(**{**SETTINGS_OF_READER, "source": "valid", "labels": "valid_labels_file"}):
        valid = reading.read(folder / "cache" / "valid", skipped, learn=learn)
    if skipped.bad:
        shown = Skipped(bad=skipped.bad, first=skipped.first)
        warnings.warn(f"valid: left out: {shown}", stacklevel=2)
    return whole, valid


def _digits(settings: ImageSettings) -> ImageSet:
    digits = read_digits("train")
    options = {"size": shape_of(settings), "channels": settings.channels}
    return read_image_set(digits.images, digits.labels, classes=digits.classes, **options)


@dataclass(frozen=True)
class _Source:
    """A source of pictures with the settings of a run."""

    settings: ImageSettings
    source: str
    classes: list[str] | None
    size: tuple[int, int] | None

    def read(self, folder: Path, skipped: Skipped, *, learn: bool) -> ImageSet:
        """Read the pictures, or open those that this run has decoded into ``folder`` unless ``learn``."""
        decodes = os.path.exists(self.source) and holds_picture_files(self.source)
        known = _open(folder, skipped) if decodes and not learn else None
        if known is not None:
            return known
        s = self.settings
        found = read_image_set(
            self.source,
            s.labels_file,
            classes=self.classes,
            size=self.size,
            channels=s.channels,
            mixed=s.mixed_sizes,
            columns=parsed_columns(s.columns),
            skip_bad_rows=s.skip_bad_rows,
            skipped=skipped,
        )
        if decodes:
            _write(folder, found, skipped)
        return found


def _open(folder: Path, skipped: Skipped) -> ImageSet | None:
    """Open decoded pictures, or return None if they are missing or damaged."""
    try:
        manifest = read_json(folder / "manifest.json")
        images, labels = (np.load(folder / name, mmap_mode="r") for name in ("images.npy", "labels.npy"))
        found = ImageSet(images, np.array(labels), tuple(manifest["classes"]))
        if manifest.get("format") != FORMAT or found.fingerprint != manifest["fingerprint"]:
            return None
        counts = Skipped(**manifest["skipped"])
    except (FileError, OSError, ValueError, KeyError, TypeError):
        return None
    for name, value in counts.to_json().items():
        setattr(skipped, name, value)
    return found


def _write(folder: Path, found: ImageSet, skipped: Skipped) -> None:
    """Write decoded pictures, the manifest last, so that a folder with a manifest is complete."""
    make_folder(folder)
    (folder / "manifest.json").unlink(missing_ok=True)
    for name, array in (("images.npy", found.images), ("labels.npy", found.labels)):
        write_atomically(folder / name, lambda part, array=array: _save(part, array))
    contents = {"classes": found.classes, "fingerprint": found.fingerprint, "skipped": skipped.to_json()}
    text = json.dumps({"format": FORMAT, **contents}, ensure_ascii=False) + "\n"
    write_atomically(folder / "manifest.json", lambda part: part.write_text(text, encoding="utf-8"))


def _save(path: Path, array: np.ndarray) -> None:
    with open(path, "wb") as file:
        np.save(file, array, allow_pickle=False)
