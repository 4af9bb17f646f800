"""Attention between the words of a text that a model wrote."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from regard.analysis import join_words, merge_tokens, word_spans, words_of_tokens
from regard.tasks.write.writing import WordAttention

__all__ = ["word_attention"]

# Written words that are shown, and words before them. Earlier words share the first column.
ROWS, COLUMNS = 12, 20
EARLIER = "…"
SIGNS = {"\n": "↵", "\t": "⇥", " ": "␣"}


def word_attention(
    weights: np.ndarray,
    texts: Sequence[str],
    names: Sequence[str],
    *,
    written: int,
    specials: Collection[int] = (),
) -> list[WordAttention]:
    """Return the attention with which the last words of a text were written.

    ``weights (n,n)`` are those of all tokens, of which the first have the ``names`` and the others the ``texts``. The
    last ``written`` of these were written by the model. Those at the places ``specials`` are words of their own. A row
    of a token shows the step that chose it, whose query is the token before it.
    """
    known, count = len(names), len(names) + len(texts)
    spans = _spans(texts)
    words = _all_words("".join(texts), spans, specials)
    if not words:
        return []
    of_words = words_of_tokens([(a, max(b, a + 1)) for a, b in spans], words)  # (words,texts)
    table = np.zeros((known + len(words), count))
    table[:known, :known] = np.eye(known)
    table[known:, known:] = of_words
    # Token i was chosen by the query of token i - 1. The first token of a text was chosen by no query.
    steps = np.vstack([np.zeros((1, count)), weights[:-1]])  # (n,n)
    chosen = table.copy()
    chosen[:, : max(1, count - written)] = 0  # only tokens that were written
    rows = [row for row in range(known, len(table)) if chosen[row].sum() > 0][-ROWS:]
    if not rows:
        return []
    merged = merge_tokens(steps, chosen[rows], table)  # (rows,words)
    labels = [*names, *(_label("".join(texts)[a:b]) for a, b in words)]
    first = max(0, rows[0] - (COLUMNS - ROWS))
    shown = merged[:, first:]
    columns = labels[first:]
    if first:
        shown = np.hstack([merged[:, :first].sum(axis=1, keepdims=True), shown])
        columns = [EARLIER, *columns]
    return [WordAttention([labels[row] for row in rows], columns, shown)]


def _spans(texts: Sequence[str]) -> list[tuple[int, int]]:
    """Return the spans of texts that follow one another."""
    ends = np.cumsum([len(text) for text in texts]).tolist()
    return [(end - len(text), end) for text, end in zip(texts, ends, strict=True)]


def _all_words(text: str, tokens: list[tuple[int, int]], specials: Collection[int]) -> list[tuple[int, int]]:
    """Return spans that cover the whole text, in which each special token is a word."""
    found, place = [], 0
    for start, end in [*(tokens[i] for i in sorted(specials)), (len(text), len(text))]:
        inside = [(a - place, b - place) for a, b in tokens if place <= a and b <= start]
        found += [(a + place, b + place) for a, b in _whole_words(text[place:start], inside)]
        found += [(start, end)] * (end > start)
        place = end
    return found


def _whole_words(text: str, tokens: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return spans that cover the whole text, in which the space before a word belongs to the word.

    Line ends are words of their own. Words that are in one token are one word.
    """
    found, place = [], 0
    for start, end in [*word_spans(text), (len(text), len(text))]:
        gap = text[place:start]
        broken = place + gap.rfind("\n") + 1 if "\n" in gap else place
        if broken > place:
            found.append((place, broken))
        if end > broken:
            found.append((broken, end))
        place = end
    return join_words(found, tokens)


def _label(word: str) -> str:
    """Return a word without spaces around it, or signs for a word of spaces only."""
    return word.strip() or "".join(SIGNS.get(sign, sign) for sign in word[:3])
