"""The words that a model read and wrote, as the columns and the rows of a picture of its attention.

The text that a user sees may differ from the one that the model wrote, since addresses are copied, capitals restored
and numbers replaced. A word that the model did not write has no attention weights, so its row is empty.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from regard.analysis import join_words, merge_tokens, word_spans, words_of_tokens
from regard.text.traced import Span, TracedText

__all__ = [
    "COPIED",
    "REPLACED",
    "ShownWord",
    "json_rows",
    "read_words",
    "shown_words",
    "text_notes",
    "word_weights",
]

# The marks of rows without weights: the text was in the source, or it stands for something that the model wrote.
COPIED, REPLACED = "copied", "replaced"


class ShownWord(NamedTuple):
    """A row of a picture, with the characters of the written text that its weights are of.

    A word without a ``span`` was not written by the model. Its ``mark`` says where the word comes from. ``shown`` is
    the word as the user sees it, such as with a capital.
    """

    text: str
    span: Span | None = None
    mark: str = ""
    shown: str = ""


def shown_words(
    text: str, trace: Sequence[Span] | None, written: str, tokens: Sequence[Span], source: str
) -> list[ShownWord]:
    """Return the rows for a text that is shown, in its order.

    ``trace`` has the characters of ``written`` that each character of ``text`` comes from, by default the same ones.
    ``tokens`` are spans of ``written``. A written word is a row if its letters and digits are those that are shown in
    its place, or if nothing is. Other words are rows without weights, such as those that were copied from ``source``.

    >>> text = TracedText("See ") + TracedText("a.com", [(4, 7)] * 5) + TracedText(".", start=7)
    >>> rows = shown_words(text.text, text.spans, "See Tom.", [(0, 3), (3, 7), (7, 8)], "Voir a.com.")
    >>> [(row.text, row.span, row.mark) for row in rows]
    [('See', (0, 3), ''), ('a.com', None, 'copied'), ('.', (7, 8), '')]
    """
    shown = TracedText(text, trace)
    words = join_words(word_spans(written), tokens)
    rows: list[tuple[int, ShownWord]] = []
    others = list(text)
    for (start, end), (first, last) in zip(words, shown.moved(words), strict=True):
        word, instead = written[start:end], text[first:last]
        if not instead.strip() or _letters(instead) == _letters(word):
            rows.append((first, ShownWord(word, (start, end), shown=instead.strip())))
            others[first:last] = " " * (last - first)
    for match in re.finditer(r"\S+", "".join(others)):
        mark = COPIED if match.group() in source else REPLACED
        rows.append((match.start(), ShownWord(match.group(), mark=mark)))
    return [row for _, row in sorted(rows, key=lambda placed: placed[0])]


def _letters(text: str) -> str:
    return "".join(letter for letter in text.casefold() if letter.isalnum())


def read_words(read: str, tokens: Sequence[Span]) -> list[Span]:
    """Return the words of a text as spans, which are the columns. The last token ends the text that was read."""
    end = tokens[-1][1] if tokens else 0
    return join_words([span for span in word_spans(read) if span[0] < end], tokens)


def word_weights(
    weights: np.ndarray,
    rows: Sequence[ShownWord],
    columns: Sequence[Span],
    *,
    written: tuple[str, Sequence[Span]],
    read: tuple[str, Sequence[Span]],
) -> np.ma.MaskedArray:
    """Return the weights ``(rows,columns)``, merged from those ``(t,s)`` of tokens.

    Weights are summed over the tokens of a column and averaged over the tokens of a row. ``written`` and ``read`` are
    texts with the spans of their tokens. A token without a character, or of a space alone, belongs to the next word.
    Rows without weights are masked.
    """
    real = [row.span for row in rows if row.span is not None]
    found = np.ma.masked_all((len(rows), len(columns)))
    if real and columns:
        of_rows = words_of_tokens(_with_characters(*written), real)  # (words,t)
        of_columns = words_of_tokens(_with_characters(*read), columns)  # (words,s)
        found[[row.span is not None for row in rows]] = merge_tokens(weights, of_rows, of_columns)
    # A reader that ignores the mask gets no number.
    found.data[found.mask] = np.nan
    return found


def _with_characters(text: str, tokens: Sequence[Span]) -> list[Span]:
    """Return the spans of tokens, where one without a visible character has the span of the next one with some."""
    spans, following = [], (0, 0)
    for start, end in reversed(tokens):
        following = (start, end) if text[start:end].strip() else following
        spans.append(following)
    return spans[::-1]


def json_rows(weights: np.ma.MaskedArray) -> list[list[float | None] | None]:
    """Return weights as JSON values, with None for a row without weights and for a weight that was not computed."""
    rows = [[None if weight is None else round(weight, 4) for weight in row] for row in weights.tolist()]
    return [None if all(weight is None for weight in row) else row for row in rows]


def text_notes(**texts: tuple[str, Any]) -> list[str]:
    """Return a line for each text of the model that differs from that of the user, beyond white space.

    >>> text_notes(read=("The cat.", "THE  CAT."), wrote=("Le chat.", "Le chat."))
    ['the model read: The cat.']
    """
    return [
        f"the model {verb}: {ours.strip()}"
        for verb, (ours, theirs) in texts.items()
        if ours.split() != theirs.split()
    ]
