"""Word boundaries of a text, and merging of weights between tokens into weights between words."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from regard.errors import ArgumentError, DtypeError

__all__ = ["join_words", "merge_tokens", "word_spans", "words_of_tokens"]

Span = tuple[int, int]
HAN = re.compile(r"[\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd]")
_ELIDED = r"(?:[cdjlmnst]|qu|lorsqu|puisqu|jusqu|quoiqu)['’]"
# A letter may be followed by combining accents.
_LETTERS = r"(?:[^\W_][\u0300-\u036f]*)+"
_WORD = re.compile(rf"\d+(?:[.,]\d+)+|(?i:\b{_ELIDED})(?!\w)|{_LETTERS}(?:['’]{_LETTERS})*|[^\w\s]|_")


def word_spans(text: str) -> list[Span]:
    """Return the (start, end) spans of the words and punctuation marks of a text, in characters and in order.

    Each Han character is a word. A French elision is a word of its own (``L'``), an English contraction is one word
    (``don't``).

    >>> text = "L'ami n'est pas là. I don't."
    >>> [text[a:b] for a, b in word_spans(text)]
    ["L'", 'ami', "n'", 'est', 'pas', 'là', '.', 'I', "don't", '.']
    >>> [text[a:b] for text in ["猫坐。"] for a, b in word_spans(text)]
    ['猫', '坐', '。']
    """
    if not isinstance(text, str):
        raise DtypeError(
            "text",
            f"expected one text, got {type(text).__name__}",
            "use [word_spans(text) for text in texts]" if isinstance(text, list | tuple) else "pass a str",
        )
    spans: list[Span] = []
    for match in _WORD.finditer(text):
        spans.extend(_parts(text, *match.span()))
    return spans


def _parts(text: str, start: int, end: int) -> list[Span]:
    """Split one match of the word pattern into single Han characters, or an elision and the word after it."""
    word = text[start:end]
    if HAN.search(word):
        return [(i, i + 1) for i in range(start, end)]
    elided = re.match(rf"(?i){_ELIDED}(?=\w)", word)
    if elided and not re.fullmatch(r"(?i)\w['’](?:s|m|d|ll|re|ve|t)", word):
        return [(start, start + elided.end()), *_parts(text, start + elided.end(), end)]
    return [(start, end)]


def words_of_tokens(tokens: Sequence[Span], words: Sequence[Span]) -> np.ndarray:
    """Return the share of each token that lies in each word, ``(words, tokens)``.

    Both are (start, end) spans of one text. Shares are counted by common characters. The shares of a token sum to 1, or
    to 0 if it has no characters of any word. A token may contain several words, as in Chinese.

    >>> words_of_tokens([(0, 3), (3, 7), (7, 10)], [(0, 3), (4, 8), (8, 10)]).round(2)
    array([[1.  , 0.  , 0.  ],
           [0.  , 1.  , 0.33],
           [0.  , 0.  , 0.67]])
    """
    shared = [[max(0, min(end, stop) - max(start, begin)) for start, end in tokens] for begin, stop in words]
    table = np.array(shared, dtype=float).reshape(len(words), len(tokens))
    return table / np.maximum(table.sum(axis=0), 1)


def join_words(words: Sequence[Span], tokens: Sequence[Span]) -> list[Span]:
    """Return the spans of ``words``, with adjacent words joined if one token has characters of both.

    No token is then split between words, so each word has weights of its own. A token of Chinese text often contains
    several characters, of which each is a word for :func:`word_spans`.

    >>> join_words([(0, 1), (1, 2), (2, 3), (3, 4)], tokens=[(0, 1), (1, 3), (3, 4)])
    [(0, 1), (1, 3), (3, 4)]
    """
    joined: list[Span] = []
    for start, end in words:
        if joined and any(a < joined[-1][1] and start < b for a, b in tokens):
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def merge_tokens(weights: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Convert weights between tokens ``(q,k)`` to weights between words ``(words, words)``.

    Weights are summed over the tokens of a key word and averaged over the tokens of a query word. ``rows`` (words, q)
    and ``columns`` (words, k) are the shares of the tokens in the words, from :func:`words_of_tokens`. A query word
    without tokens gets zeros.

    >>> merge_tokens(np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]), np.ones((1, 2)), np.eye(2)[[0, 0, 1]].T)
    array([[0.5, 0.5]])
    """
    expected = (rows.shape[1], columns.shape[1])
    if weights.shape != expected:
        raise ArgumentError("weights", f"expected {expected}, got {weights.shape}")
    tokens = rows.sum(axis=1, keepdims=True)  # (words, 1), 0 for a word without tokens
    means = np.divide(rows, tokens, out=np.zeros_like(rows), where=tokens > 0)
    return means @ weights @ columns.T
