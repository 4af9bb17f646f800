"""Detection of a first row that holds the names of the columns, if none of the names is known.

A row of names among texts with labels would become a class of its own, so it is left out if no other row has its
label. Among pairs of sentences it would be one bad pair, so a warning is enough.
"""

from __future__ import annotations

import csv
import io
import itertools
import re
import shlex
import warnings
from collections.abc import Container, Iterator, Sequence

from regard.text.bad_rows import Skipped
from regard.text.words_and_characters import HAN_RANGES

__all__ = ["Row", "joined_columns", "without_header"]

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
# The most words and characters of a name above labelled rows, where a Han character counts as four.
_MOST_WORDS, _MOST_CHARACTERS = 8, 60
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")


def joined_columns(names: Sequence[str]) -> str:
    """Return names of columns as the value of ``--columns``, with quotes as in CSV and for the shell where needed.

    >>> print(joined_columns(["review", "stars"]), joined_columns(["a, b", "ok?"]))
    review,stars '"a, b",ok?'
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(names)
    return shlex.quote(text.getvalue())


def without_header(
    rows: Iterator[Row], *, labelled: bool, labels: Container[str] = (), skipped: Skipped | None = None
) -> Iterator[Row]:
    """Yield rows whose columns were not found by name, without the first row if that names the columns.

    ``labelled`` says that the second column is a label. The first of such rows is left out, with a warning, if both of
    its cells look like names, its label is in none of the next rows (up to 1000), and their labels repeat or are
    numbers. The names are noted in ``skipped``. A row with one of the known ``labels`` is never left out, and of pairs
    of texts no row is. A first row that is kept gives a warning if it looks like names, or if its label, which is no
    number, is in none of the other rows although their labels repeat.

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
    place, *cells = (cell.strip() if cell else "" for cell in first)
    alone = labelled and _is_alone(cells[1], ahead, labels)
    if alone and all(map(_may_be_name, cells)):
        warnings.warn(
            f"{place}: the first row, {', '.join(cells)}, is taken for the names of the columns and left out, because "
            f"no other row has the label {cells[1]}. If it is data, put a row with the names text and label before it",
            stacklevel=2,
        )
        if skipped is not None:
            skipped.columns = [f'column "{cell}"' for cell in cells]
    else:
        if alone or _looks_like_names(cells, ahead, labelled):
            why = f" Of the first {len(ahead) + 1:,} rows, no other has this label." if alone else ""
            warnings.warn(
                f"{place}: the first row is read as data: {', '.join(f'{cell:.80}' for cell in cells)}.{why} If these "
                f"are names of columns, give them as columns (--columns {joined_columns(cells):.200})",
                stacklevel=2,
            )
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


def _is_alone(label: str, others: Sequence[Row], known: Container[str]) -> bool:
    """Return whether none of the ``others`` has the label of a first row, although their labels repeat or are numbers.

    ``known`` are labels that are known before the rows are read.
    """
    labels = [row[2].strip() for row in others if row[2]]
    numbers = len(labels) > 1 and all(map(_NUMBER.fullmatch, labels))
    if not label or label in known or label in labels or (numbers and _NUMBER.fullmatch(label)):
        return False
    return numbers or len(set(labels)) < len(labels)


def _may_be_name(cell: str) -> bool:
    """Return whether the text of a first row may be the name of a column, which is short and no sentence or number.

    >>> [_may_be_name(text) for text in ("Comment?", "Q1: mood, 1-5", "I like it.", "5")]
    [True, True, False, False]
    """
    length = len(cell) + 3 * sum(1 for _ in re.finditer(f"[{HAN_RANGES}]", cell))
    named = any(character.isalpha() for character in cell) and not cell.endswith((".", "!", "。", "！"))
    return named and length <= _MOST_CHARACTERS and len(cell.split()) <= _MOST_WORDS


def _looks_like_names(cells: Sequence[str], others: Sequence[Row], labelled: bool) -> bool:
    """Return whether a first row, which is kept as data, looks like the names of the columns."""
    known = all(_COLUMN_NAME.fullmatch(cell) for cell in cells)
    return known or (not labelled and _is_unlike(cells, others))


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
