"""The records of attention that a model makes on request, of the same class as those of :func:`regard.capture`.

If the ``records`` argument of a model is a list, the model appends one :class:`regard.maps.Record` for every attention
that it computes. Its map holds the weights that the model used. Nothing is stored on the modules.
"""

from __future__ import annotations

from torch import Tensor

from regard.maps import AttentionMap, Record

__all__ = ["Record", "add_record"]


def add_record(
    records: list[Record], *, name: str, kind: str, weights: Tensor, layer: int | None = None
) -> None:
    """Append the record of one attention with ``weights (b,h,q,k)``.

    ``name`` is the name of the module in the model, and ``layer`` the number of its layer, if it has one. ``kind`` is
    "self", "causal" or "cross".

    >>> import torch
    >>> records = []
    >>> add_record(records, name="attention", kind="cross", weights=torch.full((1, 1, 2, 4), 0.25))
    >>> records[0].map
    AttentionMap(b=1, h=1, q=2, k=4, stored)
    """
    records.append(Record(name=name, kind=kind, layer=layer, map=AttentionMap.from_weights(weights)))
