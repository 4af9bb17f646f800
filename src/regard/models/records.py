"""The records of attention that a model makes on request, of the same class as those of :func:`regard.capture`.

If the ``records`` argument of a model is a list, the model appends one :class:`regard.maps.Record` for every attention
that it computes. Its map holds the weights that the model used. Nothing is stored on the modules.
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from regard.maps import AttentionMap, Record

__all__ = ["Record", "add_record", "set_patch_grid"]


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


def set_patch_grid(records: list[Record], first: int, grid: tuple[int, int], extra: int = 0) -> None:
    """Give the records from number ``first`` on the grid (rows, columns) of the patches that are their tokens.

    ``extra`` is the number of tokens before the first patch, such as a class token. The queries of cross-attention are
    not patches, so a record of it gets only the grid of its keys.

    >>> import torch
    >>> records = []
    >>> add_record(records, name="pooling", kind="cross", weights=torch.full((1, 1, 1, 4), 0.25))
    >>> set_patch_grid(records, 0, (2, 2))
    >>> records[0].key_grid, records[0].query_grid
    ((2, 2), None)
    """
    for number in range(first, len(records)):
        values = {"key_grid": grid, "key_extra": extra}
        if records[number].kind != "cross":
            values |= {"query_grid": grid, "query_extra": extra}
        records[number] = replace(records[number], **values)
