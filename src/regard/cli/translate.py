"""``regard translate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from regard.cli import streams
from regard.errors import ArgumentError, option

if TYPE_CHECKING:
    from regard.decoding import DecodingOptions

__all__ = ["translate"]


def translate(
    text: list[str] = streams.TEXTS,
    target_language: str = typer.Option(None, "--to", help="Language to translate to.", show_default="fr"),
    source_language: str = typer.Option(
        None, "--from", help="Language to translate from.", show_default="en"
    ),
    model: str = typer.Option(None, "--model", help="A model's name or folder instead of languages."),
    file: Path = streams.FILE,
    out: Path = streams.OUT,
    beams: int = typer.Option(
        None, "--beams", help="Hypotheses searched at a time; 1 is fastest.", show_default="5"
    ),
    length_penalty: float = typer.Option(
        None, "--length-penalty", help="Above 1: long translations; below: short.", show_default="1"
    ),
    coverage_penalty: float = typer.Option(
        None, "--coverage-penalty", help="Penalty of unattended source words.", show_default="0"
    ),
    batch_size: int = typer.Option(
        None,
        "--batch-size",
        min=1,
        help="Sentences translated together; fewer take less memory.",
        show_default="as many as have 3000 tokens",
    ),
    n_best: int = typer.Option(
        1, "--n-best", help="How many translations of each sentence, each with its score."
    ),
    min_length: int = typer.Option(0, "--min-length", help="Tokens of a translation, at least."),
    max_length: int = typer.Option(
        None,
        "--max-length",
        help="Tokens of a translation, at most.",
        show_default="1.5 times the source + 10",
    ),
    sample: bool = typer.Option(
        False, "--sample", help="Draw words by their probability instead of searching."
    ),
    temperature: float = typer.Option(
        None, "--temperature", help="Of sampling: below 1 is safer, above 1 bolder.", show_default="1"
    ),
    top_k: int = typer.Option(
        None, "--top-k", help="Sample from the likeliest words only.", show_default="all"
    ),
    top_p: float = typer.Option(
        None, "--top-p", help="Sample from the words that make up this share.", show_default="1"
    ),
    seed: int = typer.Option(None, "--seed", help="Of sampling.", show_default="0"),
    attention: bool = streams.ATTENTION,
    save_attention: Path = streams.SAVE_ATTENTION,
    look: bool = streams.LOOK,
    device: str = streams.DEVICE,
    as_json: bool = streams.AS_JSON,
) -> None:
    """Translate sentences, a file, or lines from a pipe."""
    search = {"beams": beams, "length_penalty": length_penalty, "coverage_penalty": coverage_penalty}
    draws = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    common = {"n_best": n_best, "min_length": min_length, "max_length": max_length}
    options = _decoding_options(sample, search, draws, common)
    title = "Attention of each word of the translation (rows) to the source (columns)"
    output = streams.Output(as_json, n_best > 1, attention, save_attention, look, title)
    chunks = streams.input_chunks(text, file, verb="translate", batch_size=batch_size)

    def predict(translator: Any, texts: list[str], first: int) -> list[Any]:
        return translator.translate(texts, options, first=first, batch_size=batch_size)

    places: dict[str, Any] = {"model": model, "device": device, "out": out, "read": file}
    languages: dict[str, Any] = {"source_language": source_language, "target_language": target_language}
    streams.predict_texts("translate", predict, chunks, output, **places, **languages)


def _decoding_options(
    sample: bool, search: dict[str, Any], draws: dict[str, Any], common: dict[str, Any]
) -> DecodingOptions:
    """Return the decoding options, or raise ArgumentError for options that have no effect."""
    from regard.decoding import DecodingOptions

    fix = f"leave out {option('sample', True)}" if sample else f"add {option('sample', True)}"
    for name, value in (search if sample else draws).items():
        if value is not None:
            raise ArgumentError(name, "of no use " + ("in sampling" if sample else "without sampling"), fix)
    given = {name: value for name, value in (draws if sample else search).items() if value is not None}
    if not sample and "beams" not in given:
        given["beams"] = max(5, common["n_best"])
    return DecodingOptions(sample=sample, **common, **given)
