"""Where information came from through all layers: attention rollout and attention flow (Abnar and Zuidema 2020)."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from regard.analysis._layers import as_maps, same_grid
from regard.errors import ArgumentError, ShapeError

__all__ = ["flow", "rollout"]

SMALLEST = 1e-12  # capacities below this carry nothing


def rollout(layers: Any, *, residual: float = 0.5) -> np.ndarray:
    """The share of each input token in each output token after all layers, ``(b,q,k)``; rows sum to 1.

    The mean of the heads of each layer, mixed with the residual connection (``residual`` is its share), multiplied
    through the layers from the first to the last.

    >>> rollout([np.array([[1.0, 0.0], [1.0, 0.0]])] * 2)[0]
    array([[1.  , 0.  ],
           [0.75, 0.25]])
    """
    total: np.ndarray | None = None
    for mixed in _mixed(layers, residual):
        total = mixed if total is None else mixed @ total
    assert total is not None  # there is at least one layer
    return total


def flow(layers: Any, queries: Iterable[int] | None = None, *, residual: float = 0.5) -> np.ndarray:
    """The largest flow from each input token to the output tokens ``queries`` (all by default), ``(b,queries,k)``.

    The layers are a network of pipes as wide as their weights (mean of the heads, with the residual connection);
    where rollout multiplies along a path, flow is limited by its narrowest pipe. It takes much longer: seconds for a
    query of a sentence of 30 tokens in 6 layers.

    >>> flow([np.array([[1.0, 0.0], [1.0, 0.0]])] * 2, queries=[1])[0]
    array([[1. , 0.5]])
    """
    mixed = _mixed(layers, residual)
    b, n, _ = mixed[0].shape
    chosen = list(range(n)) if queries is None else [int(one) for one in queries]
    for one in chosen:
        if not 0 <= one < n:
            raise ArgumentError("queries", f"expected queries from 0 to {n - 1}, got {one}")
    out = np.zeros((b, len(chosen), n))
    for batch in range(b):
        pipes = [layer[batch] for layer in reversed(mixed)]  # from the output down to the input
        network = _Network(pipes)
        for place, query in enumerate(chosen):
            for key in range(n):
                out[batch, place, key] = network.largest_flow(query, key)
    return out


def _mixed(layers: Any, residual: float) -> list[np.ndarray]:
    """Each layer's mean over the heads with the residual connection, rows summing to 1, ``(b,q,k)``."""
    if not 0 <= residual < 1:
        raise ArgumentError("residual", f"expected a share from 0 to below 1, got {residual}")
    maps = as_maps("layers", layers)
    _check_one_stack(layers)
    _, q, k = same_grid("layers", maps)
    if q != k:
        raise ShapeError(
            "layers", f"expected self-attention, got (q,k) = ({q},{k})", "leave out cross attention"
        )
    found = []
    for one in maps:
        mean = one.mean_heads().weights()[:, 0].double().cpu().numpy()  # (b,q,k)
        mixed = (1 - residual) * mean + residual * np.eye(q)
        found.append(mixed / np.maximum(mixed.sum(-1, keepdims=True), SMALLEST))
    return found


def _check_one_stack(layers: Any) -> None:
    """Refuse records that are not one layer on top of another: multiplied, they would mean nothing."""
    records = [one for one in (layers if isinstance(layers, Sequence) else [layers]) if hasattr(one, "kind")]
    kinds = sorted({one.kind for one in records})
    if "cross" in kinds or len(kinds) > 1:
        told = f"expected the self-attention of one stack of layers, got {' and '.join(kinds)}"
        own = next((kind for kind in kinds if kind != "cross"), "self")
        raise ArgumentError("layers", told, f'take one kind, such as seen.by(kind="{own}")')
    calls = Counter((one.name, one.layer) for one in records)
    for (name, layer), count in calls.items():
        if count > 1:
            told = f"{count} records are of {name} in layer {layer}: the model ran more than once"
            raise ArgumentError("layers", told, f"take the records of one run, such as seen[:{len(calls)}]")
    _check_every_layer(records)


def _check_every_layer(records: list[Any]) -> None:
    """Refuse a stack with a layer left out: the product through the others would be of another model."""
    for one in records:
        dropped = getattr(one, "dropped", None)
        if dropped is not None:
            raise ArgumentError("layers", f"{one.name}: {dropped}", "every layer has to be there")
    numbers = {one.layer for one in records if one.layer is not None}
    missing = sorted(set(range(min(numbers, default=0), max(numbers, default=0))) - numbers)
    if missing:
        told = f"layers {', '.join(map(str, missing))} between {min(numbers)} and {max(numbers)} are missing"
        raise ArgumentError(
            "layers",
            told,
            "capture them too, or give [record.map for record in seen] if they have no attention",
        )


class _Network:
    """Tokens of all levels as nodes, weights as pipes; flow by shortest augmenting paths in phases (Dinic)."""

    def __init__(self, pipes: list[np.ndarray]):
        self.tokens = len(pipes[0])
        levels = len(pipes) + 1
        self.ends: list[int] = []  # pipe 2i leads there, pipe 2i+1 is its way back
        self.room: list[float] = []  # left in this search for a flow
        self.width: list[float] = []
        self.leaving: list[list[int]] = [[] for _ in range(levels * self.tokens)]
        for level, weights in enumerate(pipes):
            for i, j in zip(*np.nonzero(weights > SMALLEST), strict=True):
                start, end = level * self.tokens + int(i), (level + 1) * self.tokens + int(j)
                self._add(start, end, float(weights[i, j]))

    def _add(self, start: int, end: int, width: float) -> None:
        self.leaving[start].append(len(self.ends))
        self.leaving[end].append(len(self.ends) + 1)
        self.ends += [end, start]
        self.width += [width, 0.0]

    def largest_flow(self, query: int, key: int) -> float:
        """From an output token (level 0) to an input token (the last level)."""
        self.room = list(self.width)
        sink = len(self.leaving) - self.tokens + key
        total = 0.0
        while (depth := self._depths(query, sink)) is not None:
            tried = [0] * len(self.leaving)
            while (pushed := self._push(query, sink, depth, tried)) > SMALLEST:
                total += pushed
        return total

    def _depths(self, source: int, sink: int) -> list[int] | None:
        """How many pipes each node is from the source; None where the sink cannot be reached any more."""
        depth = [-1] * len(self.leaving)
        depth[source] = 0
        waiting = deque([source])
        while waiting:
            node = waiting.popleft()
            for pipe in self.leaving[node]:
                if self.room[pipe] > SMALLEST and depth[self.ends[pipe]] < 0:
                    depth[self.ends[pipe]] = depth[node] + 1
                    waiting.append(self.ends[pipe])
        return depth if depth[sink] >= 0 else None

    def _push(self, source: int, sink: int, depth: list[int], tried: list[int]) -> float:
        """Send as much as one path takes; ``tried`` remembers the dead ends of this phase."""
        path: list[int] = []
        node = source
        while node != sink:
            if tried[node] == len(self.leaving[node]):  # a dead end: step back
                if not path:
                    return 0.0
                node = self.ends[path.pop() ^ 1]
                tried[node] += 1
                continue
            pipe = self.leaving[node][tried[node]]
            if self.room[pipe] > SMALLEST and depth[self.ends[pipe]] == depth[node] + 1:
                path.append(pipe)
                node = self.ends[pipe]
            else:
                tried[node] += 1
        pushed = min(self.room[pipe] for pipe in path)
        for pipe in path:
            self.room[pipe] -= pushed
            self.room[pipe ^ 1] += pushed
        return pushed
