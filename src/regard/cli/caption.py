"""``regard caption`` and ``regard scenes``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from regard.cli import picture_streams, streams
from regard.cli.cut_results import CutResults
from regard.errors import renamed

__all__ = ["caption", "scenes"]


def caption(
    pictures: list[str] = picture_streams.PICTURES,
    model: str = streams.MODEL,
    file: Path = picture_streams.FILE_OF_PICTURES,
    examples: bool = picture_streams.EXAMPLES,
    out: Path = streams.OUT,
    beams: int = streams.BEAMS,
    n_best: int = typer.Option(
        1, "--n-best", help="The number of captions of each picture, shown with their scores."
    ),
    max_length: int = typer.Option(
        None,
        "--max-length",
        help="The largest number of tokens of a caption.",
        show_default="that of the training",
    ),
    attention: bool = typer.Option(
        False, "--attention", help="Draw the attention of each word over the picture in the terminal."
    ),
    save_attention: Path = typer.Option(
        None,
        "--save-attention",
        help="Save the attention of each word over the picture as .png, .svg, .pdf or .html.",
    ),
    look: bool = streams.LOOK,
    device: str = streams.DEVICE,
    as_json: bool = streams.AS_JSON,
) -> None:
    """Print a caption of each picture, after its name if there are several."""
    from regard.decoding import DecodingOptions

    search: dict[str, Any] = {"beams": beams if beams is not None else max(5, n_best)}
    search |= {} if max_length is None else {"max_length": max_length}
    options = DecodingOptions(n_best=n_best, **search)
    title = "Attention of the caption to the picture"
    output = _CaptionOutput(as_json, n_best > 1, attention, save_attention, look, title)
    pictures = picture_streams.with_examples(pictures, task="caption", model=model, wanted=examples)
    output.named = len(pictures) != 1 or Path(pictures[0]).is_dir()
    chunks, resized = (
        picture_streams.picture_chunks(pictures, file, verb="caption"),
        picture_streams.ResizedPictures(),
    )

    cut = CutResults("caption")

    def predict(captioner: Any, files: list[str], first: int) -> list[Any]:
        found = captioner.caption(files, options, first=first)
        limit = f"{captioner.longest} tokens: allow more with --max-length"
        limit = limit if max_length is None else f"--max-length {max_length}"
        cut.count(found, [one.ended for one in found], limit)
        return resized.count(found, captioner.reader.shape[:2])

    def report() -> None:
        resized.report()
        cut.report()

    places: dict[str, Any] = {"model": model, "device": device, "out": out, "read": file}
    picture_streams.predict_pictures("caption", predict, chunks, output, report=report, **places)


@dataclass
class _CaptionOutput(streams.Output):
    """Shows captions, with the name of the picture before each if ``named``."""

    named: bool = False

    def lines(self, predictor: Any, prediction: Any) -> Iterator[str]:
        """Yield the lines of one prediction, then draw its attention."""
        before = f"{prediction.source}\t" if self.named and not self.as_json else ""
        for line in super().lines(predictor, prediction):
            yield before + line


def scenes(
    out: Path = typer.Option(..., "--out", help="The folder to write, which is new or empty."),
    count: int = typer.Option(12, "--count", min=1, help="The number of scenes."),
    first: int = typer.Option(0, "--first", min=0, help="The number of the first scene."),
    seed: int = typer.Option(0, "--seed", min=0, help="Seed of the scenes."),
    split: str = typer.Option("test", "--split", help="Object pictures to use: train, valid or test."),
    digits: Path = typer.Option(
        None, "--digits", help="Folder of MNIST's idx files.", show_default="8×8 digits of scikit-learn"
    ),
    garments: Path = typer.Option(None, "--garments", help="Folder of Fashion-MNIST's idx files."),
    words: str = typer.Option(None, "--words", help="Objects of the scenes, such as seven,bag."),
    language: str = typer.Option("en", "--language", help="Language of the captions: en or zh."),
    size: int = typer.Option(64, "--size", help="Side of the pictures in pixels."),
) -> None:
    """Write scenes of two to four objects as pictures, with their captions and the places of the objects."""
    from regard.errors import UnknownNameError
    from regard.images.scene_captions import LANGUAGES, checked_words
    from regard.images.scene_files import write_scenes
    from regard.images.scene_objects import ObjectPictures
    from regard.images.scenes import Scenes

    if language not in LANGUAGES:
        raise UnknownNameError("language", language, LANGUAGES)
    pictures = ObjectPictures.read(digits, garments, split=split, words=checked_words(words))
    composed = Scenes(pictures, seed=seed, size=size)
    with renamed(folder="out"):
        write_scenes(composed, out, count, first=first, language=language)
    typer.echo(f"{count:,} scenes are in {out}, with their captions in {out / 'captions.tsv'}")
