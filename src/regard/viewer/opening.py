"""The choice of the head and the query that a page shows first.

The interest of a query is its largest weight beyond a uniform row. Weights on the query itself do not count, nor do
weights on special tokens such as [CLS], [SEP] and <pad> and on the first token of a text, which attracts unneeded
weight in many heads. A weight on a neighbour counts a tenth. The interest of a head is the mean over its queries,
times the share of different keys among the strongest keys of its queries. A head whose queries all attend to one key
therefore counts little. The page opens on a query with a letter or a digit, not on a punctuation mark, if the head
has such a query.

A page with pictures opens on the queries that are not patches, if there are any. These are words, the names of maps, or
the query of a pooling. Of a model with a class token, the class token is the query.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from regard._tokens import SPECIAL, token_texts
from regard.maps import PictureLayout, Record
from regard.maps.sources import Tile
from regard.viewer.encoding import without_selections
from regard.viewer.tiles import HIDDEN, visible_weights

__all__ = ["opening"]

# The most queries of each head that are computed, evenly spread.
MOST_QUERIES = 48
# The approximate number of weights that are computed in total, and at once.
WORK = 2**23
AT_ONCE = 2**21


class Interest(NamedTuple):
    """The interest of one head, and its most interesting query and key."""

    value: float
    head: int
    row: int
    col: int


def opening(records: Sequence[Record], *, pictured: bool = False) -> dict[str, int]:
    """Return the indices of the most interesting record and head, and of its query (row) and key (column).

    They are the values "record", "head", "row" and "col". Only the first sequence of a batch counts. The interest is
    explained at the top of this module, and computed from a sample of the queries. With ``pictured`` only records
    whose keys are patches of an image are considered.
    """
    wanted = (_pictured(records) if pictured else []) or list(range(len(records)))
    per_row = sum(records[n].map.shape[1] * records[n].map.shape[3] for n in wanted)
    queries = min(MOST_QUERIES, max(4, WORK // per_row))
    found = {n: _best_head(records[n], queries, pictured=pictured) for n in wanted}
    best = max(found, key=lambda n: found[n].value)  # the first of equals
    _, head, row, col = found[best]
    return {"record": best, "head": head, "row": row, "col": col}


def _pictured(records: Sequence[Record]) -> list[int]:
    """Return the indices of the records that a page with pictures may open on.

    Their keys are patches. Records whose queries are no patches come first, and of these the ones with the most
    queries, since the page lists them above the picture.
    """
    placed = [n for n, record in enumerate(records) if _has_places(record)]
    if placed:
        return placed
    patches = [n for n, record in enumerate(records) if record.key_grid]
    others = [n for n in patches if records[n].query_grid is None]
    most = max((records[n].map.shape[2] for n in others), default=0)
    return [n for n in others if records[n].map.shape[2] == most] or patches


@torch.no_grad()
def _best_head(record: Record, count: int, *, pictured: bool = False) -> Interest:
    _, h, q, k = record.map.shape
    source = without_selections(record.map._source)
    queries = np.arange(q)
    if record.pictures is not None and _has_places(record) and record.pictures.words:
        queries = np.array(record.pictures.words[0], dtype=np.int64)
    elif pictured and record.query_grid and record.query_extra:
        queries = np.zeros(1, dtype=np.int64)  # the class token
    chosen = np.unique(np.linspace(0, len(queries) - 1, min(len(queries), count)).round().astype(np.int64))
    rows = queries[chosen]
    last = q - 1 if record.kind == "causal" else 0  # the first query of a causal map sees only itself
    best = Interest(0.0, 0, last, 0)
    special = _special(record, "key"), _special(record, "query")
    marks = _punctuation(record)
    at_once = max(1, AT_ONCE // (len(rows) * k))  # heads
    for first in range(0, h, at_once):
        heads = slice(first, min(h, first + at_once))
        tile = Tile(slice(0, 1), heads, torch.from_numpy(rows), slice(0, k))
        weights = visible_weights(source, tile)[0].nan_to_num(0).numpy()  # (heads, rows, k)
        for n, head_weights in enumerate(weights):
            interest = _interest(head_weights, rows, *special, marks, beside=record.kind != "cross")
            if interest.value > best.value:
                best = interest._replace(head=first + n)
    return best


def _interest(
    weights: np.ndarray,
    rows: np.ndarray,
    special_keys: np.ndarray,
    special_queries: np.ndarray,
    marks: np.ndarray,
    *,
    beside: bool,
) -> Interest:
    """Return the interest of one head from the weights of some of its queries, ``(rows, k)`` with HIDDEN where masked.

    ``rows`` are the indices of these queries. The booleans ``special_keys`` and ``special_queries`` are those of all
    keys and queries, and ``marks`` those of the queries that are punctuation marks. ``beside`` says that queries and
    keys are the same tokens, so that the query itself does not count and its neighbours count a tenth. The field
    ``head`` of the result is 0.

    >>> words = np.array([True, False, False, False])  # the first is special
    >>> eye = np.eye(4)[[0, 3, 0, 1]]  # the second and the fourth attend to each other
    >>> _interest(eye, np.arange(4), words, words, np.zeros(4, dtype=bool), beside=True)
    Interest(value=0.3333333333333333, head=0, row=1, col=3)
    >>> _interest(eye, np.arange(4), words, words, np.array([False, True, False, False]), beside=True)
    Interest(value=0.3333333333333333, head=0, row=3, col=1)
    """
    keys = np.arange(weights.shape[1])
    shift = weights.shape[1] - len(special_queries)  # the last query stands at the last key
    seen = weights > HIDDEN
    even = 1 / np.maximum(1, seen.sum(axis=1, keepdims=True))
    share = np.where(special_keys, 0.0, np.maximum(np.abs(np.where(seen, weights, 0.0)) - even, 0.0))
    if beside:
        apart = np.abs(keys[None, :] - rows[:, None] - shift)
        share = np.where(apart == 0, 0.0, np.where(apart == 1, share / 10, share))
    top, at = share.max(axis=1), share.argmax(axis=1)
    top = np.where(special_queries[rows], 0.0, top)
    counted = max(1, int((~special_queries[rows]).sum()))
    different = len(np.unique(at[top > 0])) / counted
    readable = np.where(marks[rows], 0.0, top)
    best = int((readable if readable.any() else top).argmax())
    return Interest(float(top.sum() / counted * different), 0, int(rows[best]), int(at[best]))


def _has_places(record: Record) -> bool:
    """Return whether the first sequence has patches of pictures among its keys."""
    return record.pictures is not None and bool(record.pictures.sequences[0])


def _outside_picture(layout: PictureLayout, queries: bool, n: int) -> np.ndarray:
    """Return which queries are no words, or which keys are no patches."""
    counted = (
        layout.words[0]
        if queries and layout.words
        else [key for grid in layout.sequences[0] for key in grid.keys]
    )
    outside = np.ones(n, dtype=bool)
    outside[list(counted)] = False
    return outside


def _special(record: Record, side: str) -> np.ndarray:
    """Return which queries or keys of the first sequence are special tokens, as booleans."""
    queries = side == "query"
    n = record.map.shape[2 if queries else 3]
    labels: Any = record.query_tokens if queries else record.key_tokens
    if labels is None and not queries and record.kind != "cross" and record.map.shape[2] == n:
        labels = record.query_tokens
    grid, extra = (record.query_grid, record.query_extra) if queries else (record.key_grid, record.key_extra)
    if record.pictures is not None and _has_places(record):
        return _outside_picture(record.pictures, queries, n)
    special = np.zeros(n, dtype=bool)
    if grid:
        special[: 0 if queries else extra] = True  # a class token is a query like any other
    elif not (queries and record.key_grid):
        special[0] = True
    if labels is not None:
        special |= np.array([SPECIAL.fullmatch(str(word)) is not None for word in labels[0]], dtype=bool)
    # The only query of a pooling is the one to open, although it is the first.
    return np.zeros(n, dtype=bool) if queries and special.all() else special


def _punctuation(record: Record) -> np.ndarray:
    """Return which queries of the first sequence have a label without a letter or a digit, as booleans."""
    if record.query_tokens is None:
        return np.zeros(record.map.shape[2], dtype=bool)
    texts = token_texts(str(word) for word in record.query_tokens[0])
    return np.array([not any(map(str.isalnum, text)) for text in texts], dtype=bool)
