"""``regard summarize``."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import typer

from regard.cli import streams
from regard.cli.cut_results import CutResults
from regard.cli.environment import ClosedStream, say
from regard.cli.language_notice import LanguageNotice
from regard.errors import ArgumentError, FileError, renamed

__all__ = ["summarize"]

# One word that ends like the name of a file, or has the folders of a path.
_LIKE_A_FILE = re.compile(r"\S*\.[A-Za-z]{1,4}(\.gz)?|\.{0,2}/\S+|\S+/\S+/\S+")


def summarize(
    text: list[str] = typer.Argument(
        None,
        help="Texts, or files that hold one text each. Without them, a text is read from a pipe.",
        show_default=False,
    ),
    model: str = streams.MODEL,
    file: Path = streams.FILE,
    out: Path = streams.OUT,
    beams: int = streams.BEAMS,
    length_penalty: float = streams.LENGTH_PENALTY,
    coverage_penalty: float = streams.COVERAGE_PENALTY,
    no_repeat: int = typer.Option(
        None,
        "--no-repeat",
        help="No sequence of this number of tokens is written twice. 0 allows all.",
        show_default="3",
    ),
    n_best: int = streams.N_BEST,
    min_length: int = streams.MIN_LENGTH,
    max_length: int = typer.Option(
        None,
        "--max-length",
        help="The largest number of tokens of a summary.",
        show_default="that of the training",
    ),
    batch_size: int = streams.BATCH_SIZE,
    attention: bool = streams.ATTENTION,
    save_attention: Path = streams.SAVE_ATTENTION,
    look: bool = streams.LOOK,
    device: str = streams.DEVICE,
    as_json: bool = streams.AS_JSON,
) -> None:
    """Print a summary of each text, such as the title of an abstract."""
    from regard.decoding import DecodingOptions

    penalties = {"length_penalty": length_penalty, "coverage_penalty": coverage_penalty}
    search = streams.beam_search(n_best, beams, max_length=max_length, **penalties)
    options = DecodingOptions(n_best=n_best, min_length=min_length, no_repeat=no_repeat, **search)
    title = "Attention of the summary to each word of the text"
    output = streams.Output(as_json, n_best > 1, attention, save_attention, look, title)
    chunks = _input_texts(text, file, batch_size)
    long_texts, cut = streams.LongTexts(), CutResults("summary", "summaries")
    far: list[Any] = []
    notice = LanguageNotice("was trained on texts in")

    def predict(summarizer: Any, texts: list[str], first: int) -> list[Any]:
        problem = f"texts have more than {summarizer.encoder.most} tokens: their end was not read"
        notice.check(texts, summarizer.language, first)
        found = summarizer.summarize(texts, options, first=first, batch_size=batch_size)
        far.extend(one.far for one in found if one.source.strip())
        limit = f"{summarizer.longest_summary} tokens: allow more with --max-length"
        limit = limit if max_length is None else f"--max-length {max_length}"
        cut.count(found, [one.ended for one in found], limit)
        return long_texts.count(found, problem)

    places: dict[str, Any] = {
        "model": model,
        "device": device,
        "batch_size": batch_size,
        "out": out,
        "read": file,
    }
    streams.predict_texts("summarize", predict, chunks, output, **places)
    long_texts.report()
    if not notice.is_said:  # a text in another language is unlike those of the training too
        _report_far(far)
    cut.report()


def _report_far(far: list[bool | None]) -> None:
    """Say on standard error how many texts are unlike those that the model was trained on."""
    if not any(far):
        return
    which = "the text is" if len(far) == 1 else f"{sum(map(bool, far)):,} of {len(far):,} texts are"
    what = "its summary" if len(far) == 1 else "their summaries"
    say(f"{which} unlike those that the model was trained on: {what} may be wrong")


def _input_texts(texts: list[str] | None, file: Path | None, batch_size: int | None) -> Iterable[list[str]]:
    """Return the texts of the line and of the files that it names, one text of a pipe, or the lines of ``file``."""
    if file is not None or (not texts and (isinstance(sys.stdin, ClosedStream) or sys.stdin.isatty())):
        return streams.input_chunks(texts, file, verb="summarize", batch_size=batch_size)
    return [[_whole(text) for text in texts or ["-"]]]


def _whole(text: str) -> str:
    """Return a text of the command line, or the text of the file that it names or of standard input (``-``)."""
    from regard.text.lines import check_readable, whole_text

    source = text
    if text == "-" or streams.is_file(text):
        with renamed(path="text"):
            source = whole_text("path", text)
    elif _LIKE_A_FILE.fullmatch(text):
        with renamed(path="text"):
            check_readable("path", text)
    # An argument that is not UTF-8 raises UnicodeEncodeError, which the command line explains.
    source.encode()
    if "\0" in source:
        raise FileError(f"{text:.60} holds a null character: is it a text file in UTF-8?", argument="text")
    if not source.strip():
        if source is text:
            raise ArgumentError("text", "is empty")
        raise FileError(f"{_name(text)} is empty", argument="text")
    return source


def _name(text: str) -> str:
    return "standard input" if text == "-" else text
