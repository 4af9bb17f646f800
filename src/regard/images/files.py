"""Finding the files of pictures in folders."""

from __future__ import annotations

import os
from pathlib import Path

from regard.errors import FileError
from regard.files import class_folders, files_below, is_named

__all__ = ["IMAGE_SUFFIXES", "image_classes", "image_files"]

# The ends of the names of files that are taken for pictures.
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm", ".pbm")


def image_files(folder: str | os.PathLike, *, argument: str = "folder") -> list[Path]:
    """Return the files of pictures in a folder and the folders below it, by name, or raise FileError if there are none.

    Hidden files and files with other names are left out.
    """
    return files_below(Path(folder), IMAGE_SUFFIXES, "pictures", argument=argument)


def image_classes(folder: Path, argument: str) -> dict[str, list[Path]]:
    """Return the files of pictures in each folder of a folder, by the name of the class.

    Raises FileError if there are pictures outside of the class folders, fewer than two class folders, or one without
    pictures.
    """
    loose = sorted(path for path in folder.iterdir() if is_named(path, IMAGE_SUFFIXES) and path.is_file())
    if loose:
        problem = f"{loose[0]} is in no class folder: expected {folder}/CLASS/picture.png"
        raise FileError(problem, argument=argument)
    return class_folders(folder, IMAGE_SUFFIXES, "pictures", argument=argument)
