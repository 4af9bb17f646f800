"""The best spans of a context, over all windows that a model read of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

__all__ = ["FoundSpan", "best_spans"]


class FoundSpan(NamedTuple):
    """The first and the last token of a span of the context, and its probability among all spans and no answer."""

    first: int
    last: int
    confidence: float


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
    scores = np.full((tokens, most_tokens), -np.inf)  # (tokens, length of the span - 1)
    none = np.inf
    for begin, start_logits, end_logits in windows:
        start, end = _normalised(start_logits), _normalised(end_logits)
        none = min(none, start[0] + end[0])
        inner, last = start[1:], end[1:]
        for more in range(min(most_tokens, len(inner))):
            place = scores[begin : begin + len(inner) - more, more]
            np.maximum(place, inner[: len(inner) - more] + last[more:], out=place)
    most = max(float(scores.max(initial=-np.inf)), none)
    shares, none_share = np.exp(scores - most), float(np.exp(none - most))
    total = shares.sum() + none_share
    flat = shares.reshape(-1)
    count = min(top, int((flat > 0).sum()))
    order = np.argsort(-flat, kind="stable")[:count]
    found = [
        FoundSpan(
            int(place // most_tokens), int(place // most_tokens + place % most_tokens), flat[place] / total
        )
        for place in order
    ]
    return [FoundSpan(a, b, float(share)) for a, b, share in found], float(none_share / total)


def _normalised(logits: np.ndarray) -> np.ndarray:
    """Return the logarithms of the probabilities."""
    logits = logits.astype(np.float64)
    most = logits.max()
    return logits - most - np.log(np.exp(logits - most).sum())
