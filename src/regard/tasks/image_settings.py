"""Groups of settings of tasks that read labelled pictures, without torch."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from regard.errors import ArgumentError, UnknownNameError, option
from regard.settings import Settings, setting
from regard.tasks.settings import TaskSettings, changed

__all__ = ["ImageDataSettings", "ImageMeasurementSettings", "class_names", "shape_of"]

MIXED = ("resize", "refuse")
SPLITS = ("train", "test")
# Settings of the data, which the embedded digits do not use.
_OF_DATA = ("labels_file", "valid", "valid_labels_file", "class_names", "columns", "mixed_sizes")
# What the settings that name data accept.
SOURCES = "a folder by class, idx files or their folder, .npz, .npy, or a CSV or TSV of paths and labels"


@dataclass(frozen=True, kw_only=True)
class ImageDataSettings(TaskSettings):
    """Labelled pictures to train and validate on."""

    title: ClassVar[str] = "Data"
    locations: ClassVar[tuple[str, ...]] = ("data", "labels_file", "valid", "valid_labels_file")
    of_held_out: ClassVar[tuple[str, ...]] = ("hold_out", "hold_out_most")

    data: str | None = setting(None, f"Training data: {SOURCES}. By default 8×8 digits.")
    labels_file: str | None = setting(
        None, "File of the labels, of an idx or .npy file of pictures; found by its name where it can be."
    )
    valid: str | None = setting(
        None, "Validation data, in the form of the training data. Without it, some of the data is held out."
    )
    valid_labels_file: str | None = setting(None, "File of the labels of the validation data, likewise.")
    hold_out: float = setting(0.1, "Share of the pictures of each class that is held out to validate on.")
    hold_out_most: int = setting(5000, "Largest number of pictures that are held out to validate on.")
    columns: str | None = setting(
        None, "Columns (numbers) or fields (names) of a table; known names are found."
    )
    class_names: str | None = setting(
        None, "Names of the classes in the order of their numbers, such as shirt,shoe."
    )
    image_height: int | None = setting(None, "Height that all pictures are resized to; by default their own.")
    image_width: int | None = setting(None, "Width that all pictures are resized to; by default their own.")
    channels: int | None = setting(None, "1 for grey pictures, 3 for colours; by default as they are.")
    mixed_sizes: str = setting("resize", "Pictures of several sizes: resize or refuse.")
    skip_bad_rows: bool = setting(False, "Leave out and count pictures that cannot be read.")

    def __post_init__(self):
        super().__post_init__()
        _check_source(self)
        if self.mixed_sizes not in MIXED:
            raise UnknownNameError("mixed_sizes", self.mixed_sizes, MIXED)
        if not 0 < self.hold_out < 1:
            raise ArgumentError("hold_out", f"expected a share between 0 and 1, got {self.hold_out}")
        if self.hold_out_most < 1:
            raise ArgumentError("hold_out_most", f"expected 1 or more, got {self.hold_out_most}")
        if self.channels not in (None, 1, 3):
            raise ArgumentError("channels", f"expected 1 or 3, got {self.channels}")
        if (self.image_height is None) != (self.image_width is None):
            missing = "image_height" if self.image_height is None else "image_width"
            raise ArgumentError(missing, "height and width are given together", "give both, or none")
        if shape_of(self) is not None and "mixed_sizes" in changed(self):
            problem = f"of no use with {option('image_height')}, to which all pictures are resized"
            raise ArgumentError("mixed_sizes", problem, "leave one of them out")
        class_names(self.class_names)
        if self.data and self.data == self.valid:
            problem = f"the same as {option('data', self.data)}"
            raise ArgumentError("valid", problem, "name pictures that are not trained on, or leave it out")
        for name in _OF_DATA:
            if self.data is None and name in changed(self):
                raise ArgumentError(name, f"of no use without {option('data')}", "leave it out")
        if self.valid is None and self.valid_labels_file is not None:
            raise ArgumentError("valid_labels_file", f"of no use without {option('valid')}", "leave it out")

    def pictures_of(self, location: str) -> list[Path]:
        """Return the pictures that the table of a location names."""
        from regard.images.picture_files import files_of_table
        from regard.images.sources import is_table
        from regard.tasks.pairs import parsed_columns

        source = getattr(self, location)
        if location.endswith("labels_file") or not is_table(source):
            return []
        return files_of_table(source, class_names(self.class_names), parsed_columns(self.columns))


@dataclass(frozen=True, kw_only=True)
class ImageMeasurementSettings(Settings):
    """The pictures that a model is measured on."""

    title: ClassVar[str] = "Data"

    data: str | None = setting(None, f"Data to measure on: {SOURCES}. By default 8×8 digits for tests.")
    labels_file: str | None = setting(
        None, "File of the labels, of an idx or .npy file of pictures; found by its name where it can be."
    )
    split: str | None = setting(None, "Part of data that has several, train or test; by default test.")
    columns: str | None = setting(None, "Columns (numbers) or fields (names) of a table.")
    skip_bad_rows: bool = setting(False, "Leave out and count pictures that cannot be read.")
    limit: int = setting(0, "Size of a random sample to measure on, 0 for all.")
    seed: int | None = setting(None, "Seed of the sample; by default 0.")
    out: str | None = setting(None, "Write the predictions to a file, one for each picture.")

    def __post_init__(self):
        super().__post_init__()
        _check_source(self)
        if self.split is not None and self.split not in SPLITS:
            raise UnknownNameError("split", self.split, SPLITS)
        if self.limit < 0:
            raise ArgumentError("limit", f"expected 0 or more, got {self.limit}")
        for name in ("labels_file", "split", "columns"):
            if self.data is None and getattr(self, name) is not None:
                raise ArgumentError(name, f"given without {option('data')}", "name the data")
        if self.seed is not None and not self.limit:
            raise ArgumentError("seed", "of no use without a sample", f"add {option('limit')}")
        if self.limit and self.out is not None:
            problem = "its lines would be those of a sample, not of the data"
            raise ArgumentError("out", problem, f"leave out {option('limit')}")


def _check_source(settings: Any) -> None:
    """Reject a source that cannot be read, and settings for reading files that have no effect on the sources."""
    if settings.data == "-":
        problem = "the paths of a table are relative to its folder, so it cannot be standard input"
        raise ArgumentError("data", problem, "name a file")
    if settings.skip_bad_rows and settings.data is None:
        problem = f"of no use without {option('data')}"
        raise ArgumentError("skip_bad_rows", problem, f"leave it out, or name the data with {option('data')}")
    given = [name for name in ("columns", "skip_bad_rows") if name in changed(settings)]
    sources = [source for source in (settings.data, getattr(settings, "valid", None)) if source is not None]
    if (
        not given or not sources or not all(map(os.path.exists, sources))
    ):  # a missing file is told by its reader
        return
    from regard.images.sources import holds_picture_files, is_table

    needed = {"columns": (is_table, "a table"), "skip_bad_rows": (holds_picture_files, "files of pictures")}
    for name in given:
        fits, kind = needed[name]
        if not any(map(fits, sources)):
            raise ArgumentError(name, f"of no use for {settings.data}, which is not {kind}", "leave it out")


def shape_of(settings: ImageDataSettings) -> tuple[int, int] | None:
    """Return the (height, width) that pictures are resized to, or None if they keep their own."""
    if settings.image_height is None or settings.image_width is None:
        return None
    for name in ("image_height", "image_width"):
        if getattr(settings, name) < 1:
            raise ArgumentError(name, f"expected 1 or more pixels, got {getattr(settings, name)}")
    return settings.image_height, settings.image_width


def class_names(text: str | None) -> list[str] | None:
    """Return the names of classes that a setting lists.

    >>> class_names("shirt, shoe")
    ['shirt', 'shoe']
    """
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if len(names) < 2 or "" in names or len(set(names)) < len(names):
        problem = f"expected two or more different names, separated by commas, got {text!r}"
        raise ArgumentError("class_names", problem, "such as shirt,shoe")
    return names
