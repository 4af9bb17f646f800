"""Detection of a first row that holds the names of the columns, if none of the names is known.

A row of names among texts with labels would become a class of its own, so it is left out if no other row has its
label. Among pairs of sentences it would be one bad pair, so a warning is enough.
"""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Container, Iterator, Sequence

from regard.text.words_and_characters import HAN_RANGES

__all__ = ["Row", "without_header"]

# The place of a row for messages, and its two texts, each None if it is too long to read.
Row = tuple[str, str | None, str | None]

# The most rows that are compared with the first one, and the most characters of these rows.
AHEAD, CHARACTERS = 1000, 2**22
# Names in snake case and words that are usual as names of columns but rare as data.
_COLUMN_NAME = re.compile(
    r"[A-Za-z]+(?:[_.][A-Za-z0-9]+)+|id|idx|index|label|labels|class|text|sentence|source|target"
)
# One to three words without punctuation, or up to six Han characters.
_WORD = rf"[^\W{HAN_RANGES}]"
_FEW_WORDS = re.compile(rf"[{HAN_RANGES}]{{1,6}}|(?!\d){_WORD}{{2,20}}(?:[ -]{_WORD}{{1,20}}){{0,2}}")
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")


def without_header(rows: Iterator[Row], *, labelled: bool, labels: Container[str] = ()) -> Iterator[Row]:
    """Yield rows whose columns were not found by name, without the first row if that names the columns.

    ``labelled`` says that the second column is a label. The first of such rows is left out, with a warning, if both of
    its cells look like names, its label is in none of the next rows (up to 1000), and their labels repeat or are
    numbers. A row with one of the known ``labels`` is never left out, and of pairs of texts no row is. A first row that
    is kept and looks like names gives a warning.

    >>> rows = [("a.csv, line 1", "review", "stars"), ("a.csv, line 2", "good", "5"), ("a.csv, line 3", "bad", "1")]
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     kept = list(without_header(iter(rows), labelled=True))
    >>> len(kept), str(caught[0].message)[:70]
    (2, 'a.csv, line 1: the first row, review, stars, is taken for the names of')
    """
    first = next(rows, None)
    if first is None:
        return
    ahead = _read_ahead(rows)
    if not (labelled and _names_columns(first, ahead, labels)):
        _warn_of_names(first, ahead, labelled)
        yield first
    yield from ahead
    yield from rows


def _read_ahead(rows: Iterator[Row]) -> list[Row]:
    """Take the next 1000 rows, or fewer if they are long, and return them in a list."""
    ahead, size = [], 0
    for row in itertools.islice(rows, AHEAD):
        ahead.append(row)
        size += sum(len(cell or "") for cell in row)
        if size > CHARACTERS:
            break
    return ahead


def _names_columns(first: Row, others: Sequence[Row], known: Container[str]) -> bool:
    """Return whether the first of labelled rows names the columns, and warn if so.

    ``others`` are the rows after it, and ``known`` are labels that are known before the rows are read.
    """
    place, text, label = (cell.strip() if cell else "" for cell in first)
    if label in known or not (_is_name(text) and _is_name(label)):
        return False
    labels = [row[2].strip() for row in others if row[2]]
    repeated = len(set(labels)) < len(labels)
    numbers = len(labels) > 1 and all(_NUMBER.fullmatch(one) for one in labels)
    if label in labels or not (repeated or numbers):
        return False
    warnings.warn(
        f"{place}: the first row, {text}, {label}, is taken for the names of the columns and left out, because no "
        f"other row has the label {label}. If it is data, put a row with the names text and label before it",
        stacklevel=2,
    )
    return True


def _warn_of_names(first: Row, others: Sequence[Row], labelled: bool) -> None:
    """Warn if the first row, which is kept as data, looks like the names of the columns."""
    place, *cells = (cell.strip() if cell else "" for cell in first)
    known = all(_COLUMN_NAME.fullmatch(cell) for cell in cells)
    if known or (not labelled and _is_unlike(cells, others)):
        warnings.warn(
            f"{place}: the first row is read as data: {', '.join(cells)}. If these are names of columns, give them as "
            f"columns (--columns {','.join(cells)})",
            stacklevel=2,
        )


def _is_unlike(cells: Sequence[str], others: Sequence[Row]) -> bool:
    """Return whether both cells of a row look like names of columns, and those of no other row do.

    With fewer than three other rows the answer is False.
    """
    pairs = [(left or "", right or "") for _, left, right in others]
    return (
        len(pairs) > 2 and all(map(_is_name, cells)) and not any(all(map(_is_name, pair)) for pair in pairs)
    )


def _is_name(cell: str) -> bool:
    """Return whether a text may be the name of a column, of one to three words or up to six Han characters.

    >>> [_is_name(text) for text in ("stars", "star rating", "评论", "I like it.", "5")]
    [True, True, True, False, False]
    """
    return bool(_FEW_WORDS.fullmatch(cell.strip()))
