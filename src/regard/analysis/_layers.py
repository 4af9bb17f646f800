"""Conversion of maps, records, arrays and sequences of them to a list of maps, one for each layer."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from torch import Tensor

from regard.errors import ArgumentError, DtypeError, ShapeError, renamed
from regard.maps import AttentionMap, Record
from regard.maps.queries import padding_queries
from regard.shapes import check_dense

__all__ = [
    "Layer",
    "as_map",
    "as_maps",
    "check_not_negative",
    "head_numbers",
    "layer_of",
    "names_of",
    "of_each_layer",
    "padding_of",
    "same_grid",
]

Counted = TypeVar("Counted")
Layer = AttentionMap | Record | np.ndarray | Tensor


def as_map(argument: str, value: Any, *, unnormalized: bool = False) -> AttentionMap:
    """Convert an array, a tensor or a record to an AttentionMap, and return a map unchanged.

    Three axes are read as (h,q,k). ``argument`` is the name of the argument in errors. ``unnormalized`` is as for
    :meth:`AttentionMap.from_weights`.

    >>> import numpy as np
    >>> as_map("weights", np.eye(3)).shape
    torch.Size([1, 1, 3, 3])
    """
    value = getattr(value, "map", value)  # a record
    if isinstance(value, AttentionMap):
        return value
    if isinstance(value, Tensor):
        check_dense(argument, value)
    if hasattr(value, "shape") and hasattr(value, "ndim"):
        if not 2 <= value.ndim <= 4:
            raise ShapeError(argument, f"expected (q,k), (h,q,k) or (b,h,q,k), got {tuple(value.shape)}")
        four_dimensional = value[None] if value.ndim == 3 else value
        with renamed(weights=argument):
            return AttentionMap.from_weights(four_dimensional, unnormalized=unnormalized)
    # Hugging Face models return None for each layer unless attn_implementation is "eager".
    if value is None:
        fix = "record them with regard.capture(model), which needs no setting of the model"
        raise ArgumentError(argument, "the model returned no weights", fix)
    raise DtypeError(
        argument, f"expected an AttentionMap, an array, a tensor or a record, got {type(value).__name__}"
    )


def as_maps(argument: str, layers: Any, *, unnormalized: bool = False) -> list[AttentionMap]:
    """Convert one layer or a sequence of layers to a list of maps, with the arguments of :func:`as_map`.

    An empty sequence raises ArgumentError.
    """
    maps = of_each_layer(argument, layers, functools.partial(as_map, unnormalized=unnormalized))
    return maps if isinstance(maps, list) else [maps]


def of_each_layer(
    argument: str, layers: Any, count: Callable[[str, Any], Counted]
) -> Counted | list[Counted]:
    """Apply ``count(name, layer)`` to a single layer, or to each layer of a sequence as a list.

    ``name`` is the argument's name for error messages, with the index of the layer in a sequence. An empty sequence
    raises ArgumentError.

    >>> import numpy as np
    >>> of_each_layer("weights", (np.eye(2), np.eye(3)), lambda name, layer: (name, layer.shape))
    [('weights[0]', (2, 2)), ('weights[1]', (3, 3))]
    """
    if isinstance(layers, str | bytes) or not isinstance(layers, Sequence) or hasattr(layers, "shape"):
        return count(argument, layers)
    if not len(layers):
        raise ArgumentError(argument, "expected at least one layer, got none")
    return [count(f"{argument}[{index}]", layer) for index, layer in enumerate(layers)]


def layer_of(value: Any, place: int) -> int:
    """Return the layer number of a record, or ``place`` if the value has no layer number."""
    layer = getattr(value, "layer", None)
    return place if layer is None else layer


def head_numbers(value: Any, count: int) -> Sequence[int]:
    """Return the numbers in the model of the ``count`` heads of a layer.

    They differ from 0..count-1 if the layer is a record of some heads only.
    """
    heads = getattr(value, "heads", None)
    return range(count) if heads is None else heads


def names_of(layers: Any, count: int) -> list[str]:
    """Return the names of ``count`` layers, taken from records, and otherwise their indices as text."""
    if isinstance(layers, Sequence):
        return [str(getattr(layer, "name", index)) for index, layer in enumerate(layers)]
    return [str(getattr(layers, "name", index)) for index in range(count)]


def padding_of(value: Any, attention_map: AttentionMap) -> np.ndarray:
    """Return a boolean array ``(b,q)`` that is True for padding queries.

    ``value`` is the record or the weights behind ``attention_map``. A record states whether it is self-attention and
    which keys are sinks.
    """
    kind, sinks = getattr(value, "kind", None), getattr(value, "sinks", ())
    return padding_queries(attention_map._source, kind, sinks).numpy()


def same_grid(argument: str, maps: list[AttentionMap]) -> tuple[int, int, int]:
    """Return (b,q,k) of the maps, or raise ShapeError if they differ between layers."""
    b, _, q, k = maps[0].shape
    for index, layer in enumerate(maps):
        sizes = (layer.shape[0], *layer.shape[2:])
        if sizes != (b, q, k):
            problem = f"layer {index} has (b,q,k) = {sizes}, layer 0 has {(b, q, k)}"
            raise ShapeError(argument, problem, "compare layers that attend between the same tokens")
    return b, q, k


def check_not_negative(argument: str, weights: Tensor | np.ndarray, what: str) -> None:
    """Raise ArgumentError if some weights are negative, since the statistic named ``what`` is not defined for them.

    >>> check_not_negative("layers", np.array([1.5, -0.5]), "rollout")
    Traceback (most recent call last):
        ...
    regard.errors.ArgumentError: layers: found negative weights, for which rollout is not defined: leave out layers that
    mix heads after the softmax
    """
    if bool((weights < 0).any()):
        problem = f"found negative weights, for which {what} is not defined"
        raise ArgumentError(argument, problem, "leave out layers that mix heads after the softmax")
