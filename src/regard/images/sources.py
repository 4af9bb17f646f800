"""Reading sets of labelled pictures from arrays, idx files, folders and tables."""

from __future__ import annotations

import contextlib
import os
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.errors import ArgumentError, FileError, RegardError, UnknownNameError, renamed
from regard.files import split_folder
from regard.images.files import IMAGE_SUFFIXES
from regard.images.idx import MOST_BYTES, read_idx
from regard.images.image_set import ImageSet
from regard.images.picture_files import MIXED, PictureFiles, class_rows, table_rows
from regard.images.reading import read_header, read_image
from regard.images.resizing import StretchedPictures, resize_images

if TYPE_CHECKING:
    from regard.text import Skipped

__all__ = ["holds_picture_files", "is_table", "read_image_set", "size_of_first"]

SPLITS = ("train", "test")
# The starts of the names of idx files of each split.
_IDX_STARTS = {"train": ("train",), "test": ("t10k", "test")}
# The names of arrays in .npz files.
_IMAGES, _LABELS = ("images", "x", "data"), ("labels", "y", "target")
# The start of a file in the format .npy.
_NUMPY, _ZIP = b"\x93NUMPY", b"PK\x03\x04"


def read_image_set(
    source: Any,
    labels: Any = None,
    *,
    split: str = "train",
    classes: Sequence[str] | None = None,
    size: tuple[int, int] | None = None,
    channels: int | None = None,
    mixed: str = "resize",
    columns: Sequence[Any] | None = None,
    skip_bad_rows: bool = False,
    skipped: Skipped | None = None,
) -> ImageSet:
    """Read labelled pictures into memory.

    ``source`` and ``labels`` are one of these.

    - arrays of pictures ``(n,h,w)`` or ``(n,h,w,c)`` and of numbers of classes, or the .npy files of both;
    - a .npz file with the arrays ``images`` and ``labels`` (or ``x`` and ``y``), or such names with the split, as in
      ``x_train``, and maybe ``classes``;
    - an idx file of pictures, and that of their labels, which is found by its name if it is not given;
    - a folder of idx files with the names of MNIST's, compressed or not;
    - a folder with a folder of pictures for each class, or such folders in ``train`` and ``test``;
    - a table (.csv or .tsv) of paths, relative to its folder, and labels, in two ``columns``.

    ``split`` is "train" or "test", for sources that have both. ``classes`` are the names of the classes in the order of
    their numbers. By default they are the names of folders, the labels of a table in their order, or numbers. All
    pictures are resized to ``size``, the pair (height, width), and converted to 1 or 3 ``channels``. Without ``size``,
    files of different sizes are resized to the most frequent one with a warning, or are an error if ``mixed`` is
    "refuse". Without ``channels``, files have 1 channel if none has colours. Files that cannot be read and bad rows of
    a table are an error. With ``skip_bad_rows`` they are left out and counted in ``skipped``.

    >>> read_image_set(np.zeros((4, 8, 8)), np.array([0, 1, 1, 0])).counts()
    {'0': 2, '1': 2}
    """
    _check_arguments(split, size, channels, mixed)
    if isinstance(source, str | os.PathLike):
        with renamed(images="source"):
            files = PictureFiles(size, channels, mixed, skip_bad_rows, skipped)
            found = _from_path(source, labels, split, classes, files, columns)
    else:
        found = ImageSet.of(_as_array(source), _as_array(labels), classes)
    return _shaped(found, size, channels)


def _check_arguments(split: str, size: Any, channels: Any, mixed: str) -> None:
    for name, value, known in (("split", split, SPLITS), ("mixed", mixed, MIXED)):
        if value not in known:
            raise UnknownNameError(name, value, known)
    if size is not None and (len(size) != 2 or min(size) < 1):
        raise ArgumentError("size", f"expected a height and a width, 1 or more, got {size}")
    if channels not in (None, 1, 3):
        raise ArgumentError("channels", f"expected 1, 3 or None, got {channels!r}")


def _as_array(values: Any) -> np.ndarray:
    if values is None:
        raise ArgumentError("labels", "not given", "give the number of the class of each picture")
    return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)


def _from_path(
    source: str | os.PathLike,
    labels: Any,
    split: str,
    classes: Sequence[str] | None,
    files: PictureFiles,
    columns: Sequence[Any] | None,
) -> ImageSet:
    """Read a file or a folder."""
    path = Path(source)
    is_archive = not (is_table(source) or path.is_dir()) and _first_bytes(path).startswith(_ZIP)
    if labels is not None and (is_table(source) or path.is_dir() or is_archive):
        raise ArgumentError("labels", f"given beside {path}, which has its own", "leave it out")
    if is_table(source):
        return files.read(*table_rows(source, classes, columns, files))
    if path.is_dir():
        pair = _idx_pair(path, split)
        if pair is None:
            if files.skipped is not None:
                files.skipped.columns = ["each file", "name of its folder"]
            return files.read(*class_rows(split_folder(path, split, IMAGE_SUFFIXES), classes))
        return _from_files(*pair, classes)
    if is_archive:
        return _from_npz(path, split, classes)
    if path.suffix.lower() in IMAGE_SUFFIXES:
        problem = f"{path} is one picture: name a folder that has a folder of pictures for each class"
        raise FileError(problem, argument="source")
    if labels is None or isinstance(labels, str | os.PathLike):
        return _from_files(path, None if labels is None else Path(labels), classes, argument="labels")
    return ImageSet.of(_read_array(path, "source"), np.asarray(labels), classes)


def is_table(source: str | os.PathLike) -> bool:
    """Return whether a source is a table of paths and labels, by its name."""
    name = os.fspath(source)
    return name == "-" or name.removesuffix(".gz").endswith((".csv", ".tsv", ".tab", ".txt"))


def holds_picture_files(source: str | os.PathLike) -> bool:
    """Return whether a source is a table or a folder of files of pictures, which take long to decode."""
    path = Path(source)
    return is_table(source) or (path.is_dir() and not any("-idx" in one.name for one in path.iterdir()))


def size_of_first(source: str | os.PathLike, split: str = "train") -> tuple[int, int] | None:
    """Return the (height, width) of the first picture in a folder of classes, or None for other sources.

    It is a guess at the size of all pictures before they are read.
    """
    if is_table(source) or not holds_picture_files(source):
        return None
    header = read_header(class_rows(split_folder(Path(source), split, IMAGE_SUFFIXES), None)[0][0])
    return header.height, header.width


def _first_bytes(path: Path, argument: str = "source") -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(8)
    except FileNotFoundError:
        raise FileError(f"no file or folder {path}", argument=argument) from None
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}", argument=argument) from None


# -- arrays -----------------------------------------------------------------------------------------------------------


def _from_files(
    images: Path, labels: Path | None, classes: Sequence[str] | None, *, argument: str = "source"
) -> ImageSet:
    """Read an idx or .npy file of pictures and one of labels, which is found by its name if it is None.

    ``argument`` is the name of the argument that an error about the labels names.
    """
    pixels = _read_array(images, "source")
    labels = _labels_beside(images) if labels is None else labels
    numbers = _read_array(labels, argument)
    with _named_in_errors(images, labels, argument):
        return ImageSet.of(pixels, numbers, classes)


@contextlib.contextmanager
def _named_in_errors(images: Path, labels: Path, argument: str = "source") -> Iterator[None]:
    """Return a context manager that turns errors about arrays into FileError about the files that hold them."""
    files = {"images": (images, "source"), "labels": (labels, argument)}
    try:
        yield
    except ArgumentError as error:
        if error.argument not in files:
            raise
        path, name = files[error.argument]
        raise FileError(f"{path}: {error.in_words()}", argument=name) from None


def _read_array(path: Path, argument: str) -> np.ndarray:
    """Read an idx or a .npy file."""
    is_npy = _first_bytes(path, argument).startswith(_NUMPY)
    return (_read_npy if is_npy else read_idx)(path, argument=argument)


def _read_npy(path: str | os.PathLike, *, argument: str) -> np.ndarray:
    try:
        return np.load(path, allow_pickle=False)
    except Exception as error:
        raise _unreadable(path, error, argument) from None


def _unreadable(path: str | os.PathLike, error: Exception, argument: str) -> FileError:
    """Return the error about a file of arrays that NumPy cannot read, for which it raises errors of any type."""
    in_header = isinstance(error, SyntaxError | tokenize.TokenError)
    return FileError(
        f"{path} cannot be read: {'its header is damaged' if in_header else error}", argument=argument
    )


def _from_npz(path: Path, split: str, classes: Sequence[str] | None) -> ImageSet:
    try:
        # NumPy does not close a file that it opened itself if the file is no archive.
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
            _check_size(path, arrays.zip)
            names = list(arrays)
            images, labels = (_array_name(names, known, split, path) for known in (_IMAGES, _LABELS))
            pixels, numbers = arrays[images], arrays[labels]
            own = (
                [str(name) for name in arrays["classes"]] if classes is None and "classes" in names else None
            )
    except RegardError:
        raise
    except Exception as error:
        raise _unreadable(path, error, "source") from None
    if own is not None and np.issubdtype(numbers.dtype, np.integer) and numbers.max(initial=0) >= len(own):
        problem = (
            f"{path}: its array classes has {len(own)} names, but {labels} has the number {numbers.max()}"
        )
        raise FileError(problem, argument="source")
    with _named_in_errors(path, path):
        return ImageSet.of(pixels, numbers, classes if own is None else own)


def _check_size(path: Path, archive: Any) -> None:
    """Raise FileError if the arrays of an archive are larger than all pictures of a set may be."""
    expected = sum(one.file_size for one in archive.infolist())
    if expected > MOST_BYTES:
        problem = f"{path} claims {expected:,} bytes, more than {MOST_BYTES >> 30} GiB"
        raise FileError(problem, argument="source")


def _array_name(names: list[str], known: Sequence[str], split: str, path: Path) -> str:
    wanted = [*(f"{name}_{split}" for name in known), *(f"{split}_{name}" for name in known), *known]
    for name in wanted:
        if name in names:
            return name
    problem = f"{path} has no array {known[0]} or {known[0]}_{split}: it has {', '.join(names) or 'none'}"
    raise FileError(problem, argument="source")


# -- idx files --------------------------------------------------------------------------------------------------------


def _idx_pair(folder: Path, split: str) -> tuple[Path, Path] | None:
    """Return the files of pictures and labels of a split in a folder with MNIST's names, or None without such files."""
    names = {path.name.removesuffix(".gz").replace(".", "-"): path for path in sorted(folder.iterdir())}
    for start in _IDX_STARTS[split]:
        images, labels = names.get(f"{start}-images-idx3-ubyte"), names.get(f"{start}-labels-idx1-ubyte")
        if images is not None and labels is not None:
            return images, labels
    if any("-idx" in name for name in names):
        wanted = f"{_IDX_STARTS[split][0]}-images-idx3-ubyte and {_IDX_STARTS[split][0]}-labels-idx1-ubyte"
        raise FileError(f"{folder} has no {wanted}, with or without .gz", argument="source")
    return None


def _labels_beside(path: Path) -> Path:
    """Return the file of labels that belongs to an idx file of pictures, by its name."""
    name = path.name.replace("images", "labels").replace("idx3", "idx1")
    for candidate in (name, name.removesuffix(".gz"), f"{name}.gz"):
        if candidate != path.name and path.with_name(candidate).is_file():
            return path.with_name(candidate)
    beside = f", or put {name} beside it" if name != path.name else ""
    raise FileError(f"{path}: there is no file of its labels: name that file{beside}", argument="labels")


def _shaped(found: ImageSet, size: tuple[int, int] | None, channels: int | None) -> ImageSet:
    """Return a set with the given size and number of channels."""
    images = found.images
    if size is not None and found.size != tuple(size):
        stretched = StretchedPictures(size)
        stretched.count("each picture", found.size)
        stretched.warn(4)
        parts = [resize_images(images[start : start + 1024], size) for start in range(0, len(images), 1024)]
        images = np.concatenate(parts)
    if channels is not None and found.channels != channels:
        images = np.stack([read_image(image, channels=channels) for image in images])
    return found if images is found.images else ImageSet(images, found.labels, found.classes)
