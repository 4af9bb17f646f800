"""The most probable answers of a context, over all windows that a model read of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from regard.analysis import word_spans

__all__ = [
    "FoundSpan",
    "FoundText",
    "add_span",
    "best_spans",
    "log_probabilities",
    "most_probable",
    "share_joined",
    "span_scores",
]


class FoundSpan(NamedTuple):
    """The first and the last token of a span, and its probability."""

    first: int
    last: int
    confidence: float


@dataclass
class FoundText:
    """A text with the sum of the probabilities of its places, and the place that was added first.

    ``window`` is the window in which this place has its highest probability ``best``.
    """

    start: int
    end: int
    confidence: float = 0.0
    best: float = 0.0
    window: Any = None


def best_spans(
    windows: Sequence[tuple[int, np.ndarray, np.ndarray]], tokens: int, *, most_tokens: int, top: int = 1
) -> tuple[list[FoundSpan], float]:
    """Return the most probable spans of a context of some ``tokens``, and the probability of no answer.

    Each window is (index of its first token, start logits, end logits). The first of its start logits and the first of
    its end logits stand for no answer in this window. The logits of each window are normalised, so that windows
    compare. A span in two windows has the higher of its two scores, and no answer the lowest score of all windows. The
    probabilities of all spans of at most ``most_tokens`` tokens and of no answer sum to 1.

    >>> start, end = np.array([0.0, 9.0, 0.0, 0.0]), np.array([0.0, 0.0, 9.0, 0.0])
    >>> found, none = best_spans([(0, start, end)], 3, most_tokens=3)
    >>> found[0][:2], round(found[0].confidence, 3)
    ((0, 1), 1.0)
    """
    scores = np.full((tokens, min(most_tokens, tokens)), -np.inf)  # (tokens, length of the span - 1)
    none = np.inf
    for begin, start_logits, end_logits in windows:
        start, end = log_probabilities(start_logits), log_probabilities(end_logits)
        none = min(none, start[0] + end[0])
        inner = span_scores(start[1:], end[1:], most_tokens)
        place = scores[begin : begin + inner.shape[0], : inner.shape[1]]
        np.maximum(place, inner, out=place)
    most = max(float(scores.max(initial=-np.inf)), none)
    shares, none_share = np.exp(scores - most), float(np.exp(none - most))
    total = shares.sum() + none_share
    return most_probable(shares / total, top), float(none_share / total)


def log_probabilities(logits: np.ndarray) -> np.ndarray:
    """Return the logarithms of the softmax of logits ``(n,)``."""
    logits = logits.astype(np.float64)
    most = logits.max()
    return logits - most - np.log(np.exp(logits - most).sum())


def span_scores(start: np.ndarray, end: np.ndarray, most_tokens: int) -> np.ndarray:
    """Return the sums of the scores ``(n,)`` of the first and of the last token of each span.

    The result is ``(n, length - 1)``, for spans of at most ``most_tokens`` tokens. It is -inf where the span would end
    behind the last token.

    >>> span_scores(np.array([1.0, 2.0]), np.array([10.0, 20.0]), 9)
    array([[ 11.,  21.],
           [ 22., -inf]])
    """
    count = len(start)
    scores = np.full((count, min(most_tokens, count)), -np.inf)  # (n, length of the span - 1)
    for more in range(scores.shape[1]):
        scores[: count - more, more] = start[: count - more] + end[more:]
    return scores


def most_probable(probabilities: np.ndarray, most: int) -> list[FoundSpan]:
    """Return at most ``most`` spans with their ``probabilities (n, length - 1)``, the most probable first.

    Spans with a probability of 0 are left out.
    """
    flat, lengths = probabilities.reshape(-1), probabilities.shape[1]
    order = np.argsort(-flat, kind="stable")[: min(most, int((flat > 0).sum()))]
    return [
        FoundSpan(int(place // lengths), int(place // lengths + place % lengths), float(flat[place]))
        for place in order
    ]


def add_span(
    found: dict[str, FoundText], key: str, span: tuple[int, int], probability: float, window: Any = None
) -> None:
    """Add the probability of a span of characters to the text ``key``. Spans with equal texts have the same key."""
    one = found.setdefault(key, FoundText(*span))
    one.confidence += probability
    if span == (one.start, one.end) and probability > one.best:
        one.best, one.window = probability, window


def share_joined(found: dict[str, FoundText]) -> None:
    """Lower the probability of each text that contains another text of ``found`` twice.

    A model scores the start and the end of an answer apart. If "Ann" occurs twice, it gives "Ann sat. Ann" some
    probability, with the start of one "Ann" and the end of the other. Such a text keeps the share ``p / (p + q)`` of
    its probability ``p``, where ``q`` is that of the text that it contains twice. If it also begins and ends with that
    text, which then is a reading of both ends, the text gets the rest.

    >>> found = {"ann": FoundText(0, 3, 0.4), "ann sat ann": FoundText(0, 12, 0.6)}
    >>> share_joined(found)
    >>> {text: round(one.confidence, 2) for text, one in found.items()}
    {'ann': 0.64, 'ann sat ann': 0.36}
    """
    alone = {text: one.confidence for text, one in found.items()}
    for text, own in alone.items():
        repeated = {part: joins for part, joins in _repeated(text).items() if part in alone}
        if not repeated:
            continue
        part = max(repeated, key=alone.__getitem__)
        moved = own * alone[part] / (own + alone[part])
        found[text].confidence -= moved
        if repeated[part]:
            found[part].confidence += moved


def _repeated(text: str) -> dict[str, bool]:
    """Return the sequences of words that occur twice in a text without sharing a word.

    The value of each says whether the text begins and ends with it.
    """
    spans = word_spans(text)
    count = len(spans)
    if len({text[a:b] for a, b in spans}) == count:
        return {}
    parts: dict[str, int] = {}  # the first word of the first place of each sequence
    repeated: dict[str, bool] = {}
    for size in range(1, count // 2 + 1):
        for first in range(count - size + 1):
            part = text[spans[first][0] : spans[first + size - 1][1]]
            earlier = parts.setdefault(part, first)
            if earlier + size <= first:
                repeated[part] = earlier == 0 and first + size == count
    return repeated
