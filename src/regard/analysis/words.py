"""From tokens to words: models attend between tokens, people read words."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from regard.errors import ArgumentError

__all__ = ["merge_tokens", "word_spans", "words_of_tokens"]

Span = tuple[int, int]
_HAN = re.compile(r"[\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd]")
_ELIDED = r"(?:[cdjlmnst]|qu|lorsqu|puisqu|jusqu|quoiqu)['’]"
_LETTERS = r"(?:[^\W_][\u0300-\u036f]*)+"  # an accent may be a sign of its own
_WORD = re.compile(rf"\d+(?:[.,]\d+)+|(?i:\b{_ELIDED})(?!\w)|{_LETTERS}(?:['’]{_LETTERS})*|[^\w\s]|_")


def word_spans(text: str) -> list[Span]:
    """Where the words and marks of a text are; each Han character counts as a word.

    French elisions stay with the word that lost its vowel, English contractions stay whole.

    >>> text = "L'ami n'est pas là. I don't."
    >>> [text[a:b] for a, b in word_spans(text)]
    ["L'", 'ami', "n'", 'est', 'pas', 'là', '.', 'I', "don't", '.']
    >>> [text[a:b] for text in ["猫坐。"] for a, b in word_spans(text)]
    ['猫', '坐', '。']
    """
    found: list[Span] = []
    for match in _WORD.finditer(text):
        found.extend(_parts(text, *match.span()))
    return found


def _parts(text: str, start: int, end: int) -> list[Span]:
    """One stretch without spaces as words: Han characters singly, elided words apart."""
    word = text[start:end]
    if _HAN.search(word):
        return [(i, i + 1) for i in range(start, end)]
    elided = re.match(rf"(?i){_ELIDED}(?=\w)", word)
    if elided and not re.fullmatch(r"(?i)\w['’](?:s|m|d|ll|re|ve|t)", word):
        return [(start, start + elided.end()), *_parts(text, start + elided.end(), end)]
    return [(start, end)]


def words_of_tokens(tokens: Sequence[Span], words: Sequence[Span]) -> list[int | None]:
    """For each token the word it lies in, by the characters they share; None for a token of spaces.

    >>> words_of_tokens([(0, 3), (3, 7), (7, 8)], [(0, 3), (4, 8)])
    [0, 1, 1]
    """
    found: list[int | None] = []
    for start, end in tokens:
        shared = [min(end, stop) - max(start, begin) for begin, stop in words]
        best = max(range(len(words)), key=shared.__getitem__, default=None)
        found.append(best if best is not None and shared[best] > 0 else None)
    return found


def merge_tokens(
    weights: np.ndarray, rows: Sequence[int | None], columns: Sequence[int | None], shape: tuple[int, int]
) -> np.ndarray:
    """Weights between tokens ``(q,k)`` as weights between words: sums over a key word, means over a query word.

    ``rows`` and ``columns`` say which word each token belongs to; tokens of no word are left out.

    >>> merge_tokens(np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]), [0, 0], [0, 0, 1], (1, 2))
    array([[0.5, 0.5]])
    """
    if weights.shape != (len(rows), len(columns)):
        raise ArgumentError("weights", f"expected {(len(rows), len(columns))}, got {weights.shape}")
    to_rows, to_columns = _membership(rows, shape[0]), _membership(columns, shape[1])
    counts = np.maximum(to_rows.sum(axis=1, keepdims=True), 1)
    return (to_rows @ weights @ to_columns.T) / counts


def _membership(words: Sequence[int | None], count: int) -> np.ndarray:
    """1 where a token (column) belongs to a word (row)."""
    table = np.zeros((count, len(words)))
    for token, word in enumerate(words):
        if word is not None:
            table[word, token] = 1
    return table
