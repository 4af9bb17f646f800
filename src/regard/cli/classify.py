"""``regard classify``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from regard.cli.environment import say
from regard.cli.streams import DEVICE, Output, check_out, input_chunks, predict_stream

__all__ = ["classify"]


def classify(
    text: list[str] = typer.Argument(
        None, help="Texts; or use --file, or pipe lines in.", show_default=False
    ),
    model: str = typer.Option(None, "--model", help="A model's name or folder."),
    file: Path = typer.Option(None, "--file", help="Classify the lines of a file ('-' for standard input)."),
    out: Path = typer.Option(None, "--out", help="Write the labels to a file instead of the screen."),
    scores: bool = typer.Option(False, "--scores", help="The probability of every label."),
    batch_size: int = typer.Option(
        None, "--batch-size", min=1, help="Texts classified together.", show_default="64"
    ),
    attention: bool = typer.Option(False, "--attention", help="Draw the attention to the words."),
    save_attention: Path = typer.Option(
        None, "--save-attention", help="Save that picture: .png, .svg, .pdf or .html; more texts, more files."
    ),
    look: bool = typer.Option(False, "--look", help="Open all attention of the model in the viewer."),
    device: str = DEVICE,
    as_json: bool = typer.Option(False, "--json", help="One JSON object in each line."),
) -> None:
    """Label texts, a file, or lines from a pipe, each with its probability."""
    title = "Attention of the classifier to each word"
    output = Output(as_json, scores, attention, save_attention, look, title)
    chunks = input_chunks(text, file, verb="classify", batch_size=batch_size)
    check_out(out, file, "classify")

    from regard.tasks import find_task

    task = find_task("classify")
    classifier = task.load(task.find(model, {}), device)

    def predict(texts: list[str], _first: int) -> list[Any]:
        found = classifier.classify(texts, batch_size=batch_size)
        strange = [one.source for one in found if classifier.knows_no_word(one)]
        if strange:
            more = f" and of {len(strange) - 1:,} others" if len(strange) > 1 else ""
            say(f"the model knows no word of {strange[0]!r:.60}{more}: the label is a guess")
        return found

    predict_stream(classifier, chunks, predict, output, out)
