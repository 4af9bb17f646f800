"""Word alignments read out of attention: which source word each target word looked at.

The error rate against links made by people is ``regard.metrics.alignment_error_rate``.
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
    """Links ``(source, target)`` from weights ``(target words, source words)``: each target word's largest weight.

    Of a record, a map or an array with heads, the mean over the heads of one sequence is read. Layers give a list.

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
    found = as_map(argument, weights)
    if not -found.shape[0] <= batch < found.shape[0]:
        raise ArgumentError("batch", f"expected one of {found.shape[0]} sequences, got {batch}")
    return found.select(batch=batch).mean_heads().weights()[0, 0].double().cpu().numpy()  # (q,k)


def diagonal_links(sources: int, targets: int) -> set[Link]:
    """What someone would guess who knows only the lengths: the word at the same relative place.

    >>> sorted(diagonal_links(2, 4))
    [(0, 0), (0, 1), (1, 2), (1, 3)]
    """
    return {(min(sources - 1, (2 * j + 1) * sources // (2 * targets)), j) for j in range(targets)}


def bidirectional_links(forward: Iterable[Link], backward: Iterable[Link], how: str = "grow") -> set[Link]:
    """Links of two models, one a direction, as one set; both hold ``(source, target)``.

    ``intersection`` keeps what both found, ``union`` what either found, and ``grow`` starts from what both found and
    adds neighbours that one of them found for words that have no link yet (Och and Ney 2003).

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
    """Neighbours of what is linked already, as long as one of their two words has no link."""
    grown = set(links)
    waiting = sorted(links)
    while waiting:
        i, j = waiting.pop(0)
        for di, dj in NEIGHBOURS:
            new = (i + di, j + dj)
            linked = any(a == new[0] for a, _ in grown) and any(b == new[1] for _, b in grown)
            if new in candidates and new not in grown and not linked:
                grown.add(new)
                waiting.append(new)
    return grown
