"""``regard classify-image``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from regard.cli import picture_streams, streams

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
    resized = picture_streams.ResizedPictures()

    def predict(classifier: Any, files: list[str], _first: int) -> list[Any]:
        return resized.count(classifier.classify(files, batch_size=batch_size), classifier.size)

    places: dict[str, Any] = {"model": model, "device": device, "out": out, "read": file}
    places["batch_size"] = batch_size
    picture_streams.predict_pictures("images", predict, chunks, output, report=resized.report, **places)
