"""Rows of a source and a target, such as two languages or a text and its label, for training and validation."""

from __future__ import annotations

import csv
import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from regard.errors import ArgumentError, FileError, option, renamed
from regard.tasks.data_files import content_hash, known_by
from regard.tasks.sampling import held_out_keys
from regard.text import PairData, Skipped, read_lines, read_pairs
from regard.text.huggingface_datasets import splits_of

__all__ = [
    "Pair",
    "PairSource",
    "check_labels",
    "counted_rows",
    "nothing_left",
    "parsed_columns",
    "read_columns",
]

LONGEST_WORDS = 1000  # of a text that is trained on
FEWEST_ROWS = 10  # of which it can be said that nearly every one has a label of its own
Pair = tuple[str, str]


@dataclass(frozen=True)
class PairSource:
    """The rows that a run trains on and validates on.

    ``settings`` are :class:`~regard.tasks.settings.DataSettings`. ``embedded(split, count)`` generates rows for a task
    that can be trained without data, and ``embedded_count`` is the number of them to train on. ``most_valid`` is the
    number of rows to validate on where no validation data is named. ``reading`` are further arguments of
    :func:`regard.text.read_pairs`.
    """

    settings: Any
    most_valid: int
    embedded: Callable[[str, int], Iterator[Any]] | None = None
    embedded_count: int = 0
    reading: dict[str, Any] = field(default_factory=dict)
    # For errors: the part of a row that is its key, and why every key may have to be trained on.
    key_name: ClassVar[str] = "text"
    none_chosen: ClassVar[str] = "there is none"

    def training(self, skipped: Skipped | None = None) -> Iterator[Any]:
        """Yield the rows to train on, those of the data and then the embedded ones, without any that is held out.

        It is an error if none is left.
        """
        skipped = skipped if skipped is not None else Skipped()
        empty = True
        for row in self._all(skipped):
            key = self.key(row)
            if key in self.held_out:
                skipped.count("held_out", repr(key if len(key) <= 100 else key[:100] + "…"))
            else:
                empty = False
                yield row
        if empty:
            raise nothing_left(self.settings.data, skipped)

    def key(self, row: Any) -> str:
        """Return the part of a row that is never both trained on and validated on."""
        return row[0]

    def validation(self) -> list[Any]:
        """Return the rows to validate on.

        They are those of the validation data, or of the validation part of a data set, or rows that are held out of
        the data by a hash of their source, or embedded rows.
        """
        s = self.settings
        if self.valid_source:
            skipped = Skipped()
            rows = list(self.read("valid", skipped, split=s.valid_split))
            _warn_of_bad_rows("valid", skipped)
        elif s.data:
            rows = self._rows_held_out()
        elif self.embedded is not None:
            return list(self.embedded("valid", self.most_valid))
        else:
            raise ArgumentError("data", "not given", "name a file to train on")
        # Files are often sorted, and only a part of the rows may be used.
        random.Random(s.seed).shuffle(rows)
        if not rows:
            raise FileError(f"no row of {self.valid_source or s.data} can be used", argument="valid")
        return rows

    def _rows_held_out(self) -> list[Any]:
        """Return the rows that are held out of the data, or raise FileError if no row would be left on one side."""
        rows, count = [], 0
        for row in self.read("data"):
            count += 1
            if self.key(row) in self.chosen_keys:
                rows.append(row)
        if 0 < len(rows) < count or (rows and self.embedded_count):
            return rows
        fix = f"give more rows, or name rows to validate on with {option('valid')}"
        if rows:
            problem = f"all rows of {self.settings.data} have the same {self.key_name}"
            raise FileError(
                f"{problem}, which cannot be both trained on and validated on: {fix}", argument="data"
            )
        problem = f"no row of {self.settings.data} can be held out to validate on, because {self.none_chosen}"
        raise FileError(f"{problem}: {fix}", argument="data")

    @cached_property
    def valid_source(self) -> str | None:
        """The place of the validation data, or None if rows are held out of the training data.

        A Hugging Face data set may have a part to validate on.
        """
        s = self.settings
        if s.valid is not None or s.data is None or not s.data.startswith("hf:"):
            return s.valid
        with renamed(source="data"):
            parts = splits_of(s.data[3:], config=s.dataset_config)
        if s.valid_split in parts:
            return s.data
        if s.valid_split != type(s).valid_split:
            problem = f"{s.data} has no part {s.valid_split!r}, but {', '.join(parts) or 'none'}"
            raise ArgumentError("valid_split", problem)
        return None

    @cached_property
    def chosen_keys(self) -> set[str]:
        """The sources that are held out of the training data by their hash."""
        s = self.settings
        keys = (self.key(row) for row in self.read("data"))
        return held_out_keys(keys, share=s.hold_out, most=self.most_valid, seed=s.seed)

    @cached_property
    def held_out(self) -> set[str]:
        """The sources of the validation rows, and of the data to exclude."""
        s = self.settings
        held: set[str] = set()
        if self.valid_source:
            held.update(self.key(row) for row in self.read("valid", split=s.valid_split))
        elif s.data:
            held |= self.chosen_keys
        skipped = Skipped()
        if s.exclude and getattr(s, "target_data", None):  # like the data, one text in each line
            bad = {"skip_bad_rows": s.skip_bad_rows, "skipped": skipped}
            with renamed(path="exclude"):
                held.update(read_lines(s.exclude, keep_empty=False, **bad))
        elif s.exclude:
            held.update(self.key(row) for row in self.read("exclude", skipped, split="test"))
        _warn_of_bad_rows("exclude", skipped)
        return held

    def read(self, name: str, skipped: Skipped | None = None, *, split: str | None = None) -> Iterator[Pair]:
        """Yield the rows of the data that the setting ``name`` names."""
        s = self.settings
        place: Any = self.valid_source if name == "valid" else getattr(s, name)
        target = f"target_{name}"
        with renamed(source=name, target=target):
            yield from read_pairs(
                place,
                getattr(s, target, None),
                columns=parsed_columns(s.columns),
                format=s.format,
                split=split or s.split,
                config=s.dataset_config,
                skip_bad_rows=s.skip_bad_rows,
                skipped=skipped,
                **{"max_words": LONGEST_WORDS, **self.reading, **self.reading_of(name)},
            )

    def reading_of(self, _name: str) -> dict[str, Any]:
        """Return further arguments of :func:`regard.text.read_pairs` for the data that a setting names."""
        return {}

    def _all(self, skipped: Skipped) -> Iterator[Any]:
        if self.settings.data:
            yield from self.read("data", skipped)
        if self.embedded_count and self.embedded is not None:
            yield from self.embedded("train", self.embedded_count)

    # How the rows are identified

    def files(self) -> list[str]:
        """Return the files that the training rows depend on."""
        return [path for path in self._places() if Path(path).is_file()]

    def identity(self) -> list[object]:
        """Return values that identify the training rows together with the contents of their files."""
        s = self.settings
        hub = [known_by(name) for name in self._places() if name.startswith("hf:")]
        hub += [content_hash(Path(name)) for name in self._places() if Path(name).is_dir()]
        held = [s.hold_out, self.most_valid, s.seed] if s.data and not self.valid_source else []
        parts = [hub, s.split, s.valid_split, s.dataset_config, getattr(s, "columns", None), s.format]
        parts += ["skip_bad_rows"] if s.skip_bad_rows else []
        return [*parts, self.embedded_count, getattr(s, "embedded_seed", 0), *held]

    def _places(self) -> list[str]:
        s = self.settings
        named = (s.data, getattr(s, "target_data", None), self.valid_source, s.exclude)
        return [path for path in named if path]


def counted_rows(train: Any, noun: str, parts: Sequence[str] = ("source", "target"), *more: str) -> list[str]:
    """Return lines that say which columns the ``parts`` of a row are, and how many rows were read and left out.

    ``more`` is added to the line of the columns.
    """
    if not isinstance(train, PairData):
        return []
    lines = read_columns(train.skipped, parts, *more)
    lines += [f"data: {len(train) + train.skipped.total:,} {noun} read, {len(train):,} of them to train on"]
    return lines + [f"left out of the data: {train.skipped}"] * bool(train.skipped.total)


def read_columns(skipped: Skipped, parts: Sequence[str], *more: str) -> list[str]:
    """Return a line that says which column each of the ``parts`` of a row is, or no line if no file was read.

    >>> read_columns(Skipped(columns=['column "feedback"', 'column "mood"']), ("text", "label"), "3 labels")
    ['read: text = column "feedback", label = column "mood", 3 labels']
    """
    if not skipped.columns:
        return []
    counted = " (counted from 0)" if any(one[-1].isdigit() for one in skipped.columns) else ""
    named = [f"{part} = {column}" for part, column in zip(parts, skipped.columns, strict=False)]
    return [f"read: {', '.join([*named[:-1], named[-1] + counted, *more])}"]


def check_labels(labels: int, rows: int, example: str, fix: str) -> None:
    """Raise FileError if nearly every one of the ``rows`` has a label of its own, and warn if every second one has.

    ``labels`` is the number of different labels, ``example`` one of them, and ``fix`` is added to the error.
    """
    if rows < FEWEST_ROWS or 2 * labels <= rows:
        return
    problem = f"there are {labels:,} different labels in {rows:,} rows, such as {example!r:.60}"
    if labels > 0.9 * rows:
        raise FileError(f"{problem}: {fix}", argument="data")
    warnings.warn(f"data: {problem}, and a model learns little about so rare labels", stacklevel=3)


def nothing_left(data: str | None, skipped: Skipped) -> FileError:
    """Return the error for data of which no row is left to train on.

    ``data`` is the name of the data, or None for the embedded corpus.

    >>> raise nothing_left("few.tsv", Skipped(held_out=1))
    Traceback (most recent call last):
        ...
    regard.errors.FileError: data: no row of few.tsv is left to train on: left out are 1 held out ...
    """
    problem = f"no row of {data or 'the embedded corpus'} is left to train on: left out are {skipped}"
    return FileError(f"{problem}: give more rows", argument="data")


def _warn_of_bad_rows(name: str, skipped: Skipped) -> None:
    if skipped.bad:
        shown = Skipped(bad=skipped.bad, first=skipped.first)
        warnings.warn(f"{name}: left out: {shown}", stacklevel=3)


def parsed_columns(text: str | None) -> Sequence[Any] | None:
    """Return the two columns that a setting names, as numbers or as names, which are in quotes if they hold a comma.

    >>> parsed_columns("0,1"), parsed_columns('"a, b", label')
    ((0, 1), ('a, b', 'label'))
    """
    if text is None:
        return None
    try:
        names = [name.strip() for name in next(csv.reader([text], skipinitialspace=True, strict=True), [])]
    except csv.Error:
        names = []
    if len(names) != 2:
        fix = """put quotes around a name that holds a comma, as in '"a, b",c'"""
        raise ArgumentError("columns", f"expected two, such as 0,1 or en,fr: got {text!r}", fix)
    return tuple(int(name) if name.isdecimal() else name for name in names)
