"""Reads texts and pairs of texts from files, one at a time.

>>> import pathlib, tempfile
>>> path = pathlib.Path(tempfile.mkdtemp(), "words.tsv")
>>> _ = path.write_text("cat\\tchat\\ndog\\tchien\\n\\tvide\\n", encoding="utf-8")
>>> skipped = Skipped()
>>> list(read_pairs(path, skipped=skipped))
[('cat', 'chat'), ('dog', 'chien')]
>>> print(skipped)
1 with an empty side (the first: .../words.tsv, line 3)
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import PurePath
from typing import Any

from regard.errors import ArgumentError, FileError, UnknownNameError, option
from regard.text.huggingface_datasets import rows_of
from regard.text.lines import LONGEST, Line, check_readable, lines_of, name_of
from regard.text.pair_hashes import Hashes, hash_of
from regard.text.tables import (
    DEFAULT_COLUMNS,
    Row,
    csv_cells,
    csv_rows,
    field_paths,
    guess_fields,
    named_places,
    parquet_rows,
    warn_of_header,
)
from regard.text.words_and_characters import HAN_RANGES

__all__ = ["Skipped", "count_words", "deduplicate", "read_lines", "read_pairs"]

_FORMATS = {
    ".tsv": "tsv",
    ".tab": "tsv",
    ".txt": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
}


CHARACTERS_A_WORD = 20  # of a text of as many words as are allowed: a single word may have no end


@dataclass
class Skipped:
    """Counts what was left out, and why."""

    empty: int = 0
    too_long: int = 0
    duplicates: int = 0
    held_out: int = 0  # for validation or tests
    first: dict[str, str] = field(default_factory=dict)  # reason: where it was first met

    @property
    def total(self) -> int:
        """All that was left out."""
        return self.empty + self.too_long + self.duplicates + self.held_out

    def count(self, reason: str, place: str) -> None:
        """One more, by the name of its counter."""
        setattr(self, reason, getattr(self, reason) + 1)
        self.first.setdefault(reason, place)

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        words = {"empty": "with an empty side", "too_long": "too long", "duplicates": "seen before"}
        words["held_out"] = "held out to validate or test"
        parts = []
        for reason, what in words.items():
            if number := getattr(self, reason):
                place = f" (the first: {self.first[reason]})" if reason in self.first else ""
                parts.append(f"{number:,} {what}{place}")
        return ", ".join(parts) or "none"


def read_pairs(
    source: str | os.PathLike,
    target: str | os.PathLike | None = None,
    *,
    columns: Sequence[int] | Sequence[str] = DEFAULT_COLUMNS,
    format: str | None = None,
    split: str = "train",
    config: str | None = None,
    max_words: int | None = 1000,
    languages: tuple[str, str] | None = None,
    fields: Sequence[tuple[str, str]] = (),
    skipped: Skipped | None = None,
) -> Iterator[tuple[str, str]]:
    """Pairs of texts from a file, two files, standard input (``-``) or a Hugging Face data set (``hf:…``).

    - ``tsv`` and ``csv``: ``columns`` are numbers from 0, or names that stand in the first line;
    - ``jsonl``, an object a line: ``columns`` are fields, with dots for those within others (``translation.en``);
    - ``parquet``: ``columns`` are fields (needs ``pyarrow``);
    - with a ``target``, two files with a text a line, line by line;
    - ``hf:name`` or ``hf:/path``: a data set by name, a folder or a file; ``columns`` are fields.

    Where fields have names and ``columns`` is not given, they are those of the two ``languages`` (``en``,
    ``translation.en``, ``english``), or ``source`` and ``target``, or the first pair of ``fields`` that is there. With
    ``fields``, numbers are read as text.

    The format is known by the name of the file (``.tsv``, ``.csv``, ``.jsonl``, each also with ``.gz``, ``.parquet``)
    or given as ``format``. Pairs with an empty side, or with a side of more than ``max_words`` words (or of more than
    20 characters for each of so many words), are left out and counted in ``skipped``. A file without a single pair is
    an error; that two files are of different length shows at their end.
    """
    skipped = skipped if skipped is not None else Skipped()
    columns = _checked_columns(columns)
    kind = _format_of(source, target, format)
    if kind == "hf":
        rows = _picked(rows_of(os.fspath(source)[3:], split=split, config=config), columns, languages, fields)
    else:
        check_readable("source", source)
        if target is not None:
            check_readable("target", target)
            rows = _aligned(source, target)
        elif kind == "tsv":
            rows = _cells(lines_of("source", source), columns, fields)
        elif kind == "csv":
            rows = csv_cells(
                csv_rows(lines_of("source", source), name_of(source)), columns, languages, fields
            )
        elif kind == "parquet":
            rows = _picked(parquet_rows(source), columns, languages, fields)
        else:
            rows = _picked(_objects(lines_of("source", source)), columns, languages, fields)
    return _filtered(rows, name_of(source), max_words, skipped)


def read_lines(
    path: str | os.PathLike,
    *,
    keep_empty: bool = True,
    max_words: int | None = None,
    skipped: Skipped | None = None,
) -> Iterator[str]:
    """The lines of a file, also ``.gz``, or of standard input (``-``).

    All of them by default, so that line i of an output belongs to line i of the input. To train, leave out the
    empty ones, and those of more than ``max_words`` words (or of more than 20 characters for each of so many words).
    """
    check_readable("path", path)
    return _kept_lines(path, keep_empty, max_words, skipped if skipped is not None else Skipped())


def deduplicate(
    pairs: Iterable[tuple[str, str]], skipped: Skipped | None = None
) -> Iterator[tuple[str, str]]:
    """The pairs without those that came before.

    What is remembered of a pair is a hash of 64 bits, in 12 to 24 bytes of memory.

    >>> list(deduplicate([("a", "b"), ("a", "c"), ("a", "b")]))
    [('a', 'b'), ('a', 'c')]
    """
    seen = Hashes()
    for pair in pairs:
        if seen.add(hash_of(*pair)):
            yield pair
        elif skipped is not None:
            skipped.duplicates += 1


# -- the formats -----------------------------------------------------------------------------------------------------


def _format_of(source: str | os.PathLike, target: str | os.PathLike | None, format: str | None) -> str:
    name = os.fspath(source)
    known = ("tsv", "csv", "jsonl", "parquet", "lines", "hf")
    if format is not None and format not in known:
        raise UnknownNameError("format", format, known)
    if name.startswith("hf:"):
        format = format or "hf"
    if target is not None:
        if format not in (None, "lines"):
            raise ArgumentError(
                "target", f"not used with the format {format}", f"name the two with {option('columns')}"
            )
        if name == os.fspath(target) == "-":
            raise ArgumentError("target", "source and target cannot both be standard input")
        return "lines"
    if format == "lines":
        raise ArgumentError("target", "the format lines needs a second file")
    if format == "hf" and not name.startswith("hf:"):
        raise ArgumentError("source", f"expected hf:{name} for a Hugging Face data set")
    if name == "-" and format == "parquet":
        raise ArgumentError("format", "parquet cannot be read from standard input", "name a file")
    if format or name == "-":
        return format or "tsv"
    suffix = PurePath(name.removesuffix(".gz")).suffix.lower()
    if suffix not in _FORMATS:
        raise ArgumentError(
            "format",
            f"cannot be told from the name {name}",
            f"say it with {option('format')}, one of tsv, csv, jsonl and parquet, or name the other side's file too",
        )
    return _FORMATS[suffix]


def _checked_columns(columns: Sequence[int] | Sequence[str]) -> tuple[int, int] | tuple[str, str]:
    if isinstance(columns, str) or len(columns) != 2:
        raise ArgumentError("columns", f"expected two, for source and target, got {columns!r}")
    first, second = columns
    numbers = [isinstance(column, int) and column >= 0 for column in columns]
    if not all(numbers) and not all(isinstance(column, str) for column in columns):
        raise ArgumentError("columns", f"expected two numbers from 0, or two names, got {columns!r}")
    return first, second  # pyright: ignore[reportReturnType]  # of the same type: checked above


def _aligned(source: str | os.PathLike, target: str | os.PathLike) -> Iterator[Row]:
    """Line i of one file with line i of the other."""
    lefts, rights = lines_of("source", source), lines_of("target", target)
    count = 0
    while True:
        left, right = next(lefts, None), next(rights, None)
        if left is None or right is None:
            break
        count += 1
        yield left.place, left.text, right.text
    more = (left is not None) + sum(1 for _ in lefts), (right is not None) + sum(1 for _ in rights)
    if any(more):
        counts = f"{name_of(source)} has {count + more[0]:,} lines, {name_of(target)} has {count + more[1]:,}"
        longer = name_of(source if more[0] else target)
        raise FileError(
            f"{counts}: line {count + 1} of {longer} is the first without a partner, "
            "but one may be missing earlier: make the files from the same pairs again",
            argument="target",
        )


def _cells(
    lines: Iterator[Line], columns: tuple[int, int] | tuple[str, str], fields: Sequence[tuple[str, str]] = ()
) -> Iterator[Row]:
    """Two columns of a table."""
    places: tuple[int, int] | None = None
    for line in lines:
        if line.text is None:
            yield line.place, None, None
            continue
        cells = line.text.split("\t")
        if places is None:
            names = guess_fields(cells, None, fields) if fields and columns == DEFAULT_COLUMNS else None
            if names is not None or isinstance(columns[0], str):
                places = named_places(cells, names or columns, line.place)
                continue
            places = (int(columns[0]), int(columns[1]))
            if columns == DEFAULT_COLUMNS:
                warn_of_header(cells, line.place)
        if max(places) >= len(cells) and line.text.strip():
            raise FileError(
                f"{line.place}: there is no column {max(places)}: the line has {len(cells)} of them, counted from 0 "
                f"and separated by tabs: check {option('columns')}, or the line"
            )
        left, right = (cells[place] if place < len(cells) else "" for place in places)
        yield line.place, left, right


def _objects(lines: Iterator[Line]) -> Iterator[tuple[str, Any]]:
    """The JSON value of each line; None for an empty one."""
    for line in lines:
        if line.text is None:
            yield line.place, _TOO_LONG
        elif not line.text.strip():
            yield line.place, None
        else:
            try:
                yield line.place, json.loads(line.text)
            except (ValueError, RecursionError) as error:
                raise FileError(f"{line.place}: not JSON: {error}: expected one object a line") from None


_TOO_LONG = object()


def _picked(
    rows: Iterator[tuple[str, Any]],
    columns: tuple[int, int] | tuple[str, str],
    languages: tuple[str, str] | None,
    fields: Sequence[tuple[str, str]] = (),
) -> Iterator[Row]:
    """Pick two fields of each object, by default those that the first object has for the languages."""
    for place, value in rows:
        if value is _TOO_LONG:
            yield place, None, None
        elif value is None:
            yield place, "", ""
        else:
            if columns == DEFAULT_COLUMNS:
                columns = guess_fields(list(field_paths(value)), languages, fields) or columns
            numbers = bool(fields)
            yield place, _field(value, columns[0], place), _field(value, columns[1], place, numbers)


def _field(value: Any, name: int | str, place: str, numbers: bool = False) -> str:
    """A field by name; dots lead into objects, unless there is a field with the dots in its name."""
    if not isinstance(name, str):
        raise ArgumentError(
            "columns", f"expected the names of two fields, got {name!r}", f"{place} has {_fields(value)}"
        )
    found = value
    for part in [name] if isinstance(value, dict) and name in value else name.split("."):
        if not isinstance(found, dict) or part not in found:
            raise FileError(f"{place}: there is no field {name!r}: its fields are {_fields(value)}")
        found = found[part]
    if found is None:
        return ""
    if numbers and isinstance(found, int | float):
        return str(found)
    if not isinstance(found, str):
        raise FileError(f"{place}: the field {name!r} is not text, but {json.dumps(found, default=str):.40}")
    try:
        found.encode()
    except UnicodeEncodeError:
        raise FileError(
            f"{place}: the field {name!r} holds half of a surrogate pair: correct its \\u…"
        ) from None
    return found


def _fields(value: Any) -> str:
    return ", ".join(field_paths(value)) or f"none, it is a {type(value).__name__}"


# -- what is left out ------------------------------------------------------------------------------------------------


def _filtered(
    rows: Iterator[Row], name: str, max_words: int | None, skipped: Skipped
) -> Iterator[tuple[str, str]]:
    read = kept = 0
    for place, left, right in rows:
        read += 1
        if left is None or right is None or _is_long(left, max_words) or _is_long(right, max_words):
            skipped.count("too_long", place)
        elif not left.strip() or not right.strip():
            skipped.count("empty", place)
        else:
            kept += 1
            yield left, right
    if not read:
        raise FileError(f"{name} is empty: expected pairs of texts", argument="source")
    if not kept:
        raise FileError(f"there is no pair to use in {name}: {skipped}", argument="source")


def _kept_lines(
    path: str | os.PathLike, keep_empty: bool, max_words: int | None, skipped: Skipped
) -> Iterator[str]:
    for line in lines_of("path", path):
        if line.text is None and max_words is None:
            raise FileError(f"{line.place}: longer than {LONGEST:,} bytes: is it text, with line ends?")
        if line.text is None or _is_long(line.text, max_words):
            skipped.count("too_long", line.place)
        elif keep_empty or line.text.strip():
            yield line.text
        else:
            skipped.count("empty", line.place)


_WORD = re.compile(rf"[{HAN_RANGES}]|[^\s{HAN_RANGES}]+")  # each Han character counts as a word


def count_words(text: str) -> int:
    """Words between spaces; each Han character, which are written without spaces, counts as one.

    >>> count_words("I love you."), count_words("我爱你")
    (3, 3)
    """
    return sum(1 for _ in _WORD.finditer(text))


def _is_long(text: str, max_words: int | None) -> bool:
    if max_words is None or len(text) <= max_words:
        return False  # most texts need not be split
    return len(text) > CHARACTERS_A_WORD * max_words or count_words(text) > max_words
