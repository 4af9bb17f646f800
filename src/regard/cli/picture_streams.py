"""The common options and the common input of the commands that read pictures."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

import typer

from regard.cli import streams
from regard.cli.environment import ClosedStream
from regard.errors import ArgumentError

__all__ = ["EXAMPLES", "FILE_OF_PICTURES", "PICTURES", "picture_chunks", "with_examples"]

PICTURES = typer.Argument(
    None,
    help="Files of pictures, or folders of them. Without them, their names are read from --file or a pipe.",
    show_default=False,
)
FILE_OF_PICTURES = typer.Option(
    None, "--file", help="A file with the name of a picture in each line ('-' for standard input)."
)
EXAMPLES = typer.Option(False, "--examples", help="Read the pictures that come with the model.")


def picture_chunks(
    pictures: list[str] | None, file: Path | None, *, verb: str, most: int = streams.LINES_OF_A_STREAM
) -> Iterable[list[str]]:
    """Return the names of pictures in lists of at most ``most``, where a folder stands for all pictures in it.

    They are those of the command line, or the lines of a file or of standard input. ``verb`` is the name of the
    command, for messages.
    """
    if pictures and file:
        raise ArgumentError("file", "given together with pictures", "give one of them")
    if pictures:
        names = _in_folders(pictures)
        return [names[start : start + most] for start in range(0, len(names), most)]
    if file is None and (isinstance(sys.stdin, ClosedStream) or sys.stdin.isatty()):
        raise ArgumentError(
            "pictures",
            f"nothing to {verb}",
            f"give a picture, as in regard {verb} picture.png, or say --examples",
        )
    lines = streams.input_chunks(None, file, verb=verb, batch_size=most)
    return (_in_folders(name.strip() for name in some if name.strip()) for some in lines)


def with_examples(pictures: list[str] | None, *, task: str, model: str | None, wanted: bool) -> list[str]:
    """Return the pictures of the command line, and those that come with the model if ``wanted``."""
    if not wanted:
        return pictures or []
    from regard.tasks.registry import find_model

    folder = find_model(task, model) / "examples"
    if not folder.is_dir():
        problem = f"no pictures come with the model {model or folder.parent.name}"
        raise ArgumentError("examples", problem, "name pictures of your own")
    return [*(pictures or []), str(folder)]


def _in_folders(names: Iterable[str]) -> list[str]:
    """Return names of files, with the files of pictures in a folder in place of the name of the folder."""
    from regard.images import image_files

    found: list[str] = []
    for name in names:
        inside = image_files(name, argument="pictures") if os.path.isdir(name) else [name]
        found += map(str, inside)
    return found
