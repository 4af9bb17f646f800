"""Word alignments between source and target, derived from cross-attention weights.

``regard.metrics.alignment_error_rate`` compares them with alignments made by people.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, overload

import numpy as np

from regard.analysis._layers import Layer, as_map, of_each_layer
from regard.errors import ArgumentError, UnknownNameError

__all__ = ["alignment_links", "bidirectional_links", "diagonal_links"]

Link = tuple[int, int]
NEIGHBOURS = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]


@overload
def alignment_links(weights: Sequence[Any], batch: int = 0) -> list[set[Link]]: ...
@overload
def alignment_links(weights: Layer, batch: int = 0) -> set[Link]: ...
def alignment_links(weights: Any, batch: int = 0) -> set[Link] | list[set[Link]]:
    """Link each target word to the source word of its largest weight, as a set of ``(source, target)``.

    ``weights`` is (target words, source words). For a record, a map or an array with heads, the weights are the mean
    over the heads of the sequence ``batch``. A target word without a weight above 0 has no link. A sequence of layers
    gives a list of sets.

    >>> sorted(alignment_links(np.array([[0.9, 0.1], [0.2, 0.8], [0.3, 0.7]])))
    [(0, 0), (1, 1), (1, 2)]
    """
    return of_each_layer("weights", weights, lambda name, layer: _links(name, layer, batch))


def _links(argument: str, weights: Any, batch: int) -> set[Link]:
    if not (isinstance(weights, np.ndarray) and weights.ndim == 2):
        weights = _mean_of_heads(argument, weights, batch)
    if weights.shape[1] == 0:
        return set()
    return {(int(row.argmax()), target) for target, row in enumerate(weights) if row.max() > 0}


def _mean_of_heads(argument: str, weights: Any, batch: int) -> np.ndarray:
    attention_map = as_map(argument, weights)
    sequences = attention_map.shape[0]
    if not -sequences <= batch < sequences:
        raise ArgumentError("batch", f"expected one of {sequences} sequences, got {batch}")
    return attention_map.select(batch=batch).mean_heads().weights()[0, 0].double().cpu().numpy()  # (q,k)


def diagonal_links(sources: int, targets: int) -> set[Link]:
    """Link each target word to the source word at the same relative position, as a set of ``(source, target)``.

    ``sources`` and ``targets`` are the numbers of words. Without source words there are no links. These links are a
    baseline for other alignments.

    >>> sorted(diagonal_links(2, 4))
    [(0, 0), (0, 1), (1, 2), (1, 3)]
    """
    if sources < 1:
        return set()
    return {(min(sources - 1, (2 * j + 1) * sources // (2 * targets)), j) for j in range(targets)}


def bidirectional_links(forward: Iterable[Link], backward: Iterable[Link], how: str = "grow") -> set[Link]:
    """Combine the links of two translation models, one for each direction, into one set.

    Both sets hold ``(source, target)``. "intersection" keeps the links in both sets and "union" those in either.
    "grow" starts from the intersection. It adds links of the union next to a link, diagonals included, if the source
    word or the target word has no link yet (Och and Ney 2003).

    >>> there, back = {(0, 0), (1, 1), (1, 2)}, {(0, 0), (1, 1), (2, 1)}
    >>> sorted(bidirectional_links(there, back, "intersection"))
    [(0, 0), (1, 1)]
    >>> sorted(bidirectional_links(there, back, "grow"))
    [(0, 0), (1, 1), (1, 2), (2, 1)]
    """
    first, second = set(forward), set(backward)
    if how == "intersection":
        return first & second
    if how == "union":
        return first | second
    if how != "grow":
        raise UnknownNameError("how", how, ["intersection", "union", "grow"])
    return _grown(first & second, first | second)


def _grown(links: set[Link], candidates: set[Link]) -> set[Link]:
    """Return the links and the candidates next to them, or next to an added one, with a word that has no link yet."""
    grown = set(links)
    queue = sorted(links)
    while queue:
        i, j = queue.pop(0)
        for di, dj in NEIGHBOURS:
            new = (i + di, j + dj)
            linked = any(a == new[0] for a, _ in grown) and any(b == new[1] for _, b in grown)
            if new in candidates and new not in grown and not linked:
                grown.add(new)
                queue.append(new)
    return grown
