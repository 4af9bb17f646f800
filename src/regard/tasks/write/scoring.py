"""The loss of a language model on a text, in which every token is predicted exactly once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn import functional

from regard.training.batch_progress import with_progress

__all__ = ["Window", "nats_of_tokens", "windows"]

# Tokens that are scored together.
BATCH_TOKENS = 8192


class Window(NamedTuple):
    """A part of a text that the model reads at once, of which the tokens from ``first`` on are scored.

    ``begin`` and ``end`` are places in the text, and ``first`` is a place from ``begin`` to ``end - 1``.
    """

    begin: int
    first: int
    end: int


def windows(length: int, before: int, size: int) -> Iterator[Window]:
    """Yield windows of at most ``size`` tokens that together score the tokens from ``before`` to ``length - 1`` once.

    The first ``before`` tokens of the text are read and not scored. Consecutive windows overlap by half, so that every
    token is predicted from at least ``size // 2`` tokens before it, where the text has so many.

    >>> list(windows(10, 0, 4))
    [Window(begin=0, first=0, end=4), Window(begin=2, first=4, end=6), Window(begin=4, first=6, end=8),
     Window(begin=6, first=8, end=10)]
    >>> list(windows(10, 7, 4))
    [Window(begin=5, first=7, end=9), Window(begin=6, first=9, end=10)]
    """
    first, half = before, max(1, size // 2)
    while first < length:
        end = min(length, size if first == 0 else first + (size - half))
        yield Window(max(0, end - size), first, end)
        first = end


@torch.no_grad()
def nats_of_tokens(
    model: Any, ids: np.ndarray, *, context: int, start: Sequence[int] = (), before: int = 0
) -> float:
    """Return the summed loss of a model on the tokens ``ids (n,)`` from place ``before`` on, in nats.

    The model reads at most ``context`` tokens at once, of which the first are ``start``. Without ``start``, the first
    token of a text has nothing before it and is not scored. The model should be in evaluation mode.
    """
    device = next(model.parameters()).device
    # The last token of a window is scored and not read.
    room = context - len(start) + 1
    first = before if start else max(1, before)
    groups: list[list[Window]] = [[]]
    for one in windows(len(ids), first, room):
        if sum(each.end - each.begin for each in groups[-1]) >= BATCH_TOKENS:
            groups.append([])
        groups[-1].append(one)
    batches = with_progress(groups if groups[0] else [], sum(map(len, groups)), "windows")
    return sum((_nats(model, ids, group, start, device) for group in batches), 0.0)


def _nats(
    model: Any, ids: np.ndarray, group: list[Window], start: Sequence[int], device: torch.device
) -> float:
    """Return the loss of the scored tokens of some windows."""
    longest, known = max(one.end - one.begin for one in group), len(start)
    tokens = np.zeros((len(group), known + longest), dtype=np.int64)  # (b,n), padded at the end
    scored = np.zeros(tokens.shape, dtype=bool)
    tokens[:, :known] = list(start)
    for row, one in enumerate(group):
        tokens[row, known : known + one.end - one.begin] = ids[one.begin : one.end]
        scored[row, known + one.first - one.begin : known + one.end - one.begin] = True
    read = torch.from_numpy(tokens[:, :-1]).to(device)  # (b,n-1)
    logits = model(read)[torch.from_numpy(scored[:, 1:]).to(device)]  # (scored,vocabulary)
    right = torch.from_numpy(tokens[scored]).to(device)  # (scored,)
    return float(functional.cross_entropy(logits.float(), right, reduction="sum"))
