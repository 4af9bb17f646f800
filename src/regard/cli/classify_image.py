"""``regard classify-image``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from regard.cli import picture_streams, streams
from regard.cli.environment import say

__all__ = ["classify_image"]


def classify_image(
    pictures: list[str] = picture_streams.PICTURES,
    model: str = streams.MODEL,
    file: Path = picture_streams.FILE_OF_PICTURES,
    examples: bool = picture_streams.EXAMPLES,
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
    most = batch_size or streams.LINES_OF_A_STREAM
    pictures = picture_streams.with_examples(pictures, task="images", model=model, wanted=examples)
    chunks = picture_streams.picture_chunks(pictures, file, verb="classify-image", most=most)
    proportions, resized = _Proportions(), picture_streams.ResizedPictures()

    def predict(classifier: Any, files: list[str], _first: int) -> list[Any]:
        found = classifier.classify(files, batch_size=batch_size)
        resized.count(proportions.compare(found, classifier.size), classifier.size)
        return found

    def report() -> None:
        resized.report()
        proportions.report()

    places: dict[str, Any] = {"model": model, "device": device, "out": out, "read": file}
    picture_streams.predict_pictures("images", predict, chunks, output, report=report, **places)


class _Proportions:
    """Counts pictures whose sides are in another proportion than those of the model, which distorts them."""

    # The largest difference of proportions that is not reported.
    SMALL = 1.1

    def __init__(self):
        self.number, self.first = 0, ""

    def compare(self, found: list[Any], size: tuple[int, int]) -> list[Any]:
        """Count the pictures that are distorted if they are resized to ``size``, and return the others."""
        others = []
        for one in found:
            (height, width), (rows, columns) = one.size, size
            change = (height * columns) / (width * rows)
            if max(change, 1 / change) > self.SMALL:
                self.number += 1
                self.first = (
                    self.first or f"{one.source} has {height}×{width} pixels, the model {rows}×{columns}"
                )
            else:
                others.append(one)
        return others

    def report(self) -> None:
        """Print how many pictures were distorted, on standard error."""
        if self.number:
            others = f" and so were {self.number - 1:,} others" if self.number > 1 else ""
            say(f"{self.first}: it was stretched{others}: cut pictures to the proportions of the model")
