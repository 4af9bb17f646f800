"""Rows of CSV and Parquet files, and a guess at which of their fields hold the two languages."""

from __future__ import annotations

import csv
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from regard.errors import FileError, MissingExtraError, option
from regard.text.lines import LONGEST, Line, name_of

__all__ = [
    "DEFAULT_COLUMNS",
    "Row",
    "csv_cells",
    "csv_rows",
    "field_paths",
    "guess_fields",
    "named_places",
    "parquet_rows",
    "warn_of_header",
]

DEFAULT_COLUMNS = (0, 1)
Row = tuple[str, str | None, str | None]  # where it stands, and the two texts; None for one too long to read


# Snake case, an index or a language after a word: the names of columns, but hardly ever data.
_COLUMN_NAME = re.compile(
    r"[A-Za-z]+(?:[_.][A-Za-z0-9]+)+|id|idx|index|label|labels|class|text|sentence|source|target"
)
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
    """Read the cells of each row of a CSV file that is not empty, with its place for messages.

    Cells are separated by commas, or by semicolons where the first line has no comma or only semicolons cut it into
    two. A cell in quotes may hold line ends.
    """
    first = next(lines, None)
    if first is None:
        return
    at = [first.number]
    separator = _separator(first.text or "")
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


def _separator(line: str) -> str:
    """Choose between comma and semicolon by the first line of a CSV file.

    >>> _separator("Hello, you;Bonjour, toi")
    ';'
    """
    commas, semicolons = (len(next(csv.reader([line], delimiter=sign), [])) for sign in ",;")
    return ";" if semicolons > 1 and (commas == 1 or (semicolons == 2 != commas)) else ","


def _with_ends(first: Line, lines: Iterator[Line], at: list[int]) -> Iterator[str]:
    """Give lines as the csv module takes them, and keep the number of the last one in ``at``."""
    line: Line | None = first
    while line is not None:
        if line.text is None:
            raise FileError(f"{line.place}: longer than {LONGEST:,} bytes: is it CSV, with line ends?")
        at[0] = line.number
        yield line.text + "\n"
        line = next(lines, None)


def csv_cells(
    rows: Iterator[tuple[str, list[str]]],
    columns: tuple[int, int] | tuple[str, str],
    languages: tuple[str, str] | None,
    fields: Sequence[tuple[str, str]] = (),
) -> Iterator[Row]:
    """Pick two columns of a CSV file, and leave out its first row where that names the columns."""
    places: tuple[int, int] | None = None
    width = 0
    for place, cells in rows:
        if places is None:
            width = len(cells)
            names: tuple[Any, Any] | None = columns
            if not isinstance(columns[0], str):
                names = guess_fields(cells, languages, fields) if columns == DEFAULT_COLUMNS else None
                places = (int(columns[0]), int(columns[1]))
            if names is not None:
                places = named_places(cells, names, place)
                continue
            if columns == DEFAULT_COLUMNS:
                warn_of_header(cells, place)
        assert places is not None
        if len(cells) > width:
            raise FileError(
                f"{place}: the row has {len(cells)} cells, the first row has {width}: "
                "put quotes around a text that holds the separator"
            )
        if max(places) >= len(cells):
            raise FileError(
                f"{place}: there is no column {max(places)}: the row has {len(cells)} of them, counted from 0: "
                f"check {option('columns')}, or the row"
            )
        yield place, cells[places[0]], cells[places[1]]


def warn_of_header(cells: Sequence[str], place: str) -> None:
    """Warn if the first row of a table, which is read as data, looks like the names of its columns."""
    if len(cells) > 1 and all(_COLUMN_NAME.fullmatch(cell.strip()) for cell in cells):
        names = ", ".join(cells)
        warnings.warn(
            f"{place}: the first row is read as data: {names}. If these are names of columns, give two of them as "
            f"columns, such as {cells[0].strip()},{cells[1].strip()}",
            stacklevel=2,
        )


def named_places(cells: list[str], columns: tuple[Any, Any], place: str) -> tuple[int, int]:
    """Find two columns by their names in the first row of a table."""
    for name in columns:
        if name not in cells:
            raise FileError(f"{place}: there is no column {name!r}: its columns are {', '.join(cells)}")
    return cells.index(columns[0]), cells.index(columns[1])


def parquet_rows(path: str | os.PathLike) -> Iterator[tuple[str, dict[str, Any]]]:
    """Read each row of a Parquet file as a dict, with its place for messages, a few rows at a time."""
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
        raise FileError(
            f"{name_of(path)} is not a Parquet file, or is damaged: {error}", argument="source"
        ) from error


def field_paths(value: Any, above: str = "") -> Iterator[str]:
    """The names of all fields of an object, with dots for those within others."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if isinstance(inner, dict):
                yield from field_paths(inner, f"{above}{name}.")
            else:
                yield f"{above}{name}"


def guess_fields(
    names: Sequence[str], languages: tuple[str, str] | None, fields: Sequence[tuple[str, str]] = ()
) -> tuple[str, str] | None:
    """Find the two fields that hold source and target, or None where no two fields or more than two fit.

    >>> guess_fields(["id", "translation.en", "translation.fr"], ("en", "fr"))
    ('translation.en', 'translation.fr')
    >>> guess_fields(["target", "source"], ("de", "en"))
    ('source', 'target')
    >>> guess_fields(["first", "second"], ("de", "en")) is None
    True
    """
    wanted: list[tuple[str, str]] = list(fields or _SIDES)
    if languages is not None:
        first, second = (language.lower() for language in languages)
        wanted = [(first, second), (_NAMES.get(first, first), _NAMES.get(second, second)), *wanted]
    for pair in wanted:
        found = [_matching(names, side) for side in pair]
        if all(len(one) == 1 for one in found) and found[0] != found[1]:
            return found[0][0], found[1][0]
    return None


def _matching(names: Sequence[str], wanted: str) -> list[str]:
    """The fields of a name in any case, or of its regions (``en-GB``, ``en_XX``) where there are none."""
    last = {name: name.rpartition(".")[2].lower().replace("_", "-") for name in names}
    same = [name for name, short in last.items() if short == wanted]
    return same or [name for name, short in last.items() if short.partition("-")[0] == wanted]
