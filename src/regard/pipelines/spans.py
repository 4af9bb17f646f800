"""Spans of answers in a context, and the overlapping windows of a long context."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from regard.errors import ArgumentError
from regard.shapes import whole_number

__all__ = ["best_spans", "windows"]


def windows(length: int, size: int, overlap: int) -> Iterator[tuple[int, int]]:
    """Yield the start and the end (exclusive) of overlapping windows over ``length`` tokens.

    >>> list(windows(10, 6, 2))
    [(0, 6), (4, 10)]
    """
    if size <= overlap and length > size:
        problem = f"parts of {size} context tokens cannot overlap in {overlap}"
        raise ArgumentError("doc_stride", problem, "make it smaller, or max_seq_len larger")
    start = 0
    while True:
        yield start, min(start + size, length)
        if start + size >= length:
            return
        start += size - overlap


def best_spans(
    start: Tensor,
    end: Tensor,
    places: range,
    *,
    most: int,
    longest: int,
    with_nothing: bool = False,
) -> tuple[list[tuple[int, int, float]], float]:
    """Return the most probable spans as (first, last, probability), and the probability of no answer.

    ``start (n,)`` and ``end (n,)`` are logits of all tokens. Answers are in the range ``places``, and spans are counted
    from its start. The first token stands for no answer and takes part in the softmax. ``with_nothing`` asks for the
    probability that both ends are there.

    >>> logits = torch.tensor([0.0, 0.0, 5.0, 0.0])
    >>> best_spans(logits, logits, range(1, 4), most=1, longest=2)[0][0][:2]
    (1, 1)
    """
    longest = whole_number("max_answer_len", longest, least=1)
    kept = [0, *places] if places.start > 0 else list(places)
    begins, ends = start[kept].softmax(dim=0), end[kept].softmax(dim=0)  # (1 + context,)
    nothing = float(begins[0] * ends[0]) if with_nothing else 1.0
    if places.start > 0:
        begins, ends = begins[1:], ends[1:]  # (context,)
    scores = torch.outer(begins, ends).triu().tril(longest - 1)  # (context,context)
    values, flat = scores.flatten().topk(min(most, scores.numel()))
    found = [
        (number // len(ends), number % len(ends), value)
        for value, number in zip(values.tolist(), flat.tolist(), strict=True)
        if value > 0
    ]
    return found, nothing
