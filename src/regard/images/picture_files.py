"""Reading of labelled files of pictures, from folders by class and from tables of paths."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.errors import ArgumentError, FileError, option
from regard.files import in_natural_order
from regard.images.files import image_classes
from regard.images.idx import MOST_BYTES
from regard.images.image_set import ImageSet
from regard.images.reading import ImageHeader, by_width, in_pixels, read_header, read_image
from regard.images.resizing import StretchedPictures, resize_images

if TYPE_CHECKING:
    from regard.text import Skipped

__all__ = ["MIXED", "PictureFiles", "class_rows", "files_of_table", "table_rows"]

MIXED = ("resize", "refuse")
# Names of the columns of tables.
FIELDS = tuple(
    (path, label)
    for path in ("path", "file", "filename", "image")
    for label in ("label", "class", "category", "target")
)

# The files of pictures, the number of the class of each, and the names of the classes.
Rows = tuple[list[Path], list[int], list[str]]


def class_rows(folder: Path, classes: Sequence[str] | None) -> Rows:
    """Return the files of a folder that has a folder for each class.

    ``classes`` are the names of the classes, by default those of the folders.
    """
    files = image_classes(folder, "source")
    names = list(classes) if classes is not None else list(files)
    for name in files:
        if name not in names:
            problem = f"{folder / name}: {name!r} is not one of the classes {_listed(names)}"
            raise FileError(problem, argument="source")
    rows = [(path, names.index(name)) for name, paths in files.items() for path in paths]
    return [path for path, _ in rows], [label for _, label in rows], names


def table_rows(
    source: str | os.PathLike,
    classes: Sequence[str] | None,
    columns: Sequence[Any] | None,
    files: PictureFiles,
) -> Rows:
    """Return the files of a table of paths and labels, where paths are relative to the folder of the table.

    A row whose picture is missing or whose label is not one of the ``classes`` is bad.
    """
    from regard.text import Skipped

    folder = _folder_of(source)

    def problem(path: str, label: str) -> str:
        if classes is not None and label.strip() not in classes:
            return f"the label {label.strip()!r:.60} is not one of {_listed(classes)}"
        try:
            read_header(folder / path.strip())
        except FileError as error:
            return error.in_words()
        return ""

    counted = files.skipped if files.skipped is not None else Skipped()
    bad = {"skip_bad_rows": files.skip_bad_rows, "skipped": counted}
    rows = _pairs_of(source, classes, columns, check=problem, **bad)
    found = [(folder / path.strip(), label.strip()) for path, label in rows]
    names = list(classes) if classes is not None else _in_order(label for _, label in found)
    return [path for path, _ in found], [names.index(label) for _, label in found], names


def files_of_table(
    source: str | os.PathLike, classes: Sequence[str] | None, columns: Sequence[Any] | None
) -> list[Path]:
    """Return the files that a table of paths and labels names, of which some may be missing."""
    rows = _pairs_of(source, classes, columns, skip_bad_rows=True)
    return [_folder_of(source) / path.strip() for path, _ in rows]


def _pairs_of(
    source: str | os.PathLike, classes: Sequence[str] | None, columns: Sequence[Any] | None, **options: Any
) -> list[tuple[str, str]]:
    """Return the paths and labels of a table. ``options`` are further ones of :func:`regard.text.read_pairs`."""
    from regard.text import read_pairs

    labels = classes or ()
    return list(read_pairs(source, columns=columns, fields=FIELDS, labels=labels, max_words=None, **options))


def _folder_of(source: str | os.PathLike) -> Path:
    return Path() if os.fspath(source) == "-" else Path(source).parent


def _in_order(labels: Any) -> list[str]:
    return sorted(set(labels), key=in_natural_order)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:20]) + (", …" if len(names) > 20 else "")


class PictureFiles:
    """The reading of many files of pictures into one array.

    The arguments are those of :func:`regard.images.read_image_set`.
    """

    def __init__(
        self,
        size: tuple[int, int] | None,
        channels: int | None,
        mixed: str,
        skip_bad_rows: bool = False,
        skipped: Skipped | None = None,
    ):
        self.size, self.channels, self.mixed = size, channels, mixed
        self.skip_bad_rows, self.skipped = skip_bad_rows, skipped

    def read(self, paths: list[Path], labels: list[int], classes: list[str]) -> ImageSet:
        """Read the files, all with one size and one number of channels."""
        headers = [self._unless_bad(read_header, path) for path in paths]
        known = [(path, header) for path, header in zip(paths, headers, strict=True) if header is not None]
        if not known:
            raise FileError(f"no picture can be read, of {len(paths):,}", argument="source")
        height, width = self.size or self._common_size(known)
        if self.size:
            stretched = StretchedPictures(self.size)
            for path, header in known:
                stretched.count(str(path), (header.height, header.width))
            stretched.warn(5)
        channels = self.channels or (1 if all(header.grey for _, header in known) else 3)
        if len(paths) * height * width * channels > MOST_BYTES:
            pictures = f"{len(paths):,} pictures of {in_pixels((height, width))}"
            told = f"{pictures} need more than {MOST_BYTES >> 30} GiB of memory"
            raise ArgumentError("size", told, f"give a smaller {option('size')}")
        images = np.empty((len(known), height, width, channels), dtype=np.uint8)
        kept: list[int] = []
        for place, (path, header) in enumerate(zip(paths, headers, strict=True)):
            image = None if header is None else self._unless_bad(read_image, path, channels=channels)
            if image is not None:
                images[len(kept)] = resize_images(image, (height, width))
                kept.append(place)
        return ImageSet.of(images[: len(kept)], np.array(labels)[kept], classes)

    def _unless_bad(self, read: Any, path: Path, **options: Any) -> Any:
        """Read a file, or return None and count it if it cannot be read and such files are left out."""
        try:
            return read(path, **options)
        except FileError as error:
            if not self.skip_bad_rows:
                raise
            if self.skipped is not None:
                self.skipped.count("bad", error.in_words())
            return None

    def _common_size(self, known: list[tuple[Path, ImageHeader]]) -> tuple[int, int]:
        """Return the most frequent size, with a warning or an error if there are others."""
        sizes = Counter((header.height, header.width) for _, header in known)
        (height, width), number = sizes.most_common(1)[0]
        if number == len(known):
            return height, width
        path, other = next(pair for pair in known if (pair[1].height, pair[1].width) != (height, width))
        told = (
            f"pictures of {len(sizes)} sizes: {number:,} of {len(known):,} have {in_pixels((height, width))}"
        )
        told += f", {path} has {by_width((other.height, other.width))}"
        if self.mixed == "refuse":
            raise FileError(f"{told}: resize them, or give {option('size')}", argument="source")
        warnings.warn(f"{told}: all are resized to {by_width((height, width))}", stacklevel=6)
        return height, width
