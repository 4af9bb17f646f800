"""Rows of data files that cannot be read.

They raise FileError with their line numbers, or they are left out and counted if that is asked for.

>>> bad = BadRows(Skipped())
>>> bad.add("a.tsv, line 2", "there is no column 1")
>>> bad.add("a.tsv, line 7", "there is no column 1")
>>> bad.check()
Traceback (most recent call last):
    ...
regard.errors.FileError: a.tsv, line 2: there is no column 1; 2 rows cannot be read (lines 2, 7): correct them, or ...
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from regard.errors import FileError, option

__all__ = ["BadRowError", "BadRows", "Skipped"]

# The most bad rows whose lines an error names.
SHOWN = 5


@dataclass
class Skipped:
    """The numbers of rows that a reader left out, by reason, and the columns that it read.

    ``empty`` counts the rows with an empty text, ``held_out`` those that were set aside for validation or tests, and
    ``bad`` those that cannot be read. ``first`` maps each reason to the place (file and line) of the first such row.
    ``columns`` says where the parts of a row come from, such as ``column "text"`` or ``column 0``.

    >>> skipped = Skipped()
    >>> skipped.count("empty", "a.tsv, line 3")
    >>> print(skipped)
    1 with an empty side (the first: a.tsv, line 3)
    """

    empty: int = 0
    too_long: int = 0
    duplicates: int = 0
    held_out: int = 0
    bad: int = 0
    first: dict[str, str] = field(default_factory=dict)
    columns: list[str] = field(default_factory=list, compare=False)

    @property
    def total(self) -> int:
        """The number of all rows that were left out."""
        return self.empty + self.too_long + self.duplicates + self.held_out + self.bad

    def count(self, reason: str, place: str) -> None:
        """Count one more row, where ``reason`` is the name of the counter, such as "empty"."""
        setattr(self, reason, getattr(self, reason) + 1)
        self.first.setdefault(reason, place)

    def to_json(self) -> dict[str, Any]:
        """Return the numbers and places as a JSON object."""
        return asdict(self)

    def __str__(self) -> str:
        words = {"empty": "with an empty side", "too_long": "too long", "duplicates": "seen before"}
        words |= {"held_out": "held out to validate or test", "bad": "that cannot be read"}
        parts = []
        for reason, what in words.items():
            if number := getattr(self, reason):
                place = f" (the first: {self.first[reason]})" if reason in self.first else ""
                parts.append(f"{number:,} {what}{place}")
        return ", ".join(parts) or "none"


class BadRowError(ValueError):
    """Raised and caught inside a reader where a row cannot be read.

    The message is the problem without the place.
    """


class BadRows:
    """The rows of one file that cannot be read.

    With ``skip`` they are counted in ``skipped``. Otherwise the reader goes on to the end of the file and then calls
    :meth:`check`, whose error names the lines of the first five. It yields no more rows once :attr:`failed` is true.
    ``argument`` is the name of the reader's argument that names the file.
    """

    def __init__(self, skipped: Skipped, *, skip: bool = False, argument: str | None = None):
        self.skipped, self.skip, self.argument = skipped, skip, argument
        self.number = 0
        self.first = ""
        self.places: list[str] = []

    @property
    def failed(self) -> bool:
        """True if there are bad rows that are not to be skipped."""
        return bool(self.number) and not self.skip

    def add(self, place: str, problem: str, advice: str = "") -> None:
        """Note a row that cannot be read.

        ``place`` is the file and the line, such as ``a.tsv, line 2``. ``advice`` is added to the error, and may mention
        an option.
        """
        self.number += 1
        self.first = self.first or f"{place}: {problem}" + (f": {advice}" if advice else "")
        if len(self.places) < SHOWN:
            self.places.append(place.rpartition(", ")[2])
        if self.skip:
            self.skipped.count("bad", f"{place}: {problem}")

    def check(self) -> None:
        """Raise FileError if there are bad rows that are not to be skipped."""
        if not self.failed:
            return
        skipping = option("skip_bad_rows", True)
        if self.number == 1:
            raise FileError(
                f"{self.first}; correct the row, or leave it out with {skipping}", argument=self.argument
            )
        kind, _, number = self.places[0].partition(" ")
        others = [place.removeprefix(f"{kind} ") for place in self.places[1:]]
        lines = ", ".join([f"{kind}s {number}", *others, *["…"] * (self.number > SHOWN)])
        raise FileError(
            f"{self.first}; {self.number:,} rows cannot be read ({lines}): "
            f"correct them, or leave them out with {skipping}",
            argument=self.argument,
        )
