"""Statistics of the queries of a map. Means leave out padding queries and fully masked queries."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.maps.sources import HeadMean, Recomputed, Selected, Source, tiles

__all__ = ["mean_received", "padding_queries", "row_entropy"]


def padding_queries(source: Source, kind: str | None = None, sinks: Sequence[int] = ()) -> Tensor:
    """Return a boolean tensor ``(b,q)`` that is True for padding queries.

    In self-attention, a query is padding if the mask hides the key at its position from every query. ``kind`` and
    ``sinks`` are those of the record. Without ``kind``, a map with as many queries as keys counts as self-attention.
    Stored weights have no mask, so none of their queries count as padding.

    >>> import regard
    >>> x = torch.randn(2, 1, 3, 4)  # (b,h,n,d)
    >>> _, weights = regard.attention(x, x, x, mask=regard.padding([2, 3]), return_map=True)
    >>> padding_queries(weights._source)
    tensor([[False, False,  True],
            [False, False, False]])
    """
    b, _, q, k = source.grid
    none = torch.zeros(b, q, dtype=torch.bool)
    kind = kind or ("self" if q == k else "cross")
    hidden = None if kind == "cross" or q > k - len(sinks) else _hidden_keys(source)
    if hidden is None:
        return none
    tokens = hidden[:, [n for n in range(k) if n not in sinks]]
    # The last query is at the position of the last token.
    return none | tokens[:, tokens.shape[1] - q :].cpu()


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
    visible = source.mask.seen_keys(source.grid)  # (b or 1,h or 1,k)
    return None if visible is None else ~visible.any(dim=1)


def mean_received(source: Source, padding: Tensor) -> Tensor:
    """Return the mean weight that each key receives over the queries, ``(b,h,k)`` in float64 on the CPU.

    The mean leaves out fully masked queries and the queries where ``padding`` ``(b,q)`` is True. It is 0 if no query
    is left. A row with NaN counts, so that the NaN shows in the result.
    """
    b, h, _, k = source.grid
    total, count = torch.zeros(b, h, k, dtype=torch.float64), torch.zeros(b, h, 1, dtype=torch.float64)
    for tile in tiles(source.grid):
        weights = source.weights(tile)
        counted = (weights != 0).any(dim=-1) & ~padding[tile.b, None, tile.q].to(weights.device)  # (b,h,q)
        weights = weights.masked_fill(~counted[..., None], 0.0)
        total[tile.b, tile.h] += weights.sum(dim=2).double().cpu()
        count[tile.b, tile.h, 0] += counted.sum(dim=2).cpu()
    return total / count.clamp(min=1)


def row_entropy(weights: Tensor) -> Tensor:
    """Return the entropy of each row of weights ``(...,k)`` in nats, which is NaN if a weight is negative.

    >>> row_entropy(torch.tensor([[0.5, 0.5], [1.5, -0.5]]))
    tensor([0.6931,    nan])
    """
    entropy = torch.special.entr(weights).sum(dim=-1)
    # entr() of a negative number is -inf, which would look like a very small entropy.
    return entropy.masked_fill((weights < 0).any(dim=-1), float("nan"))
