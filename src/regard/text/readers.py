"""Readers of texts and pairs of texts from files, one at a time.

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
import warnings
from collections.abc import Callable, Container, Iterator, Sequence
from pathlib import Path, PurePath
from typing import Any

from regard.errors import ArgumentError, FileError, UnknownNameError, option
from regard.files import class_folders, is_named, split_folder
from regard.text.bad_rows import BadRowError, BadRows, Skipped
from regard.text.headers import Row
from regard.text.huggingface_datasets import rows_of
from regard.text.lines import LONGEST, Line, check_readable, lines_of, name_of, whole_text
from regard.text.tables import (
    DEFAULT_COLUMNS,
    Columns,
    csv_rows,
    field_paths,
    guess_fields,
    parquet_rows,
    table_cells,
    tsv_rows,
    unknown_columns,
)
from regard.text.words_and_characters import HAN_RANGES

__all__ = ["Skipped", "count_words", "read_lines", "read_pairs"]

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
# The ends of the names of files that hold one text each, in a folder for each class.
TEXT_SUFFIXES = ("", ".txt", ".text", ".md", ".txt.gz")

NULL = "it holds a null character: is this a text file in UTF-8?"
# A text is too long if it has more characters than this for each allowed word, since a single word may be endless.
CHARACTERS_A_WORD = 20


def read_pairs(
    source: str | os.PathLike,
    target: str | os.PathLike | None = None,
    *,
    columns: Sequence[int] | Sequence[str] | None = None,
    format: str | None = None,
    split: str = "train",
    config: str | None = None,
    max_words: int | None = 1000,
    languages: tuple[str, str] | None = None,
    fields: Sequence[tuple[str, str]] = (),
    labels: Container[str] = (),
    check: Callable[[str, str], str] | None = None,
    skip_bad_rows: bool = False,
    skipped: Skipped | None = None,
) -> Iterator[tuple[str, str]]:
    """Yield pairs of texts from a file, two files, standard input (``-``) or a Hugging Face data set (``hf:…``).

    - In ``tsv`` and ``csv``, ``columns`` are numbers from 0, or names in the first line.
    - In ``jsonl``, with one object per line, ``columns`` are fields. ``translation.en`` is a nested field.
    - In ``parquet``, ``columns`` are fields (needs ``pyarrow``).
    - With ``fields``, a folder that has a folder of text files for each class gives the text of each file with the name
      of its folder. Such folders may be in ``train`` and ``test``, which ``split`` chooses.
    - With a ``target``, line i of one file and line i of the other are a pair.
    - ``hf:name`` or ``hf:/path`` is a data set by its name, a folder or a file, and ``columns`` are fields. ``split``
      and ``config`` choose a part of such data sets.

    If fields have names and ``columns`` is not given, the fields of the two ``languages`` are used (``en``,
    ``translation.en``, ``english``). If there are none, they are the first pair of ``fields`` that exists, by default
    ``source`` and ``target``, or names of a text and its summary such as ``abstract`` and ``title``. ``fields``
    also says that the second text is a label, which may be a number. A first row with one of the ``labels`` is data,
    and is not taken for the names of the columns. If no names are known and ``columns`` is not given, a table with more
    than two columns raises ArgumentError, and so do objects. The columns that are read are noted in ``skipped``.

    The format is ``format``, or follows from the name of the file (``.tsv``, ``.csv``, ``.jsonl``, each also with
    ``.gz``, or ``.parquet``). Standard input is ``tsv`` by default.

    Empty rows, pairs with an empty text, and pairs with a text of more than ``max_words`` words or ``20 * max_words``
    characters are left out and counted in ``skipped``. With None there is no limit.

    Bad rows raise FileError at the end of the file, which names the first of their lines. They have too few columns,
    are not UTF-8, hold a null character, are not CSV or JSON, lack a field, or have an empty text or label in labelled
    data. ``skip_bad_rows`` leaves them out and counts them too. ``check`` takes the two texts of a row and returns why
    the row is bad, or an empty text. A file without a single pair always raises FileError, and so do two files of
    different length.
    """
    bad = BadRows(skipped if skipped is not None else Skipped(), skip=skip_bad_rows, argument="source")
    columns = _checked_columns(columns)
    if fields and target is None and format is None and _holds_folders(source):
        if columns is not None:
            problem = f"of no use for {source}, where the labels are the names of folders"
            raise ArgumentError("columns", problem, "leave it out")
        rows = _class_texts(Path(source), split, bad)
        return _filtered(rows, name_of(source), max_words, bad, check, labelled=True)
    kind = _format_of(source, target, format)
    if kind == "hf":
        objects = rows_of(os.fspath(source)[3:], split=split, config=config)
        rows = _picked(objects, columns, languages, fields, bad)
        return _filtered(rows, name_of(source), max_words, bad, check, labelled=bool(fields))
    check_readable("source", source)
    if target is not None:
        check_readable("target", target)
        rows = _aligned(source, target, bad)
    elif kind in ("tsv", "csv"):
        lines, tabs = lines_of("source", source), kind == "tsv"
        cells = tsv_rows(lines, bad) if tabs else csv_rows(lines, name_of(source), bad)
        rows = table_cells(cells, columns, languages, fields, labels, bad, tabs=tabs)
    elif kind == "parquet":
        rows = _picked(parquet_rows(source), columns, languages, fields, bad)
    else:
        rows = _picked(_objects(lines_of("source", source), bad), columns, languages, fields, bad)
    return _filtered(rows, name_of(source), max_words, bad, check, labelled=bool(fields))


def read_lines(
    path: str | os.PathLike,
    *,
    keep_empty: bool = True,
    max_words: int | None = None,
    skip_bad_rows: bool = False,
    skipped: Skipped | None = None,
) -> Iterator[str]:
    """Yield the lines of a file, which may be ``.gz``, or of standard input (``-``).

    By default all lines are returned, so that line i of an output belongs to line i of the input. For training,
    ``keep_empty=False`` leaves out empty lines. ``max_words`` leaves out lines of more words or of more than
    ``20 * max_words`` characters. Lines that are left out are counted in ``skipped``.

    With ``keep_empty=False``, lines that are not UTF-8 or hold a null character raise FileError at the end of the file,
    or are left out and counted in ``skipped`` with ``skip_bad_rows``. Otherwise the first line that is not UTF-8 raises
    FileError, and ``skip_bad_rows`` raises ArgumentError.
    """
    check_readable("path", path)
    skipped = skipped if skipped is not None else Skipped()
    if not keep_empty:
        return _kept_lines(path, max_words, BadRows(skipped, skip=skip_bad_rows, argument="path"))
    if skip_bad_rows:
        told = "the remaining lines would not match the lines of the file"
        raise ArgumentError("skip_bad_rows", told, f"add {option('keep_empty', False)}")
    return _all_lines(path, max_words, skipped)


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
    if suffix not in _FORMATS and os.path.isdir(name):
        tables = sorted(one for one in os.listdir(name) if one.removesuffix(".gz").endswith(tuple(_FORMATS)))
        fix = f"name the table in it, such as {os.path.join(name, tables[0])}" if tables else "name a file"
        raise ArgumentError("source", f"{name} is a folder, not a file", fix)
    if suffix not in _FORMATS:
        raise ArgumentError(
            "format",
            f"cannot be told from the name {name}",
            f"say it with {option('format')}, one of tsv, csv, jsonl and parquet, or name the other side's file too",
        )
    return _FORMATS[suffix]


def _checked_columns(columns: Sequence[int] | Sequence[str] | None) -> Columns:
    if columns is None:
        return None
    if isinstance(columns, str) or len(columns) != 2:
        raise ArgumentError("columns", f"expected two, for source and target, got {columns!r}")
    first, second = columns
    numbers = [isinstance(column, int) and column >= 0 for column in columns]
    if not all(numbers) and not all(isinstance(column, str) for column in columns):
        raise ArgumentError("columns", f"expected two numbers from 0, or two names, got {columns!r}")
    return first, second  # pyright: ignore[reportReturnType]  # of the same type: checked above


def _holds_folders(source: str | os.PathLike) -> bool:
    """Return whether a source is a folder with folders in it."""
    return os.path.isdir(source) and any(path.is_dir() for path in Path(source).iterdir())


def _class_texts(folder: Path, split: str, bad: BadRows) -> Iterator[Row]:
    """Yield the place and the text of each file in the folders of a folder, with the name of its folder as the label.

    Files that are not UTF-8 are added to ``bad``. Text files beside these folders are warned of.
    """
    part = split_folder(folder, split, TEXT_SUFFIXES)
    files = class_folders(part, TEXT_SUFFIXES, "text files", argument="source")
    loose = sorted(
        path for path in part.iterdir() if is_named(Path(path.name), TEXT_SUFFIXES) and path.is_file()
    )
    if loose:
        warnings.warn(f"{loose[0]} is in no folder of a class: such files are not read", stacklevel=2)
    bad.skipped.columns = ["each file", "name of its folder"]
    for label, paths in files.items():
        for path in paths:
            place = f"{part}, file {path.relative_to(part).as_posix()}"
            try:
                text = whole_text("source", path)
            except FileError as error:
                bad.add(place, error.in_words().removeprefix(f"{path}, "))
            else:
                yield place, text, label


def _aligned(source: str | os.PathLike, target: str | os.PathLike, bad: BadRows) -> Iterator[Row]:
    """Yield line i of one file with line i of the other, and raise FileError at the end if one file has more lines."""
    lefts, rights = lines_of("source", source), lines_of("target", target)
    bad.skipped.columns = [f"lines of {name_of(one)}" for one in (source, target)]
    count = 0
    while True:
        left, right = next(lefts, None), next(rights, None)
        if left is None or right is None:
            break
        count += 1
        if left.problem or right.problem:
            worse = left if left.problem else right
            bad.add(worse.place, worse.problem)
        else:
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


def _objects(lines: Iterator[Line], bad: BadRows) -> Iterator[tuple[str, Any]]:
    """Yield the place and the JSON value of each line, where an empty line gives None and a long one ``_TOO_LONG``."""
    for line in lines:
        if line.problem:
            bad.add(line.place, line.problem)
        elif line.text is None:
            yield line.place, _TOO_LONG
        elif not line.text.strip():
            yield line.place, None
        else:
            try:
                yield line.place, json.loads(line.text)
            except (ValueError, RecursionError) as error:
                bad.add(line.place, f"not JSON: {error}: expected one object a line")


_TOO_LONG = object()


def _picked(
    rows: Iterator[tuple[str, Any]],
    columns: Columns,
    languages: tuple[str, str] | None,
    fields: Sequence[tuple[str, str]],
    bad: BadRows,
) -> Iterator[Row]:
    """Yield two fields of each object, by default those that :func:`guess_fields` finds in the first object."""
    columns = None if columns == DEFAULT_COLUMNS else columns
    for place, value in rows:
        if value is _TOO_LONG:
            yield place, None, None
        elif value is None:
            yield place, "", ""
        elif columns is None and not isinstance(value, dict):
            bad.add(place, f"expected an object, got {json.dumps(value, default=str):.40}")
        else:
            if columns is None:
                names = list(field_paths(value))
                columns = guess_fields(names, languages, fields)
                if columns is None:
                    raise unknown_columns(f"{place} has fields", names)
            bad.skipped.columns = bad.skipped.columns or [f'field "{name}"' for name in columns]
            try:
                left = _field(value, columns[0], place)
                right = _field(value, columns[1], place, numbers=bool(fields))
            except BadRowError as error:
                bad.add(place, str(error))
            else:
                yield place, left, right


def _field(value: Any, name: int | str, place: str, numbers: bool = False) -> str:
    """Return the text of a field, where dots lead to nested objects unless a field has the dots in its own name.

    A null is an empty text. Raises BadRowError if the field is missing or not text (or a number, with ``numbers``).
    """
    if not isinstance(name, str):
        raise ArgumentError(
            "columns", f"expected the names of two fields, got {name!r}", f"{place} has {_fields(value)}"
        )
    found = value
    for part in [name] if isinstance(value, dict) and name in value else name.split("."):
        if not isinstance(found, dict) or part not in found:
            raise BadRowError(f"there is no field {name!r}: its fields are {_fields(value)}")
        found = found[part]
    if found is None:
        return ""
    if numbers and isinstance(found, int | float):
        return str(found)
    if not isinstance(found, str):
        raise BadRowError(f"the field {name!r} is not text, but {json.dumps(found, default=str):.40}")
    try:
        found.encode()
    except UnicodeEncodeError:
        raise BadRowError(f"the field {name!r} holds half of a surrogate pair: correct its \\u…") from None
    return found


def _fields(value: Any) -> str:
    return ", ".join(field_paths(value)) or f"none, it is a {type(value).__name__}"


# -- rows that are left out ------------------------------------------------------------------------------------------


def _filtered(
    rows: Iterator[Row],
    name: str,
    max_words: int | None,
    bad: BadRows,
    check: Callable[[str, str], str] | None,
    *,
    labelled: bool,
) -> Iterator[tuple[str, str]]:
    read = kept = 0
    for place, left, right in rows:
        read += 1
        if problem := _problem(left, right, check, labelled):
            bad.add(place, problem)
        elif bad.failed:
            # The rest of the file is read to name its other bad rows.
            continue
        elif left is None or right is None or _is_long(left, max_words) or _is_long(right, max_words):
            bad.skipped.count("too_long", place)
        elif not left.strip() or not right.strip():
            bad.skipped.count("empty", place)
        else:
            kept += 1
            yield left, right
    bad.check()
    if not read and not bad.number:
        expected = "rows of a text and a label" if labelled else "pairs of texts"
        raise FileError(f"{name} is empty: expected {expected}", argument="source")
    if not kept:
        raise FileError(f"there is no row to use in {name}: {bad.skipped}", argument="source")


def _problem(
    left: str | None, right: str | None, check: Callable[[str, str], str] | None, labelled: bool
) -> str:
    """Return why a row is bad, or an empty text. A row that is empty or too long to read is not bad."""
    if "\0" in (left or "") or "\0" in (right or ""):
        return NULL
    if left is None or right is None or not (left.strip() or right.strip()):
        return ""
    if labelled and not (left.strip() and right.strip()):
        return f"the {'label' if left.strip() else 'text'} is empty"
    return check(left, right) if check is not None and left.strip() and right.strip() else ""


def _kept_lines(path: str | os.PathLike, max_words: int | None, bad: BadRows) -> Iterator[str]:
    """Yield the lines of a file that are not empty, too long or bad, and count the others."""
    for line in lines_of("path", path):
        if line.problem or "\0" in (line.text or ""):
            bad.add(line.place, line.problem or NULL)
        elif bad.failed:
            continue
        elif line.text is None or _is_long(line.text, max_words):
            bad.skipped.count("too_long", line.place)
        elif not line.text.strip():
            bad.skipped.count("empty", line.place)
        else:
            yield line.text
    bad.check()


def _all_lines(path: str | os.PathLike, max_words: int | None, skipped: Skipped) -> Iterator[str]:
    """Yield all lines of a file but those too long for ``max_words``, or raise FileError if one cannot be decoded."""
    for line in lines_of("path", path):
        if line.problem:
            raise FileError(f"{line.place}: {line.problem}")
        if line.text is None and max_words is None:
            raise FileError(f"{line.place}: longer than {LONGEST:,} bytes: is it text, with line ends?")
        if line.text is None or _is_long(line.text, max_words):
            skipped.count("too_long", line.place)
        else:
            yield line.text


# Each Han character counts as a word.
_WORD = re.compile(rf"[{HAN_RANGES}]|[^\s{HAN_RANGES}]+")


def count_words(text: str) -> int:
    """Return the number of words of a text, where each Han character counts as a word.

    >>> count_words("I love you."), count_words("我爱你")
    (3, 3)
    """
    return sum(1 for _ in _WORD.finditer(text))


def _is_long(text: str, max_words: int | None) -> bool:
    # A text has at most as many words as characters, so most texts need not be split.
    if max_words is None or len(text) <= max_words:
        return False
    return len(text) > CHARACTERS_A_WORD * max_words or count_words(text) > max_words
