"""Attention rollout and attention flow through all layers (Abnar and Zuidema 2020)."""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from regard.analysis._layers import as_maps, check_not_negative, same_grid
from regard.errors import ArgumentError, ShapeError

__all__ = ["check_one_stack", "flow", "rollout"]

# Capacities below this count as zero.
SMALLEST = 1e-12
# The most missing layers that an error names.
_LISTED = 9


def rollout(layers: Any, *, residual: float = 0.5) -> np.ndarray:
    """Return the attention rollout, the share of each input token k in each output token q, ``(b,q,k)``.

    ``layers`` is the self-attention of one stack, the first layer first. The weights of each layer are averaged over
    the heads and mixed with the identity for the residual connection, whose share is ``residual``. The layers are then
    multiplied from the first to the last. Rows sum to 1. Cross-attention, missing layers and negative weights are an
    error.

    >>> rollout([np.array([[1.0, 0.0], [1.0, 0.0]])] * 2)[0]
    array([[1.  , 0.  ],
           [0.75, 0.25]])
    """
    total: np.ndarray | None = None
    for mixed in _mixed(layers, residual):
        total = mixed if total is None else mixed @ total
    assert total is not None
    return total


def flow(layers: Any, queries: Iterable[int] | None = None, *, residual: float = 0.5) -> np.ndarray:
    """Return the maximum flow from each input token to the output tokens ``queries``, ``(b,queries,k)``.

    ``queries`` defaults to all tokens. ``layers`` and ``residual`` are those of :func:`rollout`. The layers form a
    flow network whose edge capacities are the weights, averaged over the heads and mixed with the residual connection.
    Rollout multiplies the weights along a path, while flow is limited by the smallest weight on the path. Flow is much
    slower. One query of a sentence of 30 tokens in 6 layers takes seconds.

    >>> flow([np.array([[1.0, 0.0], [1.0, 0.0]])] * 2, queries=[1])[0]
    array([[1. , 0.5]])
    """
    mixed = _mixed(layers, residual)
    b, n, _ = mixed[0].shape
    rows = list(range(n)) if queries is None else [int(query) for query in queries]
    for query in rows:
        if not 0 <= query < n:
            raise ArgumentError("queries", f"expected queries from 0 to {n - 1}, got {query}")
    out = np.zeros((b, len(rows), n))
    for batch in range(b):
        # From the output layer down to the input layer.
        network = _FlowNetwork([layer[batch] for layer in reversed(mixed)])
        for row, query in enumerate(rows):
            for key in range(n):
                out[batch, row, key] = network.largest_flow(query, key)
    return out


def _mixed(layers: Any, residual: float) -> list[np.ndarray]:
    """Average each layer over its heads and mix it with the residual connection, ``(b,q,k)`` each.

    Rows sum to 1. Raises an error unless the layers are the self-attention of one stack.
    """
    if not 0 <= residual < 1:
        raise ArgumentError("residual", f"expected a share from 0 to below 1, got {residual}")
    maps = as_maps("layers", layers)
    check_one_stack(layers)
    _, q, k = same_grid("layers", maps)
    if q != k:
        raise ShapeError(
            "layers", f"expected self-attention, got (q,k) = ({q},{k})", "leave out cross-attention"
        )
    normalized = []
    for layer in maps:
        mean = layer.mean_heads().weights()[:, 0].double().cpu().numpy()  # (b,q,k)
        check_not_negative("layers", mean, "rollout or flow")
        mixed = (1 - residual) * mean + residual * np.eye(q)
        normalized.append(mixed / np.maximum(mixed.sum(-1, keepdims=True), SMALLEST))
    return normalized


def check_one_stack(layers: Any) -> None:
    """Raise ArgumentError if the records are not the self-attention of consecutive layers of one run.

    The product of other layers has no meaning. Maps and arrays are not checked.
    """
    values = layers if isinstance(layers, Sequence) else [layers]
    records = [value for value in values if hasattr(value, "kind")]
    kinds = sorted({record.kind for record in records})
    if "cross" in kinds or len(kinds) > 1:
        problem = f"expected the self-attention of one stack of layers, got {' and '.join(kinds)}"
        self_kind = next((kind for kind in kinds if kind != "cross"), "self")
        raise ArgumentError("layers", problem, f'take one kind, such as seen.by(kind="{self_kind}")')
    calls = Counter((record.name, record.layer) for record in records)
    for (name, layer), count in calls.items():
        if count > 1:
            problem = f"{count} records are of {name} in layer {layer}: the model ran more than once"
            raise ArgumentError(
                "layers", problem, f"take the records of one run, such as seen[:{len(calls)}]"
            )
    _check_every_layer(records)


def _check_every_layer(records: list[Any]) -> None:
    """Raise ArgumentError if a layer between the first and the last is missing or was not recorded."""
    for record in records:
        dropped = getattr(record, "dropped", None)
        if dropped is not None:
            raise ArgumentError(
                "layers", f"{record.name}: {dropped}", "rollout and flow need the weights of every layer"
            )
    numbers = {record.layer for record in records if record.layer is not None}
    between = range(min(numbers, default=0), max(numbers, default=0))
    # Numbers out of a file may be far apart, so the first ones that are missing are enough.
    missing = list(itertools.islice((number for number in between if number not in numbers), _LISTED + 1))
    if missing:
        names = ", ".join(map(str, missing[:_LISTED])) + (", ..." if len(missing) > _LISTED else "")
        raise ArgumentError(
            "layers",
            f"layers {names} between {min(numbers)} and {max(numbers)} are missing",
            "capture them too, or give [record.map for record in seen] if they have no attention",
        )


class _FlowNetwork:
    """A flow network of the tokens of all layers, with maximum flow by Dinic's algorithm.

    ``layers`` holds the weights ``(n,n)`` of each layer, the last layer first. The nodes are the tokens of each level.
    The edges are the weights of the layers, from the output to the input. Edge ``2i`` is an edge of the network and
    edge ``2i + 1`` its reverse in the residual graph.
    """

    def __init__(self, layers: list[np.ndarray]):
        self.tokens = len(layers[0])
        levels = len(layers) + 1
        self.ends: list[int] = []  # the end node of each edge
        self.capacity: list[float] = []
        self.residual: list[float] = []  # the capacity left in the current search
        self.edges: list[list[int]] = [[] for _ in range(levels * self.tokens)]  # the edges of each node
        for level, weights in enumerate(layers):
            for i, j in zip(*np.nonzero(weights > SMALLEST), strict=True):
                start, end = level * self.tokens + int(i), (level + 1) * self.tokens + int(j)
                self._add(start, end, float(weights[i, j]))

    def _add(self, start: int, end: int, capacity: float) -> None:
        self.edges[start].append(len(self.ends))
        self.edges[end].append(len(self.ends) + 1)
        self.ends += [end, start]
        self.capacity += [capacity, 0.0]

    def largest_flow(self, query: int, key: int) -> float:
        """Return the maximum flow from an output token (level 0) to an input token (the last level)."""
        self.residual = list(self.capacity)
        sink = len(self.edges) - self.tokens + key
        total = 0.0
        while (depth := self._depths(query, sink)) is not None:
            tried = [0] * len(self.edges)
            while (pushed := self._push(query, sink, depth, tried)) > SMALLEST:
                total += pushed
        return total

    def _depths(self, source: int, sink: int) -> list[int] | None:
        """Return the number of edges from the source to each node, or None if the sink is unreachable.

        Unreachable nodes have depth -1.
        """
        depth = [-1] * len(self.edges)
        depth[source] = 0
        queue = deque([source])
        while queue:
            node = queue.popleft()
            for edge in self.edges[node]:
                if self.residual[edge] > SMALLEST and depth[self.ends[edge]] < 0:
                    depth[self.ends[edge]] = depth[node] + 1
                    queue.append(self.ends[edge])
        return depth if depth[sink] >= 0 else None

    def _push(self, source: int, sink: int, depth: list[int], tried: list[int]) -> float:
        """Find one augmenting path, send as much flow along it as fits, and return that amount.

        It is 0.0 if there is no path left. ``tried`` holds the number of edges of each node that were found to be dead
        ends in this phase, and is updated.
        """
        path: list[int] = []
        node = source
        while node != sink:
            # Step back from a dead end.
            if tried[node] == len(self.edges[node]):
                if not path:
                    return 0.0
                node = self.ends[path.pop() ^ 1]
                tried[node] += 1
                continue
            edge = self.edges[node][tried[node]]
            if self.residual[edge] > SMALLEST and depth[self.ends[edge]] == depth[node] + 1:
                path.append(edge)
                node = self.ends[edge]
            else:
                tried[node] += 1
        pushed = min(self.residual[edge] for edge in path)
        for edge in path:
            self.residual[edge] -= pushed
            self.residual[edge ^ 1] += pushed
        return pushed
