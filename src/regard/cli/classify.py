"""``regard classify``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from regard.cli import streams
from regard.cli.environment import say

__all__ = ["classify"]


def classify(
    text: list[str] = streams.TEXTS,
    model: str = streams.MODEL,
    file: Path = streams.FILE,
    out: Path = streams.OUT,
    scores: bool = typer.Option(False, "--scores", help="The probability of every label."),
    batch_size: int = typer.Option(
        None, "--batch-size", min=1, help="Texts classified together.", show_default="64"
    ),
    attention: bool = streams.ATTENTION,
    save_attention: Path = streams.SAVE_ATTENTION,
    look: bool = streams.LOOK,
    device: str = streams.DEVICE,
    as_json: bool = streams.AS_JSON,
) -> None:
    """Print the label of each text with its probability."""
    title = "Attention of the classifier to each word"
    output = streams.Output(as_json, scores, attention, save_attention, look, title)
    chunks = streams.input_chunks(text, file, verb="classify", batch_size=batch_size)
    long_texts, strange = streams.LongTexts(), list[str]()

    def predict(classifier: Any, texts: list[str], _first: int) -> list[Any]:
        read = classifier.encoder
        problem = f"texts have more than {read.most} tokens: their {read.cut} was not read"
        found = long_texts.count(classifier.classify(texts, batch_size=batch_size), problem)
        known_before = len(strange)
        strange.extend(one.source for one in found if classifier.knows_no_word(one))
        if strange and not known_before:
            say(f"the model knows no word of {strange[0]!r:.60}: the label is a guess")
        return found

    places: dict[str, Any] = {
        "model": model,
        "device": device,
        "batch_size": batch_size,
        "out": out,
        "read": file,
    }
    streams.predict_texts("classify", predict, chunks, output, **places)
    long_texts.report()
    if len(strange) > 1:
        say(f"the model knows no word of {len(strange):,} texts: their labels are guesses")
