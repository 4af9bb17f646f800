"""One call for whatever looks like attention."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from regard._drawing import as_weights
from regard.errors import ArgumentError, DtypeError, ShapeError
from regard.plots.heads import plot_heads, plot_model
from regard.plots.weights import plot_weights, visualize_attention

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["show"]


def show(
    weights: Any,
    tokens: Iterable[Any] | None = None,
    other_tokens: Iterable[Any] | None = None,
    *,
    layer: int | None = None,
    head: int | None = None,
    batch: int = 0,
    title: str | None = None,
    path: str | os.PathLike[str] | None = None,
) -> Figure:
    """Draw attention, in the form that suits its shape.

    ``weights`` may be an array, a tensor or a map ``(k,)`` (bars), ``(q,k)`` (a heat map), ``(h,q,k)`` or ``(b,h,q,k)``
    (a heat map for each head), or a sequence of these, one for each layer, as Hugging Face's ``outputs.attentions``
    and what ``regard.capture`` has seen (a grid of layers and heads; ``layer`` and ``head`` open one). ``tokens`` label
    the keys, and the queries too unless ``other_tokens`` do. Several ``(k,)`` are the rows of one heat map. ``path``
    writes a .png, .svg or .pdf file.

    >>> import numpy as np
    >>> figure = show(np.full((1, 2, 3, 3), 1 / 3), ["the", "cat", "sat"])
    >>> [ax.get_title() for ax in figure.axes if ax.get_title()]
    ['Head 0', 'Head 1']
    """
    weights = getattr(weights, "attentions", weights)  # what a Hugging Face model returns, whole
    _check_there(weights)
    for name, number in (("layer", layer), ("head", head)):
        if number is not None and not hasattr(number, "__index__"):
            raise DtypeError(name, f"expected one number, got {number!r}", "draw one after the other")
    if layer is None and _is_rows(weights):
        weights = _stacked(weights)
    if _is_layers(weights):
        if layer is None:
            _no_choice("head", head, "name the layer too")
            _check_layers(weights)
            layers = [_of_one_sequence(one, batch) for one in weights]
            return plot_model(layers, tokens, other_tokens, path=path, **_named(title))
        weights = _layer(weights, layer)
    elif layer is not None:
        raise ArgumentError("layer", "these weights are those of one layer", "leave it out")
    tokens, other_tokens = _labels(weights, tokens, other_tokens, batch)
    array = _one_sequence(weights, batch)
    if bool((array < 0).any()):
        raise ArgumentError("weights", "found negative numbers", "take the softmax of scores first")
    heads = getattr(weights, "heads", None)
    title = title or _title(layer, head)
    if head is not None:
        array = _pick("head", array, head) if heads is None else array[_place_of("head", head, heads)]
    return _draw(array, tokens, other_tokens, title, path, heads)


def _title(layer: int | None, head: int | None) -> str | None:
    """What is drawn, where it was chosen."""
    chosen = [f"{name} {n}" for name, n in (("layer", layer), ("head", head)) if n is not None]
    return ", ".join(chosen).capitalize() or None


def _draw(array: Any, tokens: Any, other_tokens: Any, title: str | None, path: Any, heads: Any) -> Figure:
    shape = tuple(array.shape)
    if len(shape) == 3 and shape[0] == 1:
        array, shape = array[0], shape[1:]
    if len(shape) == 1:
        return plot_weights(array, tokens, path=path, **_named(title or "Attention Weights"))
    keys = list(tokens) if tokens is not None else [str(i) for i in range(shape[-1])]
    if len(shape) == 3:
        queries = other_tokens if other_tokens is not None or shape[-2] == shape[-1] else range(shape[-2])
        return plot_heads(array, keys, queries, heads=heads, path=path, **_named(title))
    if other_tokens is None:
        other_tokens = keys if shape[-2] == shape[-1] else range(shape[-2])
    numbers = max(shape) <= 20
    axes = ("Key", "Query")
    return visualize_attention(
        array, keys, other_tokens, path=path, numbers=numbers, axes=axes, **_named(title)
    )


def _check_there(weights: Any) -> None:
    """Refuse what models give in place of the weights of one pass: nothing, or the steps of a generation."""
    fix = "record them with regard.capture(model), which needs no setting of the model"
    if isinstance(weights, Sequence) and not len(weights):
        raise ArgumentError("weights", "there are no layers in it", fix)
    given = weights if isinstance(weights, list | tuple) else [weights]
    if any(_is_nothing(one) for one in given):
        raise ArgumentError("weights", "the model returned no weights", fix)
    first = given[0]
    if isinstance(first, list | tuple) and first and len(_shape(first[0]) or ()) >= 2:
        told = f"expected layers, got {len(given)} steps of {len(first)} layers, as generate() returns them"
        fix = "use regard.capture(model) around generate(), or give one step, such as weights[0]"
        raise ShapeError("weights", told, fix)


def _is_nothing(layer: Any) -> bool:
    """What Hugging Face gives for a layer, or for the layers of a step, unless its model is "eager"."""
    return layer is None or (isinstance(layer, list | tuple) and any(one is None for one in layer))


def _shape(value: Any) -> tuple[int, ...] | None:
    """The shape of an array, a tensor, a map or a record; None of anything else."""
    shape = getattr(getattr(value, "map", value), "shape", None)
    return None if shape is None else tuple(shape)


def _is_layers(weights: Any) -> bool:
    return isinstance(weights, Sequence) and len(weights) > 0 and bool(_shape(weights[0]))


def _is_rows(weights: Any) -> bool:
    return isinstance(weights, list | tuple) and all(len(_shape(one) or ()) == 1 for one in weights)


def _stacked(rows: Sequence[Any]) -> Any:
    """Rows ``(k,)`` as one array ``(q,k)``."""
    import numpy as np

    arrays = [as_weights(f"weights[{place}]", row, "k") for place, row in enumerate(rows)]
    for place, row in enumerate(arrays):
        if len(row) != len(arrays[0]):
            told = f"expected {len(arrays[0])} keys as in weights[0], got {len(row)}"
            raise ShapeError(f"weights[{place}]", told)
    return np.stack(arrays)


def _layer(weights: Sequence[Any], layer: int) -> Any:
    """The weights of one layer: records are known by the layer they are of, anything else by its place."""
    numbers = [getattr(one, "layer", None) for one in weights]
    if layer < 0 or None in numbers:
        return _pick("layer", weights, layer)
    if numbers.count(layer) > 1:
        names = [one.name for one, number in zip(weights, numbers, strict=True) if number == layer]
        told = f"{len(names)} records are of layer {layer}: {', '.join(names)}"
        alike = [one.kind for one, number in zip(weights, numbers, strict=True) if number == layer]
        several = len(set(alike)) > 1
        fix = (
            f'take one kind, such as seen.by(kind="{alike[0]}")'
            if several
            else "take one of them, such as seen[0]"
        )
        raise ArgumentError("layer", told, fix)
    return weights[_place_of("layer", layer, numbers)]


def _place_of(name: str, wanted: int, numbers: Sequence[Any]) -> int:
    if wanted not in numbers:
        raise ArgumentError(name, f"expected one of {list(numbers)}, got {wanted}")
    return list(numbers).index(wanted)


def _check_layers(layers: Sequence[Any]) -> None:
    for place, one in enumerate(layers):
        shape = _shape(one) or ()
        if len(shape) < 2:
            told = f"expected (q,k), (h,q,k) or (b,h,q,k), got ({','.join(map(str, shape))})"
            raise ShapeError(f"weights[{place}]", told)


def _of_one_sequence(weights: Any, batch: int) -> Any:
    """One sequence of a layer; a map stays one, so that a long one is pooled and never whole in memory."""
    found = getattr(weights, "map", weights)
    if not hasattr(found, "pooled"):
        return _one_sequence(weights, batch)
    _check("batch", batch, found.shape[0])
    part = found.select(batch=batch)
    if found is weights:
        return part
    queries, keys = (x and [x[batch]] for x in (weights.query_tokens, weights.key_tokens))
    return replace(weights, map=part, query_tokens=queries, key_tokens=keys)


def _one_sequence(weights: Any, batch: int) -> Any:
    """One sequence of a batch, as an array ``(h,q,k)`` or less."""
    weights = getattr(weights, "map", weights)
    if hasattr(weights, "select") and hasattr(weights, "pooled"):  # a map: compute the one that is drawn
        _check("batch", batch, weights.shape[0])
        return weights.select(batch=batch).weights()[0]
    if not hasattr(weights, "shape"):
        import numpy as np

        try:
            weights = np.asarray(weights, dtype=np.float64)
        except (TypeError, ValueError) as error:
            told = f"expected an array, a tensor, a map or layers of these, got {type(weights).__name__}"
            raise DtypeError("weights", told, str(error)) from None
    if not 1 <= len(weights.shape) <= 4:
        raise ShapeError("weights", f"expected (k), (q,k), (h,q,k) or (b,h,q,k), got {tuple(weights.shape)}")
    return _pick("batch", weights, batch) if len(weights.shape) == 4 else weights


def _labels(record: Any, tokens: Any, other_tokens: Any, batch: int) -> tuple[Any, Any]:
    """The tokens given, or those that a record knows."""
    if tokens is not None or not hasattr(record, "query_tokens"):
        return tokens, other_tokens
    queries, keys = record.query_tokens, record.key_tokens
    keys = keys or (queries if record.kind != "cross" else None)
    return (keys[batch] if keys else None), (queries[batch] if queries else None)


def _pick(name: str, values: Any, place: int) -> Any:
    _check(name, place, len(values))
    return values[place]


def _check(name: str, place: int, count: int) -> None:
    if not -count <= place < count:
        raise ArgumentError(name, f"expected one of {count}, counted from 0, got {place}")


def _no_choice(name: str, value: Any, fix: str) -> None:
    if value is not None:
        raise ArgumentError(name, f"{value} of which layer?", fix)


def _named(title: str | None) -> dict[str, Any]:
    return {} if title is None else {"title": title}
