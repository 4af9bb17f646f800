"""Reading attention in whatever form it comes as a list of maps, one for each layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from torch import Tensor

from regard.errors import ArgumentError, DtypeError, ShapeError
from regard.maps import AttentionMap, Record

__all__ = ["Layer", "as_map", "as_maps", "heads_of", "layer_of", "names_of", "of_each_layer", "same_grid"]

Counted = TypeVar("Counted")
Layer = AttentionMap | Record | np.ndarray | Tensor


def as_map(argument: str, value: Any) -> AttentionMap:
    """One map, of an array, a tensor, a record or a map.

    >>> import numpy as np
    >>> as_map("weights", np.eye(3)).shape
    torch.Size([1, 1, 3, 3])
    """
    value = getattr(value, "map", value)  # a record
    if isinstance(value, AttentionMap):
        return value
    if hasattr(value, "shape") and hasattr(value, "ndim"):
        if not 2 <= value.ndim <= 4:
            raise ShapeError(argument, f"expected (q,k), (h,q,k) or (b,h,q,k), got {tuple(value.shape)}")
        whole = value[None] if value.ndim == 3 else value  # three axes are heads here, not sequences
        return AttentionMap.from_weights(whole)
    if value is None:  # what Hugging Face gives for each layer unless its model is "eager"
        fix = "record them with regard.capture(model), which needs no setting of the model"
        raise ArgumentError(argument, "the model returned no weights", fix)
    raise DtypeError(
        argument, f"expected an AttentionMap, an array, a tensor or a record, got {type(value).__name__}"
    )


def as_maps(argument: str, layers: Any) -> list[AttentionMap]:
    """A list of maps, one for each layer; a single one is a list of one."""
    found = of_each_layer(argument, layers, as_map)
    return found if isinstance(found, list) else [found]


def of_each_layer(
    argument: str, layers: Any, count: Callable[[str, Any], Counted]
) -> Counted | list[Counted]:
    """What ``count`` says of one layer, or a list of what it says of each; it is told how the layer is called.

    >>> import numpy as np
    >>> of_each_layer("weights", (np.eye(2), np.eye(3)), lambda name, layer: (name, layer.shape))
    [('weights[0]', (2, 2)), ('weights[1]', (3, 3))]
    """
    if isinstance(layers, str | bytes) or not isinstance(layers, Sequence) or hasattr(layers, "shape"):
        return count(argument, layers)
    if not len(layers):
        raise ArgumentError(argument, "there are no layers in it")
    return [count(f"{argument}[{place}]", one) for place, one in enumerate(layers)]


def layer_of(value: Any, place: int) -> int:
    """The layer of the model that a record is of; of anything else, its place among those given."""
    layer = getattr(value, "layer", None)
    return place if layer is None else layer


def heads_of(value: Any, count: int) -> Sequence[int]:
    """The numbers that the heads have in the model: a record may hold some of them only."""
    heads = getattr(value, "heads", None)
    return range(count) if heads is None else heads


def names_of(layers: Any, count: int) -> list[str]:
    """What the layers are called: the names of records, else their numbers."""
    if isinstance(layers, Sequence):
        return [str(getattr(one, "name", place)) for place, one in enumerate(layers)]
    return [str(getattr(layers, "name", place)) for place in range(count)]


def same_grid(argument: str, maps: list[AttentionMap]) -> tuple[int, int, int]:
    """The batch, the queries and the keys that all layers share."""
    b, _, q, k = maps[0].shape
    for place, one in enumerate(maps):
        if (one.shape[0], *one.shape[2:]) != (b, q, k):
            told = f"layer {place} has (b,q,k) = {(one.shape[0], *one.shape[2:])}, layer 0 has {(b, q, k)}"
            raise ShapeError(argument, told, "compare layers that attend between the same tokens")
    return b, q, k
