"""The common options and the common input of the commands that read pictures."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from regard.cli import streams
from regard.cli.environment import ClosedStream, say
from regard.errors import ArgumentError, FileError, renamed

if TYPE_CHECKING:
    from regard.images.resizing import StretchedPictures

__all__ = [
    "EXAMPLES",
    "FILE_OF_PICTURES",
    "PICTURES",
    "ResizedPictures",
    "picture_chunks",
    "predict_pictures",
    "with_examples",
]

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

    They are those of the command line, or the lines of a file or of standard input. Names that do not come from a
    stream are all read at once and returned as a list. ``verb`` is the name of the command, for messages.
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
    chunks = (_in_folders(name.strip() for name in some if name.strip()) for some in lines)
    if file is None or not file.is_file():
        return chunks
    with renamed(path="file"):
        return list(chunks)


def predict_pictures(
    task: str,
    predict: streams.Predict,
    chunks: Iterable[list[str]],
    output: streams.Output,
    *,
    report: Callable[[], None],
    **places: Any,
) -> None:
    """Write the predictions for pictures as :func:`streams.predict_texts` does, without those that cannot be read.

    There is a line on standard error for each picture that cannot be read, and the exit code is then 1. If no picture
    can be read, the last of these errors is raised, so that no file is written. ``report`` is called at the end. A
    result that would be written over one of the pictures raises ArgumentError.
    """
    overwriting, readable = _Overwriting(output, places["out"]), _Readable(predict)
    total = sum(map(len, chunks)) if isinstance(chunks, list) else None
    if isinstance(chunks, list):
        overwriting.check([name for chunk in chunks for name in chunk])
    else:
        chunks = overwriting.checked(chunks)
    streams.predict_texts(
        task, readable.predict, readable.checked(chunks), output, **places, noun="pictures", total=total
    )
    report()
    if readable.failed:
        raise typer.Exit(1)


class _Overwriting:
    """Raises an error if a result would be written over a picture that is read."""

    def __init__(self, output: streams.Output, out: Path | None):
        self.output, self.number = output, 0
        self.pictures: set[str] = set()  # the files of the pictures so far
        self.results = {os.path.realpath(out): ("out", out)} if out else {}

    def check(self, names: list[str]) -> None:
        """Raise ArgumentError if the results of these pictures and those before them are files of such pictures."""
        before, self.number = self.number, self.number + len(names)
        if self.output.picture is not None:
            for number in range(before + 1, self.number + 1):
                path = streams.numbered_path(self.output.picture, number)
                self.results[os.path.realpath(path)] = "save_attention", path
        self.pictures.update(map(os.path.realpath, names) if self.results else ())
        for argument, path in [self.results[file] for file in self.results if file in self.pictures]:
            raise ArgumentError(argument, f"{path} is one of the pictures to read", "name another file")

    def checked(self, chunks: Iterable[list[str]]) -> Iterator[list[str]]:
        """Yield lists of names after each was checked."""
        for chunk in chunks:
            self.check(chunk)
            yield chunk


class _Readable:
    """Predicts for the pictures that can be read, and reports the others."""

    def __init__(self, predict: streams.Predict):
        self.predict_all = predict
        self.waiting: list[FileError] = []  # errors before the first picture that could be read
        self.succeeded, self.failed = False, False

    def predict(self, predictor: Any, files: list[str], first: int) -> list[Any]:
        """Return the predictions for the files that can be read, in order."""
        caught: list[warnings.WarningMessage] = []
        try:
            with warnings.catch_warnings(record=True) as caught:
                _check_empty_folders(files)
                found = self.predict_all(predictor, files, first)
        except FileError as error:
            if len(files) > 1:  # each file is read again, with its warnings
                parts = [self.predict(predictor, [file], first + n) for n, file in enumerate(files)]
                return [one for part in parts for one in part]
            self.failed = True
            self.waiting.append(error)
            found = []
        for one in caught:
            warnings.showwarning(one.message, one.category, one.filename, one.lineno)
        self.succeeded = self.succeeded or bool(found)
        if self.succeeded:
            self._report()
        return found

    def _report(self) -> None:
        for error in self.waiting:
            say(error.in_words())
        self.waiting = []

    def checked(self, chunks: Iterable[list[str]]) -> Iterator[list[str]]:
        """Yield lists of files, and raise an error at their end if no picture could be read."""
        yield from chunks
        if self.waiting:
            last = self.waiting.pop()
            self._report()
            raise last


class ResizedPictures:
    """Counts pictures whose size is not that of the model, and reports their number."""

    def __init__(self):
        self.number, self.first, self.size = 0, "", (0, 0)
        self.inverted: list[str] = []
        self.stretched: StretchedPictures | None = None

    def count(self, predictions: list[Any], size: tuple[int, int]) -> list[Any]:
        """Count the predictions whose pictures were resized or stretched to ``size``, and return all."""
        from regard.images.reading import in_pixels
        from regard.images.resizing import StretchedPictures

        self.size = size
        self.inverted += [str(one.source) for one in predictions if one.inverted]
        self.stretched = self.stretched or StretchedPictures(size)
        for one in predictions:
            if not self.stretched.count(str(one.source), one.size) and tuple(one.size) != size:
                self.number += 1
                self.first = self.first or f"{one.source} has {in_pixels(one.size)}"
        return predictions

    def report(self) -> None:
        """Print how many pictures were resized and how many were stretched, on standard error."""
        from regard.images.reading import by_width

        size = by_width(self.size)
        if self.number:
            others = f" and {self.number - 1:,} others too" if self.number > 1 else ""
            print(f"{self.first}: resized to {size}{others}", file=sys.stderr)
        if self.stretched is not None and self.stretched.number:
            number, first = self.stretched.number, f"{self.stretched.first}, the model {size}"
            others = f" and so were {number - 1:,} others" if number > 1 else ""
            say(f"{first}: it was stretched{others}: cut pictures to the proportions of the model")
        if self.inverted:
            others = f", and so were {len(self.inverted) - 1:,} others" if len(self.inverted) > 1 else ""
            why = "its ground is light where that of the training pictures is dark, or the reverse"
            say(f"{self.inverted[0]} was inverted{others}: {why}")


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
    """Return names of files, with the files of pictures in a folder in place of the name of the folder.

    The name of a folder without pictures stays, so that it is reported in its place.
    """
    from regard.images import image_files

    found: list[str] = []
    for name in names:
        try:
            inside = image_files(name) if os.path.isdir(name) else [name]
        except FileError:
            inside = [name]
        found += map(str, inside)
    return found


def _check_empty_folders(names: list[str]) -> None:
    """Raise FileError if a name is that of a folder, which :func:`_in_folders` leaves only without pictures."""
    from regard.images import image_files

    for name in filter(os.path.isdir, names):
        image_files(name, argument="pictures")
