"""Which queries have something to say: padding is no text, though its rows of weights look like any other."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from regard.maps import AttentionMap
from regard.maps.sources import HeadMean, Recomputed, Selected, Source

__all__ = ["padding_queries"]


def padding_queries(value: Any, found: AttentionMap) -> np.ndarray:
    """Which queries are padding, ``(b,q)``: in self-attention, those whose own key the mask hides from every query.

    A record says whether it is self-attention; without one, a map with as many queries as keys is. Weights that were
    stored have no mask, and nothing in them is taken for padding.

    >>> import regard, torch
    >>> x = torch.randn(2, 1, 3, 4)  # (b,h,n,d)
    >>> _, seen = regard.attention(x, x, x, mask=regard.padding([2, 3]), return_map=True)
    >>> padding_queries(seen, seen)
    array([[False, False,  True],
           [False, False, False]])
    """
    b, _, q, k = found.shape
    none = np.zeros((b, q), dtype=bool)
    kind = getattr(value, "kind", "self" if q == k else "cross")
    hidden = None if kind == "cross" or q > k else _hidden_keys(found._source)
    if hidden is None:
        return none
    return none | hidden[:, k - q :].cpu().numpy()  # the last query stands at the last key


def _hidden_keys(source: Source) -> Tensor | None:
    """Keys that a mask hides from every query of every head, ``(b or 1,k)``; None where nothing says so."""
    if isinstance(source, HeadMean):
        return _hidden_keys(source.source)
    if isinstance(source, Selected):
        hidden = _hidden_keys(source.source)
        return hidden if hidden is None or len(hidden) == 1 else hidden[source.b]
    # A rule such as "only what came before" hides the last key too, and the last query is text all the same.
    if not isinstance(source, Recomputed) or source.mask is None or source.mask.symbolic:
        return None
    seen = source.mask.seen_keys(source.grid)  # (b or 1,h or 1,k)
    return None if seen is None else ~seen.any(dim=1)
