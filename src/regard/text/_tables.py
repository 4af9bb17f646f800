"""Rows of CSV and Parquet files, and a guess at which of their fields hold the two languages."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Sequence
from typing import Any

from regard.errors import FileError, MissingExtraError
from regard.text._lines import LONGEST, Line, name_of

__all__ = ["csv_rows", "field_paths", "guess_fields", "parquet_rows"]

_ROWS = 1024  # of a Parquet file that are read at a time
_NAMES = {
    "ar": "arabic",
    "cs": "czech",
    "de": "german",
    "en": "english",
    "es": "spanish",
    "fr": "french",
    "it": "italian",
    "ja": "japanese",
    "ko": "korean",
    "nl": "dutch",
    "pl": "polish",
    "pt": "portuguese",
    "ru": "russian",
    "zh": "chinese",
}
_SIDES = (("source", "target"), ("src", "tgt"), ("src", "trg"))


def csv_rows(lines: Iterator[Line], name: str) -> Iterator[tuple[str, list[str]]]:
    """The cells of each row of a CSV file, with its place for messages; empty rows are left out.

    Cells are separated by commas, or by semicolons where the first line has no comma. A cell in quotes may hold line
    ends.
    """
    first = next(lines, None)
    if first is None:
        return
    at = [first.number]
    separator = ";" if "," not in (first.text or "") and ";" in (first.text or "") else ","
    rows = csv.reader(_with_ends(first, lines, at), delimiter=separator, strict=True)
    while True:
        try:
            cells = next(rows, None)
        except csv.Error as error:
            place = f"{name}, line {at[0]}"
            raise FileError(f"{place}: not CSV: {error}: is a quote not closed, or not doubled?") from None
        if cells is None:
            return
        if cells:
            yield f"{name}, line {at[0]}", cells


def _with_ends(first: Line, lines: Iterator[Line], at: list[int]) -> Iterator[str]:
    """The lines as the csv module takes them; ``at`` holds the number of the last."""
    line: Line | None = first
    while line is not None:
        if line.text is None:
            raise FileError(f"{line.place}: longer than {LONGEST:,} bytes: is it CSV, with line ends?")
        at[0] = line.number
        yield line.text + "\n"
        line = next(lines, None)


def parquet_rows(path: str | os.PathLike) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each row of a Parquet file as a dict, with its place for messages; some rows in memory at a time."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError("pyarrow", "hf", f"reading {name_of(path)}") from error
    number = 0
    try:
        with pyarrow.parquet.ParquetFile(os.fspath(path)) as file:
            for batch in file.iter_batches(batch_size=_ROWS):
                for row in batch.to_pylist():
                    number += 1
                    yield f"{name_of(path)}, row {number}", row
    except (pyarrow.ArrowException, OSError) as error:
        raise FileError(f"source: {name_of(path)} is not a Parquet file, or is damaged: {error}") from error


def field_paths(value: Any, above: str = "") -> Iterator[str]:
    """The names of all fields of an object, with dots for those within others."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if isinstance(inner, dict):
                yield from field_paths(inner, f"{above}{name}.")
            else:
                yield f"{above}{name}"


def guess_fields(names: Sequence[str], languages: tuple[str, str] | None) -> tuple[str, str] | None:
    """Which two fields hold source and target; None where nothing says so, or where more than two could.

    >>> guess_fields(["id", "translation.en", "translation.fr"], ("en", "fr"))
    ('translation.en', 'translation.fr')
    >>> guess_fields(["target", "source"], ("de", "en"))
    ('source', 'target')
    >>> guess_fields(["first", "second"], ("de", "en")) is None
    True
    """
    wanted: list[tuple[str, str]] = list(_SIDES)
    if languages is not None:
        first, second = (language.lower() for language in languages)
        wanted = [(first, second), (_NAMES.get(first, first), _NAMES.get(second, second)), *wanted]
    for pair in wanted:
        found = [_matching(names, side) for side in pair]
        if all(len(one) == 1 for one in found) and found[0] != found[1]:
            return found[0][0], found[1][0]
    return None


def _matching(names: Sequence[str], wanted: str) -> list[str]:
    """The fields of a name, whatever their case; those of a region (``en-GB``, ``en_XX``) where there are none."""
    last = {name: name.rpartition(".")[2].lower().replace("_", "-") for name in names}
    same = [name for name, short in last.items() if short == wanted]
    return same or [name for name, short in last.items() if short.partition("-")[0] == wanted]
