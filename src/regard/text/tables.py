"""Rows of TSV, CSV and Parquet files, and a guess at which of their fields hold the two languages."""

from __future__ import annotations

import csv
import itertools
import os
from collections import deque
from collections.abc import Container, Iterator, Sequence
from typing import Any

from regard.errors import ArgumentError, FileError, MissingExtraError, option
from regard.text.bad_rows import BadRows
from regard.text.headers import Row, joined_columns, without_header
from regard.text.lines import LONGEST, Line, name_of

__all__ = [
    "DEFAULT_COLUMNS",
    "Columns",
    "csv_rows",
    "field_paths",
    "guess_fields",
    "parquet_rows",
    "table_cells",
    "tsv_rows",
    "unknown_columns",
]

# Two columns by their numbers or names, or None if they are not given.
Columns = tuple[int, int] | tuple[str, str] | None
DEFAULT_COLUMNS = (0, 1)
# The most columns that an error lists.
_SHOWN = 20
# Rows of a Parquet file that are read at a time.
_ROWS = 1024
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
# Names of two sides of a translation, and of texts with their summaries.
_SIDES = (
    *(("source", "target"), ("src", "tgt"), ("src", "trg")),
    *(("text", "summary"), ("document", "summary"), ("dialogue", "summary"), ("article", "summary")),
    *(("article", "highlights"), ("article", "abstract"), ("abstract", "title"), ("text", "title")),
)


def csv_rows(lines: Iterator[Line], name: str, bad: BadRows) -> Iterator[tuple[str, list[str]]]:
    """Yield the place and the cells of each row of a CSV file, without empty lines.

    ``name`` is the name of the file, for the places. The first line decides whether commas or semicolons separate the
    cells. Semicolons do if they give several cells and commas one, or if only semicolons give exactly two. A cell in
    quotes may hold line ends. A row that is not CSV, such as one with a quote that is not closed, is added to ``bad``.
    So is a line that cannot be decoded or is too long. Reading then goes on with the line after the first line of that
    row.
    """
    source = _CsvLines(lines)
    rows = csv.reader(source, delimiter=_separator(source.peek()), strict=True)
    while True:
        source.start_row()
        try:
            cells = next(rows, None)
        except csv.Error as error:
            line, last = source.restart(), source.last
            until = f" up to line {last}" if last != line else ""
            bad.add(f"{name}, line {line}", f"not CSV{until}: {error}{source.advice}")
            continue
        if cells is None:
            return
        if cells:
            yield f"{name}, line {source.first}", cells


class _CsvLines:
    """An iterator over the lines of a CSV file, for the csv module, which can go back to the lines of a broken row."""

    def __init__(self, lines: Iterator[Line]):
        self._lines = lines
        self._again: deque[Line] = deque()
        self._row: list[Line] = []

    def __iter__(self) -> _CsvLines:
        return self

    def __next__(self) -> str:
        line = self._again.popleft() if self._again else next(self._lines)
        self._row.append(line)
        if line.text is None:
            raise csv.Error(line.problem or f"longer than {LONGEST:,} bytes")
        return line.text + "\n"

    def peek(self) -> str:
        """Return the first line that can be decoded, or an empty text, without taking it from the iterator."""
        for line in self._lines:
            self._again.append(line)
            if line.text is not None:
                return line.text
        return ""

    def start_row(self) -> None:
        """Start a new row with the next line."""
        self._row = []

    @property
    def first(self) -> int:
        """The number of the line in which the row begins."""
        return self._row[0].number

    @property
    def last(self) -> int:
        """The number of the line that was read last for the row."""
        return self._row[-1].number

    @property
    def advice(self) -> str:
        """A hint at what may be wrong with a row that is not CSV."""
        return "" if self._row[-1].problem else ": is a quote not closed, or not doubled?"

    def restart(self) -> int:
        """Return the number of the first line of the row, and put the other lines of the row back.

        The iterator returns these lines again before any new line.
        """
        self._again.extendleft(reversed(self._row[1:]))
        return self.first


def _separator(line: str) -> str:
    """Choose between comma and semicolon by the first line of a CSV file.

    >>> _separator("Hello, you;Bonjour, toi")
    ';'
    """
    commas, semicolons = (len(next(csv.reader([line], delimiter=sign), [])) for sign in ",;")
    return ";" if semicolons > 1 and (commas == 1 or (semicolons == 2 != commas)) else ","


def tsv_rows(lines: Iterator[Line], bad: BadRows) -> Iterator[tuple[str, list[str] | None]]:
    """Yield the place and the cells of each line of a TSV file, None for a line that is too long.

    Lines that cannot be decoded are added to ``bad``.
    """
    for line in lines:
        if line.problem:
            bad.add(line.place, line.problem)
        else:
            yield line.place, None if line.text is None else line.text.split("\t")


def table_cells(
    rows: Iterator[tuple[str, list[str] | None]],
    columns: Columns,
    languages: tuple[str, str] | None,
    fields: Sequence[tuple[str, str]],
    labels: Container[str],
    bad: BadRows,
    *,
    tabs: bool,
) -> Iterator[Row]:
    """Yield the place and two cells of each row of a table, without a first row that names the columns.

    ``columns`` are numbers or names. If they are None or the first two numbers, the columns are those that
    :func:`guess_fields` finds in the first row for ``languages`` and ``fields``. Otherwise a table has two columns, or
    the numbers have to be given. ``labels`` are those of :func:`~regard.text.headers.without_header`. Rows without
    these columns are added to ``bad``, and so are rows with more cells than the first row unless they are separated by
    ``tabs``.
    """
    first = next(rows, None)
    if first is None:
        return
    place, cells = first[0], [cell.strip() for cell in first[1] or []]
    names: tuple[Any, Any] | None = columns if columns and isinstance(columns[0], str) else None
    if columns is None or columns == DEFAULT_COLUMNS:
        names = guess_fields(cells, languages, fields)
    if names is not None:
        places, width = _named_places(cells, names, place, bad), 0 if tabs else len(cells)
        bad.skipped.columns = [f'column "{name}"' for name in names]
        yield from _cells(rows, places, width, bad, tabs=tabs)
        return
    if columns is None and len(cells) > 2 and any(cells[2:]):
        raise unknown_columns(f"{place} has {len(cells)} columns", cells, numbered=True)
    first_two = columns or DEFAULT_COLUMNS
    places = (int(first_two[0]), int(first_two[1]))
    bad.skipped.columns = [f"column {number}" for number in places]
    found = _cells(itertools.chain([first], rows), places, 0, bad, tabs=tabs)
    yield from without_header(found, labelled=bool(fields), labels=labels, skipped=bad.skipped)


def _cells(
    rows: Iterator[tuple[str, list[str] | None]],
    places: tuple[int, int],
    width: int,
    bad: BadRows,
    *,
    tabs: bool,
) -> Iterator[Row]:
    """Yield the place of each row and its cells at two ``places``, None for a row that is too long to read.

    ``width`` is the largest number of cells of a row without ``tabs``. With 0 it is that of the first row that has both
    places. Other rows are added to ``bad``.
    """
    for place, cells in rows:
        if cells is None:
            yield place, None, None
        elif max(places) >= len(cells):
            if not any(cell.strip() for cell in cells):
                yield place, "", ""
                continue
            counting = f"counted from 0{' and separated by tabs' if tabs else ''}"
            problem = f"there is no column {max(places)}: the row has {len(cells)} of them, {counting}"
            bad.add(place, problem, f"check {option('columns')}, or the row")
        elif width and len(cells) > width:
            problem = f"the row has {len(cells)} cells, the first row has {width}"
            bad.add(place, problem, "put quotes around a text that holds the separator")
        else:
            width = 0 if tabs else width or len(cells)
            yield place, cells[places[0]], cells[places[1]]


def _named_places(cells: list[str], columns: tuple[Any, Any], place: str, bad: BadRows) -> tuple[int, int]:
    """Return the numbers of two columns by their names in the first row of a table, or raise FileError."""
    for name in columns:
        if name not in cells:
            bad.check()  # a first line that cannot be read is not the row of names
            raise FileError(f"{place}: there is no column {name!r}: its columns are {', '.join(cells)}")
    return cells.index(columns[0]), cells.index(columns[1])


def unknown_columns(found: str, names: Sequence[str], *, numbered: bool = False) -> ArgumentError:
    """Return the error for a table or an object whose columns are not given and have no known names.

    ``found`` says where the ``names`` are, and ``numbered`` that columns may be named by their numbers.
    """
    shown = [f"{number} {name!r:.40}" if numbered else name for number, name in enumerate(names)]
    listed = ", ".join(shown[:_SHOWN]) + ", …" * (len(shown) > _SHOWN)
    by_name = option("columns", joined_columns(names[:2]))
    examples = f"{option('columns', '0,1')} or {by_name}" if numbered else by_name
    fix = f"name two of them, as in {examples}" if len(names) > 1 else "expected two"
    return ArgumentError("columns", f"not given, and {found} without known names: {listed}", fix)


def parquet_rows(path: str | os.PathLike) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the place and the fields of each row of a Parquet file, which is read 1024 rows at a time.

    Raises FileError if it cannot be read, and MissingExtraError without ``pyarrow``.
    """
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
    """Yield the names of all fields of an object, where a nested field is written with dots (``translation.en``).

    ``above`` is put before each name. A value that is not a dict has no fields.
    """
    if isinstance(value, dict):
        for name, inner in value.items():
            if isinstance(inner, dict):
                yield from field_paths(inner, f"{above}{name}.")
            else:
                yield f"{above}{name}"


def guess_fields(
    names: Sequence[str], languages: tuple[str, str] | None, fields: Sequence[tuple[str, str]] = ()
) -> tuple[str, str] | None:
    """Return the names of the two fields that hold source and target, or None if they cannot be told.

    The pairs that are tried are the codes of the ``languages``, their English names, and then ``fields``, by default
    ``source`` and ``target``, or those of a text and its summary. The first pair of which each
    name fits exactly one of ``names`` is taken.

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
    """Return the fields whose last part is ``wanted`` in any case.

    If there is none, return those of its regional variants (``en-GB``, ``en_XX``).
    """
    last = {name: name.rpartition(".")[2].strip().lower().replace("_", "-") for name in names}
    same = [name for name, short in last.items() if short == wanted]
    return same or [name for name, short in last.items() if short.partition("-")[0] == wanted]
