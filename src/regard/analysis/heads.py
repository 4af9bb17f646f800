"""Statistics of single heads, and clustering of heads with similar weights."""

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
    check_not_negative,
    head_numbers,
    layer_of,
    names_of,
    of_each_layer,
    padding_of,
    same_grid,
)
from regard.errors import ArgumentError
from regard.maps import AttentionMap
from regard.maps.queries import mean_received, row_entropy
from regard.shapes import whole_number

__all__ = [
    "WeightedLink",
    "cluster_heads",
    "distance",
    "entropy",
    "head_agreement",
    "head_table",
    "received",
    "sink_mass",
    "top_links",
]

# The most weights in memory at once, so that memory does not grow with the sequence length.
NUMBERS = 2**20
# The number of queries of all heads of all layers that are compared at once.
ROWS = 64


@dataclass(frozen=True)
class WeightedLink:
    """One large attention weight with its layer, head, sequence, query and key.

    ``layer`` is the layer number in the model for a record, and otherwise the index among the layers of the call.
    The tokens are None if they are unknown.
    """

    weight: float
    layer: int
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
    """Return the entropy of the weights of each query in nats, ``(b,h,q)``.

    It is 0 for weights on a single key and for a fully masked query, log k for uniform weights, and NaN for a query of
    a map with a negative weight. An array with negative weights raises ArgumentError. A sequence of layers gives a
    list. Padding queries are included here, while :func:`head_table` leaves them out.

    >>> entropy(np.array([[1.0, 0.0], [0.5, 0.5]])).round(3)
    array([[[0.   , 0.693]]])
    """
    return of_each_layer("weights", weights, lambda name, layer: _numpy(as_map(name, layer).entropy()))


@overload
def received(weights: Sequence[Any]) -> list[np.ndarray]: ...
@overload
def received(weights: Layer) -> np.ndarray: ...
def received(weights: Any) -> np.ndarray | list[np.ndarray]:
    """Return the mean weight that each key receives over the queries, ``(b,h,k)``.

    The mean leaves out fully masked queries, and padding queries if the map has its mask. A padding query of
    self-attention is one whose own key is hidden from every query. A sequence of layers gives a list.

    >>> received(np.array([[1.0, 0.0], [0.5, 0.5]]))
    array([[[0.75, 0.25]]])
    """
    return of_each_layer("weights", weights, _received)


def _received(argument: str, layer: Any) -> np.ndarray:
    attention_map = as_map(argument, layer)
    padding = torch.from_numpy(padding_of(layer, attention_map))  # (b,q)
    return mean_received(attention_map._source, padding).numpy()


@overload
def distance(weights: Sequence[Any]) -> list[np.ndarray]: ...
@overload
def distance(weights: Layer) -> np.ndarray: ...
def distance(weights: Any) -> np.ndarray | list[np.ndarray]:
    """Return the mean distance in tokens between each query and the keys it attends to, ``(b,h,q)``.

    Distances are weighted by the attention weights. The last query is at the position of the last key that is not a
    sink. Sinks have distance 0. A sequence of layers gives a list. Padding queries are included here, while
    :func:`head_table` leaves them out.

    >>> distance(np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.5, 0.0, 0.5]]))
    array([[[0. , 0.5, 1. ]]])
    """
    return of_each_layer("weights", weights, _distance)


def _distance(argument: str, layer: Any) -> np.ndarray:
    attention_map = as_map(argument, layer)
    b, h, q, k = attention_map.shape
    out = np.zeros((b, h, q))
    for batch, rows, part in _blocks(attention_map):
        out[batch, :, rows] = (part * _distances(rows, q, k, getattr(layer, "sinks", ()))).sum(-1)
    return out


def _distances(rows: slice, q: int, k: int, sinks: Sequence[int] = ()) -> np.ndarray:
    """Return the distance from each query in ``rows`` to each key, ``(rows,k)``, which is 0 for sinks."""
    token = ~np.isin(np.arange(k), list(sinks))
    positions = np.arange(rows.start, rows.stop) + (k - len(sinks) - q)
    return np.abs(positions[:, None] - (np.cumsum(token) - 1)[None, :]) * token


@overload
def sink_mass(weights: Sequence[Any], key: int = 0) -> list[np.ndarray]: ...
@overload
def sink_mass(weights: Layer, key: int = 0) -> np.ndarray: ...
def sink_mass(weights: Any, key: int = 0) -> np.ndarray | list[np.ndarray]:
    """Return the mean weight of the queries on one key, by default the first, ``(b,h)``.

    ``key`` is an index, and a negative one counts from the end. The mean is near 1 for a head that uses the key as an
    attention sink. The mean leaves out queries that see no other key (the first query of a causal model), and padding
    queries if the map has its mask. A sequence of layers gives a list.

    >>> sink_mass(np.array([[1.0, 0.0, 0.0], [0.9, 0.1, 0.0], [0.7, 0.2, 0.1]])).round(2)
    array([[0.8]])
    """
    return of_each_layer("weights", weights, lambda name, layer: _mean(*_on_key(name, layer, key)))


def _on_key(argument: str, layer: Any, key: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the sum of the weights on a key and the number of queries in the sum, ``(b,h)`` each.

    The sum leaves out padding queries and queries without weight on another key.
    """
    attention_map = as_map(argument, layer)
    b, h, _, k = attention_map.shape
    if not -k <= whole_number("key", key) < k:
        raise ArgumentError("key", f"expected the index of one of {k} keys, got {key}")
    padding = padding_of(layer, attention_map)  # (b,q)
    total, count = np.zeros((b, h)), np.zeros((b, h))
    for batch, rows, part in _blocks(attention_map):
        counted = _with_other_keys(part, key) & ~padding[batch, rows]  # (h,q)
        total[batch] += np.where(counted, part[:, :, key], 0).sum(1)
        count[batch] += counted.sum(1)
    return total, count


def _with_keys(part: np.ndarray) -> np.ndarray:
    """Return which queries of weights ``(h,q,k)`` have a non-zero row, ``(h,q)``.

    A row with NaN counts, so that the NaN shows in the result.
    """
    return (part != 0).any(-1)


def _with_other_keys(part: np.ndarray, key: int) -> np.ndarray:
    """Return which queries of weights ``(h,q,k)`` have weight on any other key than ``key``, ``(h,q)``."""
    return (part != 0).sum(-1) > (part[:, :, key] != 0)


def top_links(layers: Any, n: int = 10) -> list[WeightedLink]:
    """Return the n largest weights of one or several layers, largest first, as :class:`WeightedLink` objects.

    All heads and all sequences of a batch are ranked together. Records supply the tokens. Padding queries are left out
    if the map has its mask.

    >>> [(link.query, link.key, link.weight) for link in top_links(np.array([[0.9, 0.1], [0.3, 0.7]]), 2)]
    [(0, 0, 0.9), (1, 1, 0.7)]
    """
    n = whole_number("n", n, least=1)
    maps = as_maps("layers", layers)
    records = layers if isinstance(layers, Sequence) else [layers]
    links = [link for layer, m in enumerate(maps) for link in _top_of(m, n, layer, records[layer])]
    return sorted(links, key=lambda link: -link.weight)[:n]


def _top_of(attention_map: AttentionMap, n: int, layer: int, record: Any) -> Iterator[WeightedLink]:
    """Yield the n largest weights of one map, largest first.

    ``record`` is the value that the map comes from. ``layer`` is its index among the layers of the call, which counts
    if the record has no layer number.
    """
    best = attention_map.topk(min(n, attention_map.shape[3]))
    values, keys = _numpy(best.weights), best.keys.cpu().numpy()  # (b,h,q,n)
    real = np.broadcast_to(~padding_of(record, attention_map)[:, None, :, None], values.shape)
    order = np.argsort(np.where(real, -values, 1), axis=None, kind="stable")[: min(n, real.sum())]
    heads = head_numbers(record, attention_map.shape[1])
    for b, h, q, place in zip(*np.unravel_index(order, values.shape), strict=True):
        key = int(keys[b, h, q, place])
        tokens = (_token(record, "query_tokens", b, q), _token(record, "key_tokens", b, key))
        position = (layer_of(record, layer), heads[h], int(b), int(q), key)
        yield WeightedLink(float(values[b, h, q, place]), *position, *tokens)


def head_table(layers: Any) -> Any:
    """Return a table of statistics with one row for each head of each layer.

    The columns are "layer", "name" and "head", and four means over the queries of all sequences. These are "entropy",
    "distance", "first" (the weight on the first key, as in :func:`sink_mass`) and "largest" (the largest weight). The
    result is a pandas ``DataFrame`` if pandas is installed, and otherwise a list of dictionaries. The means leave out
    fully masked queries and padding queries. A padding query of self-attention is one whose own key the mask hides from
    every query. The entropy of a head with negative weights is NaN.

    >>> rows = head_table([np.eye(3), np.full((3, 3), 1 / 3)])
    >>> len(rows)
    2
    """
    maps = as_maps("layers", layers)
    records = layers if isinstance(layers, Sequence) else [layers]
    rows = []
    for place, (name, attention_map) in enumerate(zip(names_of(layers, len(maps)), maps, strict=True)):
        columns = _means(records[place], attention_map)
        for head, number in enumerate(head_numbers(records[place], attention_map.shape[1])):
            row: dict[str, Any] = {"layer": layer_of(records[place], place), "name": name, "head": number}
            rows.append(row | {title: float(values[head]) for title, values in columns.items()})
    return _table(rows)


def _means(record: Any, attention_map: AttentionMap) -> dict[str, np.ndarray]:
    """Return the columns of `head_table` for one layer, ``(h,)`` each, as means over the counted queries."""
    _, h, q, k = attention_map.shape
    padding = padding_of(record, attention_map)  # (b,q)
    sinks = getattr(record, "sinks", ())
    names = ("entropy", "distance", "first", "largest")
    total, count = ({name: np.zeros(h) for name in names} for _ in range(2))
    # All columns come from one pass over the weights.
    for batch, rows, part in _blocks(attention_map):
        real = ~padding[batch, rows]
        counted, beside_first = _with_keys(part) & real, _with_other_keys(part, 0) & real  # (h,q)
        columns = {
            "entropy": (row_entropy(torch.from_numpy(part)).numpy(), counted),
            "distance": ((part * _distances(rows, q, k, sinks)).sum(-1), counted),
            "first": (part[:, :, 0], beside_first),
            "largest": (part.max(-1), counted),
        }
        for name, (values, queries) in columns.items():
            total[name] += np.where(queries, values, 0).sum(1)
            count[name] += queries.sum(1)
    return {name: _mean(total[name], count[name]) for name in names}


def head_agreement(layers: Any) -> np.ndarray:
    """Return the similarity of every pair of heads of all layers, ``(heads, heads)``.

    The heads of the first layer come first. All layers must have the same queries and keys. The similarity is the
    Bhattacharyya coefficient of two rows of weights, the sum of sqrt(w1 w2), averaged over the queries that are not
    padding and not fully masked in either head. Equal weights give 1, and weights without a common key give 0. Raises
    ArgumentError for negative weights, which have no square root.

    >>> first, second = np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> head_agreement([first, second])
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    maps = as_maps("layers", layers)
    records = layers if isinstance(layers, Sequence) else [layers]
    b, q, _ = same_grid("layers", maps)
    paddings = [padding_of(*pair) for pair in zip(records, maps, strict=True)]  # (b,q) of each layer
    heads = sum(attention_map.shape[1] for attention_map in maps)
    total, count = np.zeros((heads, heads)), np.zeros((heads, heads))
    for batch in range(b):
        for rows in _row_blocks(q):
            parts = [
                attention_map[batch, :, rows].double().cpu()
                * torch.from_numpy(~padding[batch, rows])[:, None]
                for attention_map, padding in zip(maps, paddings, strict=True)
            ]
            weights = torch.cat(parts)  # (heads,q,k)
            check_not_negative("layers", weights, "the similarity of heads")
            roots = weights.sqrt()
            counted = roots.any(dim=-1).double()  # (heads,q)
            roots = roots.flatten(1)
            total += (roots @ roots.T).numpy()
            count += (counted @ counted.T).numpy()
    return _mean(total, count)


def cluster_heads(layers: Any, count: int) -> np.ndarray:
    """Group the heads of all layers into ``count`` clusters, and return the cluster of each head, ``(heads,)``.

    The heads are in the order of :func:`head_agreement`, on which the clustering is agglomerative with average linkage.
    Clusters are numbered by their first heads, so cluster 0 contains head 0.

    >>> first, second = np.eye(2), np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> cluster_heads([first, second, first], 2)
    array([0, 1, 0])
    """
    agreement = head_agreement(layers)
    heads = len(agreement)
    if not 1 <= whole_number("count", count, least=1) <= heads:
        raise ArgumentError("count", f"expected 1 to {heads} groups, got {count}")
    groups = [[head] for head in range(heads)]
    links = agreement.copy()  # mean agreement between groups
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


def _blocks(attention_map: AttentionMap) -> Iterator[tuple[int, slice, np.ndarray]]:
    """Yield all rows of a map in blocks, as (batch index, slice of queries, weights ``(h,rows,k)`` in float64)."""
    b, h, q, k = attention_map.shape
    step = max(1, NUMBERS // max(1, h * k))
    for start in range(0, q, step):
        rows = slice(start, min(q, start + step))
        for batch in range(b):
            yield batch, rows, _numpy(attention_map[batch, :, rows])


def _mean(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Return total / count, and 0 where the count is 0."""
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
