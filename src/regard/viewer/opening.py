"""What a page opens on: a head and a query that look at something worth seeing.

A query looks at something where more of its weight is on another word than an even spread would give it. Weight on
the query itself counts nothing, nor does weight on tokens that stand aside: marks such as [CLS], [SEP] and <pad>,
and the first token of a text, where many heads leave what they do not need. Weight on a neighbour counts a tenth. A
head's figure is the mean of this over its queries, times the share of different keys among those its queries look
at most: a head whose queries all look at one key has little to show.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from regard.maps import Record
from regard.maps.sources import Tile
from regard.viewer.encoding import without_selections
from regard.viewer.tiles import HIDDEN, visible_weights

__all__ = ["opening"]

MOST_QUERIES = 48  # looked at of each head, evenly spread
WORK = 2**23  # weights that are looked at in all, about
AT_ONCE = 2**21  # weights of several heads
MARK = re.compile(r"\[[A-Za-z][^\[\]]*\]|<(?!0x)[^<>\s]+>")
"""Tokens that are no words. The same rule stands in tokens.js."""


class Figure(NamedTuple):
    """How much there is to see in one head, and its best query and key."""

    value: float
    head: int
    row: int
    col: int


def opening(records: Sequence[Record], *, pictured: bool = False) -> dict[str, int]:
    """The record, head, query and key to begin with; ``pictured`` asks for one whose keys are patches."""
    wanted = [n for n, record in enumerate(records) if record.key_grid or not pictured] or [0]
    per_row = sum(records[n].map.shape[1] * records[n].map.shape[3] for n in wanted)
    queries = min(MOST_QUERIES, max(4, WORK // per_row))
    found = {n: _best_head(records[n], queries) for n in wanted}
    best = max(found, key=lambda n: found[n].value)  # the first of equals
    _, head, row, col = found[best]
    return {"record": best, "head": head, "row": row, "col": col}


@torch.no_grad()
def _best_head(record: Record, count: int) -> Figure:
    _, h, q, k = record.map.shape
    source = without_selections(record.map._source)
    rows = np.unique(np.linspace(0, q - 1, min(q, count)).round().astype(np.int64))
    last = q - 1 if record.kind == "causal" else 0  # the first query of a causal map sees only itself
    best = Figure(0.0, 0, last, 0)
    aside = _aside(record, "key"), _aside(record, "query")
    at_once = max(1, AT_ONCE // (len(rows) * k))  # heads
    for first in range(0, h, at_once):
        heads = slice(first, min(h, first + at_once))
        tile = Tile(slice(0, 1), heads, torch.from_numpy(rows), slice(0, k))
        weights = visible_weights(source, tile)[0].nan_to_num(0).numpy()  # (heads, rows, k)
        for n, one in enumerate(weights):
            figure = _figure(one, rows, *aside, beside=record.kind != "cross")
            if figure.value > best.value:
                best = figure._replace(head=first + n)
    return best


def _figure(
    weights: np.ndarray, rows: np.ndarray, keys_aside: np.ndarray, queries_aside: np.ndarray, *, beside: bool
) -> Figure:
    """The figure of one head from the weights of some of its queries, ``(rows, k)`` with HIDDEN where masked.

    >>> words = np.array([True, False, False, False])  # the first stands aside
    >>> eye = np.eye(4)[[0, 3, 0, 1]]  # the second and the fourth look at each other
    >>> _figure(eye, np.arange(4), words, words, beside=True)
    Figure(value=0.3333333333333333, head=0, row=1, col=3)
    """
    keys = np.arange(weights.shape[1])
    shift = weights.shape[1] - len(queries_aside)  # the last query stands at the last key
    seen = weights > HIDDEN
    even = 1 / np.maximum(1, seen.sum(axis=1, keepdims=True))
    share = np.where(keys_aside, 0.0, np.maximum(np.abs(np.where(seen, weights, 0.0)) - even, 0.0))
    if beside:
        apart = np.abs(keys[None, :] - rows[:, None] - shift)
        share = np.where(apart == 0, 0.0, np.where(apart == 1, share / 10, share))
    top, at = share.max(axis=1), share.argmax(axis=1)
    top = np.where(queries_aside[rows], 0.0, top)
    counted = max(1, int((~queries_aside[rows]).sum()))
    different = len(np.unique(at[top > 0])) / counted
    best = int(top.argmax())
    return Figure(float(top.sum() / counted * different), 0, int(rows[best]), int(at[best]))


def _aside(record: Record, side: str) -> np.ndarray:
    """Which queries or keys of the first sequence are no words or patches."""
    queries = side == "query"
    n = record.map.shape[2 if queries else 3]
    labels: Any = record.query_tokens if queries else record.key_tokens
    if labels is None and not queries and record.kind != "cross" and record.map.shape[2] == n:
        labels = record.query_tokens
    grid, extra = (record.query_grid, record.query_extra) if queries else (record.key_grid, record.key_extra)
    aside = np.zeros(n, dtype=bool)
    aside[: extra if grid else 1] = True
    if labels is not None:
        aside |= np.array([MARK.fullmatch(str(word)) is not None for word in labels[0]], dtype=bool)
    return aside
