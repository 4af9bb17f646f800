"""What single heads do, and which of them do the same."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor

from regard.analysis._layers import (
    Layer,
    as_map,
    as_maps,
    heads_of,
    layer_of,
    names_of,
    of_each_layer,
    same_grid,
)
from regard.analysis._queries import padding_queries
from regard.errors import ArgumentError
from regard.maps import AttentionMap
from regard.shapes import whole_number

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

NUMBERS = 2**20  # weights that are looked at together, so that memory does not grow with the length
ROWS = 64  # queries of all heads of all layers that are compared together


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


@overload
def entropy(weights: Sequence[Any]) -> list[np.ndarray]: ...
@overload
def entropy(weights: Layer) -> np.ndarray: ...
def entropy(weights: Any) -> np.ndarray | list[np.ndarray]:
    """How wide each query looks, in nats, ``(b,h,q)``: 0 on one key, log k when even; a list of these for layers.

    Queries that are padding have a number here too; :func:`head_table` leaves them out.

    >>> entropy(np.array([[1.0, 0.0], [0.5, 0.5]])).round(3)
    array([[[0.   , 0.693]]])
    """
    return of_each_layer("weights", weights, lambda name, layer: _numpy(as_map(name, layer).entropy()))


@overload
def received(weights: Sequence[Any]) -> list[np.ndarray]: ...
@overload
def received(weights: Layer) -> np.ndarray: ...
def received(weights: Any) -> np.ndarray | list[np.ndarray]:
    """The mean weight that each key gets from a query, ``(b,h,k)``; a list of these for layers.

    Left out are queries that see nothing, and those of padding where the map has its mask: in self-attention, the
    queries whose own key is hidden from all.

    >>> received(np.array([[1.0, 0.0], [0.5, 0.5]]))
    array([[[0.75, 0.25]]])
    """
    return of_each_layer("weights", weights, _received)


def _received(argument: str, layer: Any) -> np.ndarray:
    found = as_map(argument, layer)
    b, h, _, k = found.shape
    padding = padding_queries(layer, found)  # (b,q)
    total, count = np.zeros((b, h, k)), np.zeros((b, h, 1))
    for batch, rows, part in _blocks(found):
        counted = _with_keys(part) & ~padding[batch, rows]  # (h,q)
        total[batch] += np.where(counted[..., None], part, 0).sum(1)
        count[batch] += counted.sum(1, keepdims=True)
    return _divided(total, count)


@overload
def distance(weights: Sequence[Any]) -> list[np.ndarray]: ...
@overload
def distance(weights: Layer) -> np.ndarray: ...
def distance(weights: Any) -> np.ndarray | list[np.ndarray]:
    """How far each query looks on average, in tokens, ``(b,h,q)``; the last query stands at the last key.

    Layers give a list of these. Queries that are padding have a number here too; :func:`head_table` leaves them out.

    >>> distance(np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.5, 0.0, 0.5]]))
    array([[[0. , 0.5, 1. ]]])
    """
    return of_each_layer("weights", weights, _distance)


def _distance(argument: str, layer: Any) -> np.ndarray:
    found = as_map(argument, layer)
    b, h, q, k = found.shape
    out = np.zeros((b, h, q))
    for batch, rows, part in _blocks(found):
        out[batch, :, rows] = (part * _steps(rows, q, k)).sum(-1)
    return out


def _steps(rows: slice, q: int, k: int) -> np.ndarray:
    """From each query how far it is to each key, ``(q,k)``."""
    own = np.arange(rows.start, rows.stop) + (k - q)
    return np.abs(own[:, None] - np.arange(k)[None, :])


@overload
def sink_mass(weights: Sequence[Any], key: int = 0) -> list[np.ndarray]: ...
@overload
def sink_mass(weights: Layer, key: int = 0) -> np.ndarray: ...
def sink_mass(weights: Any, key: int = 0) -> np.ndarray | list[np.ndarray]:
    """The mean weight on one key, the first by default, ``(b,h)``: near 1 where a head rests on it.

    Layers give a list of these. Queries that see nothing but this key (the first of a causal model) say nothing about
    it and are left out, as are those of padding where the map has its mask.

    >>> sink_mass(np.array([[1.0, 0.0, 0.0], [0.9, 0.1, 0.0], [0.7, 0.2, 0.1]])).round(2)
    array([[0.8]])
    """
    return of_each_layer("weights", weights, lambda name, layer: _divided(*_on_key(name, layer, key)))


def _on_key(argument: str, layer: Any, key: int) -> tuple[np.ndarray, np.ndarray]:
    """The sum of the weights on a key, and from how many queries they came, ``(b,h)`` each."""
    found = as_map(argument, layer)
    b, h, _, k = found.shape
    if not -k <= whole_number("key", key) < k:
        raise ArgumentError("key", f"expected a key of {k}, got {key}")
    padding = padding_queries(layer, found)  # (b,q)
    total, count = np.zeros((b, h)), np.zeros((b, h))
    for batch, rows, part in _blocks(found):
        on, free = part[:, :, key], _beside(part, key) & ~padding[batch, rows]  # (h,q)
        total[batch] += np.where(free, on, 0).sum(1)
        count[batch] += free.sum(1)
    return total, count


def _with_keys(part: np.ndarray) -> np.ndarray:
    """Which queries see something; what is no number counts, and shows."""
    return ~(part.sum(-1) <= 0)


def _beside(part: np.ndarray, key: int) -> np.ndarray:
    """Which queries see something besides a key."""
    return ~(part.sum(-1) - part[:, :, key] <= 0)


def top_links(layers: Any, n: int = 10) -> list[Link]:
    """The n largest weights of one layer or of several, largest first, with their tokens where records know them.

    Queries of padding are left out, where the map has its mask.

    >>> [(link.query, link.key, link.weight) for link in top_links(np.array([[0.9, 0.1], [0.3, 0.7]]), 2)]
    [(0, 0, 0.9), (1, 1, 0.7)]
    """
    n = whole_number("n", n, least=1)
    maps = as_maps("layers", layers)
    records = layers if isinstance(layers, Sequence) else [layers]
    links = [link for layer, one in enumerate(maps) for link in _top_of(one, n, layer, records[layer])]
    return sorted(links, key=lambda link: -link.weight)[:n]


def _top_of(found: AttentionMap, n: int, layer: int, record: Any) -> Iterator[Link]:
    best = found.topk(min(n, found.shape[3]))
    values, keys = _numpy(best.weights), best.keys.cpu().numpy()  # (b,h,q,n)
    real = np.broadcast_to(~padding_queries(record, found)[:, None, :, None], values.shape)
    order = np.argsort(np.where(real, -values, 1), axis=None, kind="stable")[: min(n, real.sum())]
    heads = heads_of(record, found.shape[1])
    for b, h, q, place in zip(*np.unravel_index(order, values.shape), strict=True):
        key = int(keys[b, h, q, place])
        tokens = (_token(record, "query_tokens", b, q), _token(record, "key_tokens", b, key))
        where = (layer_of(record, layer), heads[h], int(b), int(q), key)
        yield Link(float(values[b, h, q, place]), *where, *tokens)


def head_table(layers: Any) -> Any:
    """One row for each head of each layer: entropy, distance, mass on the first key, largest weight, as means.

    A pandas ``DataFrame`` where pandas is installed, else a list of dictionaries. Every query of the batch counts once,
    but for those that see nothing and those of padding: in self-attention, the queries whose own key the mask hides
    from all.

    >>> rows = head_table([np.eye(3), np.full((3, 3), 1 / 3)])
    >>> len(rows)
    2
    """
    maps = as_maps("layers", layers)
    records = layers if isinstance(layers, Sequence) else [layers]
    rows = []
    for place, (name, one) in enumerate(zip(names_of(layers, len(maps)), maps, strict=True)):
        columns = _means(records[place], one)
        for head, number in enumerate(heads_of(records[place], one.shape[1])):
            row: dict[str, Any] = {"layer": layer_of(records[place], place), "name": name, "head": number}
            rows.append(row | {title: float(values[head]) for title, values in columns.items()})
    return _table(rows)


def _means(record: Any, found: AttentionMap) -> dict[str, np.ndarray]:
    """The columns of a table of heads, ``(h,)`` each: means over the queries that have something to say."""
    _, h, q, k = found.shape
    padding = padding_queries(record, found)  # (b,q)
    names = ("entropy", "distance", "first", "largest")
    total, count = ({name: np.zeros(h) for name in names} for _ in range(2))
    for batch, rows, part in _blocks(found):  # once through the weights for all columns
        real = ~padding[batch, rows]
        counted, free = _with_keys(part) & real, _beside(part, 0) & real  # (h,q)
        columns = {
            "entropy": (torch.special.entr(torch.from_numpy(part)).sum(-1).numpy(), counted),
            "distance": ((part * _steps(rows, q, k)).sum(-1), counted),
            "first": (part[:, :, 0], free),
            "largest": (part.max(-1), counted),
        }
        for name, (values, which) in columns.items():
            total[name] += np.where(which, values, 0).sum(1)
            count[name] += which.sum(1)
    return {name: _divided(total[name], count[name]) for name in names}


def head_agreement(layers: Any) -> np.ndarray:
    """How alike heads look, ``(heads, heads)`` over the heads of all layers, in order: 1 for the same weights, 0 for
    no key in common.

    It is the Bhattacharyya coefficient of two rows of weights, the sum of sqrt(w1 w2), as a mean over the queries that
    see something in both heads and are not padding.

    >>> one, other = np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> head_agreement([one, other])
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    maps = as_maps("layers", layers)
    records = layers if isinstance(layers, Sequence) else [layers]
    b, q, _ = same_grid("layers", maps)
    paddings = [padding_queries(*pair) for pair in zip(records, maps, strict=True)]  # (b,q) of each layer
    heads = sum(one.shape[1] for one in maps)
    total, count = np.zeros((heads, heads)), np.zeros((heads, heads))
    for batch in range(b):
        for rows in _row_blocks(q):
            parts = [
                one[batch, :, rows].double().cpu() * torch.from_numpy(~padding[batch, rows])[:, None]
                for one, padding in zip(maps, paddings, strict=True)
            ]
            roots = torch.cat(parts).clamp(min=0).sqrt()  # (heads,q,k)
            counted = roots.any(dim=-1).double()  # (heads,q)
            roots = roots.flatten(1)
            total += (roots @ roots.T).numpy()
            count += (counted @ counted.T).numpy()
    return _divided(total, count)


def cluster_heads(layers: Any, count: int) -> np.ndarray:
    """Heads that look alike under one number, ``(heads,)``: the heads of all layers, in order, in ``count`` groups.

    Groups are joined by the mean agreement of their members, the most alike first. Group 0 holds the first head.

    >>> one, other = np.eye(2), np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> cluster_heads([one, other, one], 2)
    array([0, 1, 0])
    """
    alike = head_agreement(layers)
    heads = len(alike)
    if not 1 <= whole_number("count", count, least=1) <= heads:
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


def _blocks(found: AttentionMap) -> Iterator[tuple[int, slice, np.ndarray]]:
    """The weights ``(h,q,k)`` of some rows of one sequence at a time, with the sequence and the rows."""
    b, h, q, k = found.shape
    step = max(1, NUMBERS // max(1, h * k))
    for start in range(0, q, step):
        rows = slice(start, min(q, start + step))
        for batch in range(b):
            yield batch, rows, _numpy(found[batch, :, rows])


def _divided(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Means; 0 where there is nothing to take a mean of."""
    return np.divide(total, count, out=np.zeros(total.shape), where=count > 0)


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
