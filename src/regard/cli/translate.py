"""``regard translate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from regard.cli import streams
from regard.cli.cut_results import CutResults
from regard.cli.language_notice import LanguageNotice
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
    beams: int = streams.BEAMS,
    length_penalty: float = streams.LENGTH_PENALTY,
    coverage_penalty: float = streams.COVERAGE_PENALTY,
    no_repeat: int = typer.Option(
        None,
        "--no-repeat",
        help="No sequence of this number of tokens is repeated more than one in the source. 0 allows all.",
        show_default="8",
    ),
    batch_size: int = streams.BATCH_SIZE,
    n_best: int = streams.N_BEST,
    min_length: int = streams.MIN_LENGTH,
    max_length: int = typer.Option(
        None,
        "--max-length",
        help="The largest number of tokens of a translation.",
        show_default="1.5 times the source + 10",
    ),
    sample: bool = typer.Option(
        False, "--sample", help="Draw words by their probability instead of searching."
    ),
    temperature: float = typer.Option(
        None,
        "--temperature",
        help="Temperature of sampling. A lower one prefers likely words.",
        show_default="1",
    ),
    top_k: int = typer.Option(
        None, "--top-k", help="Sample from this number of likeliest words.", show_default="all"
    ),
    top_p: float = typer.Option(
        None,
        "--top-p",
        help="Sample from the likeliest words whose probabilities sum to this.",
        show_default="1",
    ),
    min_p: float = typer.Option(
        None,
        "--min-p",
        help="Leave out words below this share of the probability of the likeliest.",
        show_default="0",
    ),
    seed: int = typer.Option(None, "--seed", help="Seed of sampling.", show_default="0"),
    normalize: bool = typer.Option(
        True,
        "--normalize/--no-normalize",
        help="Split sentences, and normalise spaces, quotes, capitals and final marks.",
    ),
    attention: bool = streams.ATTENTION,
    save_attention: Path = streams.SAVE_ATTENTION,
    look: bool = streams.LOOK,
    device: str = streams.DEVICE,
    as_json: bool = streams.AS_JSON,
) -> None:
    """Print the translation of each sentence."""
    search = {"beams": beams, "length_penalty": length_penalty, "coverage_penalty": coverage_penalty}
    draws = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p, "seed": seed}
    common = {"n_best": n_best, "min_length": min_length, "max_length": max_length, "no_repeat": no_repeat}
    options = _decoding_options(sample, search, draws, common)
    title = "Attention of each word of the translation (rows) to the source (columns)"
    output = streams.Output(as_json, n_best > 1, attention, save_attention, look, title)
    chunks = streams.input_chunks(text, file, verb="translate", batch_size=batch_size)

    notice = LanguageNotice("translates from")
    cut = CutResults("translation")

    def predict(translator: Any, texts: list[str], first: int) -> list[Any]:
        notice.check(texts, translator.source_language, first)
        found = translator.translate(texts, options, first=first, batch_size=batch_size, normalize=normalize)
        # A translation without end that reaches the default length would not become better with more.
        ended = [max_length is None or not one.cut_off for one in found]
        return cut.count(found, ended, f"--max-length {max_length}")

    places: dict[str, Any] = {
        "model": model,
        "device": device,
        "batch_size": batch_size,
        "out": out,
        "read": file,
    }
    languages: dict[str, Any] = {"source_language": source_language, "target_language": target_language}
    streams.predict_texts("translate", predict, chunks, output, **places, **languages)
    cut.report()


def _decoding_options(
    sample: bool, search: dict[str, Any], draws: dict[str, Any], common: dict[str, Any]
) -> DecodingOptions:
    """Return the decoding options, or raise ArgumentError for options that have no effect."""
    from regard.decoding import DecodingOptions

    fix = f"leave out {option('sample', True)}" if sample else f"add {option('sample', True)}"
    for name, value in (search if sample else draws).items():
        if value is not None:
            raise ArgumentError(name, "of no use " + ("in sampling" if sample else "without sampling"), fix)
    if not sample:
        return DecodingOptions(**common, **streams.beam_search(common["n_best"], **search))
    given = {name: value for name, value in draws.items() if value is not None}
    return DecodingOptions(sample=True, **common, **given)
