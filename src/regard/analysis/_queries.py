"""Detection of padding queries, which are left out of means over queries."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from regard.maps import AttentionMap
from regard.maps.sources import HeadMean, Recomputed, Selected, Source

__all__ = ["padding_queries"]


def padding_queries(value: Any, attention_map: AttentionMap) -> np.ndarray:
    """Return a boolean array ``(b,q)`` that is True for padding queries.

    In self-attention, a query is padding if the mask hides the key at its position from every query. ``value`` is
    the record or weights behind ``attention_map``. A record states whether it is self-attention. Without a record,
    a map with as many queries as keys counts as self-attention. Stored weights have no mask, so none of their
    queries count as padding.

    >>> import regard, torch
    >>> x = torch.randn(2, 1, 3, 4)  # (b,h,n,d)
    >>> _, seen = regard.attention(x, x, x, mask=regard.padding([2, 3]), return_map=True)
    >>> padding_queries(seen, seen)
    array([[False, False,  True],
           [False, False, False]])
    """
    b, _, q, k = attention_map.shape
    none = np.zeros((b, q), dtype=bool)
    kind = getattr(value, "kind", "self" if q == k else "cross")
    count = k - len(getattr(value, "sinks", ()))
    hidden = None if kind == "cross" or q > count else _hidden_keys(attention_map._source)
    if hidden is None:
        return none
    sinks = getattr(value, "sinks", ())
    tokens = hidden[:, [n for n in range(k) if n not in sinks]]
    # The last query is at the position of the last token.
    return none | tokens[:, tokens.shape[1] - q :].cpu().numpy()


def _hidden_keys(source: Source) -> Tensor | None:
    """Return the keys that a mask hides from every query of every head, ``(b or 1,k)``.

    None means that the source has no such mask.
    """
    if isinstance(source, HeadMean):
        return _hidden_keys(source.source)
    if isinstance(source, Selected):
        hidden = _hidden_keys(source.source)
        return hidden if hidden is None or len(hidden) == 1 else hidden[source.b]
    # A rule such as a window can also hide a key from every query, but that key is not padding.
    if not isinstance(source, Recomputed) or source.mask is None or source.mask.symbolic:
        return None
    seen = source.mask.seen_keys(source.grid)  # (b or 1,h or 1,k)
    return None if seen is None else ~seen.any(dim=1)
