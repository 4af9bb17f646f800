"""Finding the files of pictures in folders."""

from __future__ import annotations

import os
import re
from pathlib import Path

from regard.errors import FileError

__all__ = ["IMAGE_SUFFIXES", "class_folders", "holds_images", "image_files", "in_natural_order"]

# The ends of the names of files that are taken for pictures.
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm", ".pbm")


def image_files(folder: str | os.PathLike, *, argument: str = "folder") -> list[Path]:
    """Return the files of pictures in a folder and the folders below it, by name, or raise FileError if there are none.

    Hidden files and files with other names are left out.
    """
    root = Path(folder)
    if not root.is_dir():
        raise FileError(f"no folder {root}", argument=argument)
    found = [path for path in root.rglob("*") if _is_image(path.relative_to(root)) and path.is_file()]
    if not found:
        known = ", ".join(IMAGE_SUFFIXES)
        raise FileError(f"{root} has no pictures: expected files in {known}", argument=argument)
    return sorted(found, key=lambda path: in_natural_order(path.relative_to(root).as_posix()))


def class_folders(folder: Path, argument: str) -> dict[str, list[Path]]:
    """Return the files of pictures in each folder of a folder, by the name of the class.

    Raises FileError if there are pictures outside of the class folders, fewer than two class folders, or one without
    pictures.
    """
    inside = [path for path in folder.iterdir() if not path.name.startswith(".")]
    loose = [path for path in inside if path.is_file() and _is_image(Path(path.name))]
    if loose:
        problem = f"{loose[0]} is in no class folder: expected {folder}/CLASS/picture.png"
        raise FileError(problem, argument=argument)
    names = sorted((path.name for path in inside if path.is_dir()), key=in_natural_order)
    if len(names) < 2:
        number = "no folder" if not names else f"one folder, {names[0]}"
        problem = f"{folder} has {number}: expected one for each class, two or more"
        raise FileError(problem, argument=argument)
    files: dict[str, list[Path]] = {}
    for name in names:
        try:
            files[name] = image_files(folder / name)
        except FileError as error:
            told = f"the class {name!r} is empty: {error.in_words()}"
            raise FileError(told, argument=argument) from None
    return files


def holds_images(folder: Path) -> bool:
    """Return whether there are files of pictures in a folder itself, and not only in the folders below it."""
    return any(_is_image(Path(path.name)) and path.is_file() for path in folder.iterdir())


def in_natural_order(name: str) -> tuple[object, ...]:
    """Return a key that sorts names as people do, with ``img2`` before ``img10``.

    >>> sorted(["b", "a10", "a2", "10", "9"], key=in_natural_order)
    ['9', '10', 'a2', 'a10', 'b']
    """
    parts = re.split(r"(\d+)", name)
    # Parts with odd numbers are digits. Each key is a tuple, so that numbers are never compared with texts.
    return tuple((0, int(part), part) if place % 2 else (1, 0, part) for place, part in enumerate(parts))


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in IMAGE_SUFFIXES and not any(part.startswith(".") for part in path.parts)
