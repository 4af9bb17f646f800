"""What single heads do, and which of them do the same."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.analysis._layers import as_map, as_maps, heads_of, layer_of, names_of, same_grid
from regard.errors import ArgumentError
from regard.maps import AttentionMap

__all__ = [
    "Link",
    "cluster_heads",
    "distance",
    "entropy",
    "head_agreement",
    "head_table",
    "received",
    "sink_mass",
    "top_links",
]

ROWS = 64  # queries that are looked at together, so that memory does not grow with the length


@dataclass(frozen=True)
class Link:
    """One large weight: which query looked at which key, in which sequence, layer and head."""

    weight: float
    layer: int  # of the model, where records know it; else among those that were looked through
    head: int
    batch: int
    query: int
    key: int
    query_token: str | None = None
    key_token: str | None = None


def entropy(weights: Any) -> np.ndarray:
    """How wide each query looks, in nats, ``(b,h,q)``: 0 on one key, log k when even.

    >>> entropy(np.array([[1.0, 0.0], [0.5, 0.5]])).round(3)
    array([[[0.   , 0.693]]])
    """
    return _numpy(as_map("weights", weights).entropy())


def received(weights: Any) -> np.ndarray:
    """The mean weight that each key gets from a query, ``(b,h,k)``.

    >>> received(np.array([[1.0, 0.0], [0.5, 0.5]]))
    array([[[0.75, 0.25]]])
    """
    found = as_map("weights", weights)
    return _numpy(found.received()) / max(1, found.shape[2])


def distance(weights: Any) -> np.ndarray:
    """How far each query looks on average, in tokens, ``(b,h,q)``; the last query stands at the last key.

    >>> distance(np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.5, 0.0, 0.5]]))
    array([[[0. , 0.5, 1. ]]])
    """
    found = as_map("weights", weights)
    b, h, q, k = found.shape
    keys = torch.arange(k, dtype=torch.float64)
    out = np.zeros((b, h, q))
    for rows in _row_blocks(q):
        own = torch.arange(rows.start, rows.stop, dtype=torch.float64) + (k - q)
        steps = (own[:, None] - keys[None, :]).abs()  # (q,k)
        for batch, head in np.ndindex(b, h):
            part = found[batch, head, rows].double().cpu()  # (q,k)
            out[batch, head, rows] = (part * steps).sum(-1).numpy()
    return out


def sink_mass(weights: Any, key: int = 0) -> np.ndarray:
    """The mean weight on one key, the first by default, ``(b,h)``: near 1 where a head rests on it.

    Queries that see nothing but this key (the first of a causal model) say nothing about it and are left out.

    >>> sink_mass(np.array([[1.0, 0.0, 0.0], [0.9, 0.1, 0.0], [0.7, 0.2, 0.1]])).round(2)
    array([[0.8]])
    """
    found = as_map("weights", weights)
    b, h, q, k = found.shape
    if not -k <= key < k:
        raise ArgumentError("key", f"expected a key of {k}, got {key}")
    total, count = np.zeros((b, h)), np.zeros((b, h))
    for rows in _row_blocks(q):
        for batch, head in np.ndindex(b, h):
            part = _numpy(found[batch, head, rows])  # (q,k)
            on, all_of_it = part[:, key], part.sum(-1)
            free = all_of_it - on > 0
            total[batch, head] += on[free].sum()
            count[batch, head] += free.sum()
    return np.divide(total, count, out=np.zeros((b, h)), where=count > 0)


def top_links(layers: Any, n: int = 10) -> list[Link]:
    """The n largest weights of one layer or of several, largest first, with their tokens where records know them.

    >>> [(link.query, link.key, link.weight) for link in top_links(np.array([[0.9, 0.1], [0.3, 0.7]]), 2)]
    [(0, 0, 0.9), (1, 1, 0.7)]
    """
    if n < 1:
        raise ArgumentError("n", f"expected a whole number of 1 or more, got {n}")
    maps = as_maps("layers", layers)
    records = layers if isinstance(layers, Sequence) else [layers]
    links = [link for layer, one in enumerate(maps) for link in _top_of(one, n, layer, records[layer])]
    return sorted(links, key=lambda link: -link.weight)[:n]


def _top_of(found: AttentionMap, n: int, layer: int, record: Any) -> Iterator[Link]:
    best = found.topk(min(n, found.shape[3]))
    values, keys = _numpy(best.weights), best.keys.cpu().numpy()  # (b,h,q,n)
    order = np.argsort(-values, axis=None, kind="stable")[:n]
    heads = heads_of(record, found.shape[1])
    for b, h, q, place in zip(*np.unravel_index(order, values.shape), strict=True):
        key = int(keys[b, h, q, place])
        tokens = (_token(record, "query_tokens", b, q), _token(record, "key_tokens", b, key))
        where = (layer_of(record, layer), heads[h], int(b), int(q), key)
        yield Link(float(values[b, h, q, place]), *where, *tokens)


def head_table(layers: Any) -> Any:
    """One row for each head of each layer: entropy, distance, mass on the first key, largest weight, as means.

    A pandas ``DataFrame`` where pandas is installed, else a list of dictionaries.

    >>> rows = head_table([np.eye(3), np.full((3, 3), 1 / 3)])
    >>> len(rows)
    2
    """
    maps = as_maps("layers", layers)
    records = layers if isinstance(layers, Sequence) else [layers]
    rows = []
    for place, (name, one) in enumerate(zip(names_of(layers, len(maps)), maps, strict=True)):
        columns = {
            "entropy": entropy(one).mean((0, 2)),
            "distance": distance(one).mean((0, 2)),
            "first": sink_mass(one).mean(0),
            "largest": _numpy(one.topk(1).weights).mean((0, 2, 3)),
        }
        for head, number in enumerate(heads_of(records[place], one.shape[1])):
            row: dict[str, Any] = {"layer": layer_of(records[place], place), "name": name, "head": number}
            rows.append(row | {title: float(values[head]) for title, values in columns.items()})
    return _table(rows)


def head_agreement(layers: Any) -> np.ndarray:
    """How alike heads look, ``(heads, heads)`` over the heads of all layers, in order: 1 for the same weights, 0 for
    no key in common.

    It is the Bhattacharyya coefficient of two rows of weights, the sum of sqrt(w1 w2), as a mean over the queries.

    >>> one, other = np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> head_agreement([one, other])
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    maps = as_maps("layers", layers)
    b, q, _ = same_grid("layers", maps)
    heads = sum(one.shape[1] for one in maps)
    total = np.zeros((heads, heads))
    seen = 0
    for batch in range(b):
        for rows in _row_blocks(q):
            parts = [one[batch, :, rows].double().cpu().clamp(min=0).sqrt().flatten(1) for one in maps]
            roots = torch.cat(parts)  # (heads, q k)
            total += (roots @ roots.T).numpy()
            seen += rows.stop - rows.start
    return total / max(1, seen)


def cluster_heads(layers: Any, count: int) -> np.ndarray:
    """Heads that look alike under one number, ``(heads,)``: the heads of all layers, in order, in ``count`` groups.

    Groups are joined by the mean agreement of their members, the most alike first. Group 0 holds the first head.

    >>> one, other = np.eye(2), np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> cluster_heads([one, other, one], 2)
    array([0, 1, 0])
    """
    alike = head_agreement(layers)
    heads = len(alike)
    if not 1 <= count <= heads:
        raise ArgumentError("count", f"expected 1 to {heads} groups, got {count}")
    groups = [[head] for head in range(heads)]
    links = alike.copy()  # mean agreement between groups
    np.fill_diagonal(links, -np.inf)
    while len(groups) > count:
        i, j = sorted(np.unravel_index(links.argmax(), links.shape))
        a, c = len(groups[i]), len(groups[j])
        joined = (a * links[i] + c * links[j]) / (a + c)
        links[i], links[:, i] = joined, joined
        links[i, i] = -np.inf
        links = np.delete(np.delete(links, j, axis=0), j, axis=1)
        groups[i] += groups.pop(j)
    labels = np.zeros(heads, dtype=int)
    for label, members in enumerate(sorted(groups, key=min)):
        labels[members] = label
    return labels


def _row_blocks(q: int) -> list[slice]:
    return [slice(start, min(q, start + ROWS)) for start in range(0, q, ROWS)]


def _numpy(values: Tensor) -> np.ndarray:
    return values.double().cpu().numpy()


def _token(record: Any, side: str, batch: int, place: int) -> str | None:
    labels = getattr(record, side, None)
    if labels is None and side == "key_tokens" and getattr(record, "kind", "") in ("self", "causal"):
        labels = getattr(record, "query_tokens", None)
    return labels[batch][place] if labels is not None and place < len(labels[batch]) else None


def _table(rows: list[dict[str, Any]]) -> Any:
    if importlib.util.find_spec("pandas") is None:
        return rows
    import pandas

    return pandas.DataFrame(rows)
