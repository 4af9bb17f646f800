"""``regard glimpse``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from regard.cli import picture_streams, streams
from regard.errors import ArgumentError, option, renamed

__all__ = ["glimpse"]


def glimpse(
    pictures: list[str] = picture_streams.PICTURES,
    model: str = streams.MODEL,
    file: Path = picture_streams.FILE_OF_PICTURES,
    examples: bool = picture_streams.EXAMPLES,
    out: Path = streams.OUT,
    scores: bool = typer.Option(False, "--scores", help="The probability of every label."),
    samples: int = typer.Option(
        1,
        "--samples",
        min=1,
        help="Paths of glimpses. Above 1, places are drawn at random, and the answers averaged.",
    ),
    seed: int = typer.Option(None, "--seed", min=0, help="Seed of drawn places; by default 0."),
    attention: bool = typer.Option(
        False, "--attention", help="Print the place of each glimpse and the answer after it."
    ),
    save_attention: Path = typer.Option(
        None,
        "--save-attention",
        help="Save the path of the eye as an animation (.gif), a page with a slider (.html) or a strip (.png).",
    ),
    look: bool = typer.Option(False, "--look", help="Open the page with the slider."),
    device: str = streams.DEVICE,
    as_json: bool = streams.AS_JSON,
) -> None:
    """Print the label of each picture, which the model reads in a few glimpses."""
    output = _GlimpseOutput(as_json, scores, attention, save_attention, look, "Glimpses")
    pictures = picture_streams.with_examples(pictures, task="glimpse", model=model, wanted=examples)
    chunks = picture_streams.picture_chunks(pictures, file, verb="glimpse")
    fitted: list[str] = []

    def predict(classifier: Any, names: list[str], first: int) -> list[Any]:
        if seed is not None and samples == 1 and not classifier.draws_places:
            problem = "of no use with one sample, whose places are not drawn at random"
            raise ArgumentError("seed", problem, f"add {option('samples', 10)}")
        found = classifier.glimpse(names, samples=samples, seed=seed or 0, first=first)
        fitted.extend(f"{one.source}: {one.changed}" for one in found if one.changed)
        return found

    places: dict[str, Any] = {"model": model, "device": device, "out": out, "read": file}
    picture_streams.predict_pictures(
        "glimpse", predict, chunks, output, report=lambda: _report_fitted(fitted), **places
    )


def _report_fitted(fitted: list[str]) -> None:
    """Print how pictures were fitted to the model, on standard error."""
    if fitted:
        more = f", and {len(fitted) - 1:,} others" if len(fitted) > 1 else ""
        print(f"{fitted[0]}{more}", file=sys.stderr)


@dataclass
class _GlimpseOutput(streams.Output):
    """Shows labels as text or JSON, and the path of the eye in the terminal, in a file or in a page."""

    def __post_init__(self):
        from regard.files import check_writable
        from regard.plots.glimpses import GLIMPSE_FILES

        if self.picture is None:
            return
        if self.picture.suffix.lower() not in GLIMPSE_FILES:
            problem = f"expected a .gif, .html or .png file, got {self.picture.name}"
            raise ArgumentError("save_attention", problem)
        with renamed(path="save_attention"):
            check_writable(self.picture)

    def lines(self, predictor: Any, prediction: Any) -> Iterator[str]:
        """Yield the lines of one prediction, then draw its glimpses."""
        if self.as_json:
            yield json.dumps(prediction.to_json(self.attention), ensure_ascii=False)
        else:
            yield from prediction.lines(scores=self.scores)
            yield from prediction.path_lines() if self.attention else ()
        self._draw_glimpses(predictor, prediction)

    def _draw_glimpses(self, predictor: Any, prediction: Any) -> None:
        if self.picture is None and not self.look:
            return
        from regard.plots.glimpses import save_glimpses

        frames = predictor.frames(prediction)
        title = f"{Path(prediction.source).name}, read as {prediction.label}"
        if self.picture is not None:
            self.drawn += 1
            path = streams.numbered_path(self.picture, self.drawn)
            save_glimpses(path, prediction.picture, frames, title=title)
            if self.drawn > 1:
                print(f"the glimpses at another picture are in {path}", file=sys.stderr)
        if self.look:
            from regard.cli.view import open_page

            with open_page() as path:
                save_glimpses(path, prediction.picture, frames, title=title)
