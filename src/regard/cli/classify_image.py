"""``regard classify-image``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import typer

from regard.cli import streams
from regard.cli.environment import ClosedStream, say
from regard.errors import ArgumentError

__all__ = ["classify_image"]


def classify_image(
    pictures: list[str] = typer.Argument(
        None,
        help="Files of pictures, or folders of them. Without them, their names are read from --file or a pipe.",
        show_default=False,
    ),
    model: str = streams.MODEL,
    file: Path = typer.Option(
        None, "--file", help="A file with the name of a picture in each line ('-' for standard input)."
    ),
    out: Path = streams.OUT,
    scores: bool = typer.Option(False, "--scores", help="The probability of every class."),
    batch_size: int = typer.Option(
        None, "--batch-size", min=1, help="Pictures classified together.", show_default="64"
    ),
    attention: bool = typer.Option(
        False, "--attention", help="Draw where the model looks in each picture, in the terminal."
    ),
    save_attention: Path = typer.Option(
        None,
        "--save-attention",
        help="Save where it looks as .png, .svg, .pdf or .html, one file for each picture.",
    ),
    look: bool = streams.LOOK,
    device: str = streams.DEVICE,
    as_json: bool = streams.AS_JSON,
) -> None:
    """Print the class of each picture with its probability."""
    title = "Where the classifier looks"
    output = streams.Output(as_json, scores, attention, save_attention, look, title)
    chunks = _files(pictures, file, batch_size or streams.LINES_OF_A_STREAM)
    proportions = _Proportions()

    def predict(classifier: Any, files: list[str], _first: int) -> list[Any]:
        return proportions.compare(classifier.classify(files, batch_size=batch_size), classifier.size)

    places: dict[str, Any] = {"model": model, "device": device, "out": out, "read": file}
    streams.predict_texts("images", predict, chunks, output, **places, noun="pictures")
    proportions.report()


class _Proportions:
    """Counts pictures whose sides are in another proportion than those of the model, which distorts them."""

    # The largest difference of proportions that is not reported.
    SMALL = 1.1

    def __init__(self):
        self.number, self.first = 0, ""

    def compare(self, found: list[Any], size: tuple[int, int]) -> list[Any]:
        """Count the pictures that are distorted if they are resized to ``size``, and return all."""
        for one in found:
            (height, width), (rows, columns) = one.size, size
            change = (height * columns) / (width * rows)
            if max(change, 1 / change) > self.SMALL:
                self.number += 1
                self.first = (
                    self.first or f"{one.source} has {height}×{width} pixels, the model {rows}×{columns}"
                )
        return found

    def report(self) -> None:
        """Print how many pictures were distorted, on standard error."""
        if self.number:
            others = f" and so were {self.number - 1:,} others" if self.number > 1 else ""
            say(f"{self.first}: it was stretched{others}: cut pictures to the proportions of the model")


def _files(pictures: list[str] | None, file: Path | None, most: int) -> Iterable[list[str]]:
    """Return the names of the pictures in lists of at most ``most``, where a folder stands for all in it."""
    if pictures and file:
        raise ArgumentError("file", "given together with pictures", "give one of them")
    if pictures:
        names = _in_folders(pictures)
        return [names[start : start + most] for start in range(0, len(names), most)]
    if file is None and (isinstance(sys.stdin, ClosedStream) or sys.stdin.isatty()):
        fix = "give a picture: regard classify-image photo.png"
        raise ArgumentError("pictures", "nothing to classify", fix)
    lines = streams.input_chunks(None, file, verb="classify-image", batch_size=most)
    return (_in_folders(name.strip() for name in some if name.strip()) for some in lines)


def _in_folders(names: Iterable[str]) -> list[str]:
    """Return names of files, with the files of pictures in a folder in place of the name of the folder."""
    from regard.images import image_files

    found: list[str] = []
    for name in names:
        inside = image_files(name, argument="pictures") if os.path.isdir(name) else [name]
        found += map(str, inside)
    return found
