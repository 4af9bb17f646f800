"""``show``, which chooses a plot by the shape of the attention weights."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from regard._drawing import as_weights
from regard.errors import ArgumentError, DtypeError, ShapeError, former_names
from regard.plots.heads import plot_heads, plot_model
from regard.plots.weights import plot_weights, visualize_attention

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["show"]


@former_names(tokens="query_tokens", other_tokens="key_tokens")
def show(
    weights: Any,
    query_tokens: Iterable[Any] | None = None,
    key_tokens: Iterable[Any] | None = None,
    *,
    layer: int | None = None,
    head: int | None = None,
    batch: int = 0,
    title: str | None = None,
    path: str | os.PathLike[str] | None = None,
    window: bool = False,
) -> Figure:
    """Plot attention weights as bars, heat maps or a grid of layers and heads, chosen by their shape.

    ``weights`` is an array, a tensor, a map or a record. ``(k,)`` is drawn as bars, ``(q,k)`` as a heat map, and
    ``(h,q,k)`` or ``(b,h,q,k)`` as one heat map for each head of the sequence ``batch``. A sequence with one item for
    each layer, such as ``outputs.attentions`` of Hugging Face or a recording of ``regard.capture``, is drawn as a grid
    of layers and heads. ``layer`` picks one layer, and ``head`` one head of it. For records, both are the numbers in
    the model, and otherwise indices. A sequence of ``(k,)`` is drawn as the rows of one
    heat map. ``query_tokens`` label the rows and ``key_tokens`` the columns. If there are as many queries as keys, or
    only one query, one of the two is enough. ``path`` writes a .png, .svg or .pdf file.

    Negative weights, as in models that mix heads after the softmax, are drawn in blue on a diverging colour scale. In
    an array they are an error, since they are then most likely scores before the softmax.

    Returns the figure, which a notebook displays as the result of a cell, as :meth:`Recording.show` returns its widget.
    Nothing is written without ``path``, and no window opens without ``window=True``.

    >>> import numpy as np
    >>> figure = show(np.full((1, 2, 3, 3), 1 / 3), ["the", "cat", "sat"])
    >>> [ax.get_title() for ax in figure.axes if ax.get_title()]
    ['Head 0', 'Head 1']
    """
    # The output object of a Hugging Face model.
    weights = getattr(weights, "attentions", weights)
    _check_present(weights)
    for name, number in (("layer", layer), ("head", head)):
        if number is not None and not hasattr(number, "__index__"):
            raise DtypeError(name, f"expected one number, got {number!r}", "call show once for each")
    outlet: dict[str, Any] = {"path": path, "window": window}
    if layer is None and _is_rows(weights):
        weights = _stacked(weights)
    if _is_layers(weights):
        if layer is None:
            _no_choice("head", head, "give layer=... too")
            _check_layers(weights)
            layers = [_of_one_sequence(item, batch) for item in weights]
            return plot_model(layers, query_tokens, key_tokens, **outlet, **_named(title))
        weights = _layer(weights, layer)
    elif layer is not None:
        raise ArgumentError("layer", "the weights are of a single layer", "leave it out")
    query_tokens, key_tokens = _labels(weights, query_tokens, key_tokens, batch)
    array = _one_sequence(weights, batch)
    if not hasattr(getattr(weights, "map", weights), "pooled") and bool((array < 0).any()):
        raise ArgumentError(
            "weights",
            "found negative numbers",
            "take the softmax of scores first, or give AttentionMap.from_weights(weights, unnormalized=True)",
        )
    heads = getattr(weights, "heads", None)
    title = title or _title(layer, head)
    if head is not None:
        array = _pick("head", array, head) if heads is None else array[_place_of("head", head, heads)]
    return _draw(array, query_tokens, key_tokens, title, heads, outlet)


def _title(layer: int | None, head: int | None) -> str | None:
    """Return a title such as "Layer 2, head 5", or None if neither was chosen."""
    parts = [f"{name} {n}" for name, n in (("layer", layer), ("head", head)) if n is not None]
    return ", ".join(parts).capitalize() or None


def _draw(
    array: Any, queries: Any, keys: Any, title: str | None, heads: Any, outlet: dict[str, Any]
) -> Figure:
    """Draw the weights of one sequence. ``outlet`` holds the path to write to and whether to open a window."""
    shape = tuple(array.shape)
    if len(shape) == 3 and shape[0] == 1:
        array, shape = array[0], shape[1:]
    if len(shape) == 1:
        labels = queries if keys is None else keys
        return plot_weights(array, labels, **outlet, **_named(title or "Attention Weights"))
    queries, keys = _both_sides(queries, keys, *shape[-2:])
    if len(shape) == 3:
        return plot_heads(array, queries, keys, heads=heads, **outlet, **_named(title))
    numbers = max(shape) <= 20
    axes = ("Key", "Query")
    return visualize_attention(array, keys, queries, numbers=numbers, axes=axes, **outlet, **_named(title))


def _both_sides(queries: Any, keys: Any, q: int, k: int) -> tuple[list[Any], list[Any]]:
    """Return the labels of the q queries and of the k keys.

    Missing labels are those of the other axis if q == k, and otherwise the numbers from 0.
    """
    queries, keys = (None if labels is None else list(labels) for labels in (queries, keys))
    if q == k:
        queries, keys = (keys if queries is None else queries), (queries if keys is None else keys)
    return (list(range(q)) if queries is None else queries), (list(range(k)) if keys is None else keys)


def _check_present(weights: Any) -> None:
    """Raise an error if a model returned None or the steps of ``generate()`` instead of the weights of one pass."""
    fix = "record them with regard.capture(model), which needs no setting of the model"
    if isinstance(weights, Sequence) and not len(weights):
        raise ArgumentError("weights", "expected at least one layer, got none", fix)
    layers = weights if isinstance(weights, list | tuple) else [weights]
    if any(_is_missing(layer) for layer in layers):
        raise ArgumentError("weights", "the model returned no weights", fix)
    first = layers[0]
    if isinstance(first, list | tuple) and first and len(_shape(first[0]) or ()) >= 2:
        problem = (
            f"expected layers, got {len(layers)} steps of {len(first)} layers, as generate() returns them"
        )
        fix = "use regard.capture(model) around generate(), or give one step, such as weights[0]"
        raise ShapeError("weights", problem, fix)


def _is_missing(layer: Any) -> bool:
    """Return whether a layer, or one of the layers of a step, is None.

    Hugging Face models return None unless attn_implementation is "eager".
    """
    return layer is None or (isinstance(layer, list | tuple) and any(item is None for item in layer))


def _shape(value: Any) -> tuple[int, ...] | None:
    """Return the shape of an array, a tensor, a map or a record, and None for anything else."""
    shape = getattr(getattr(value, "map", value), "shape", None)
    return None if shape is None else tuple(shape)


def _is_layers(weights: Any) -> bool:
    return isinstance(weights, Sequence) and len(weights) > 0 and bool(_shape(weights[0]))


def _is_rows(weights: Any) -> bool:
    return isinstance(weights, list | tuple) and all(len(_shape(row) or ()) == 1 for row in weights)


def _stacked(rows: Sequence[Any]) -> Any:
    """Stack rows ``(k,)`` into one array ``(q,k)``."""
    import numpy as np

    arrays = [as_weights(f"weights[{place}]", row, "k") for place, row in enumerate(rows)]
    for place, row in enumerate(arrays):
        if len(row) != len(arrays[0]):
            problem = f"expected {len(arrays[0])} keys as in weights[0], got {len(row)}"
            raise ShapeError(f"weights[{place}]", problem)
    return np.stack(arrays)


def _layer(weights: Sequence[Any], layer: int) -> Any:
    """Return the weights of one layer, found by the layer number of records.

    A negative number, and any number if an item has no layer number, is an index.
    """
    numbers = [getattr(item, "layer", None) for item in weights]
    if layer < 0 or None in numbers:
        return _pick("layer", weights, layer)
    if numbers.count(layer) > 1:
        records = [record for record, number in zip(weights, numbers, strict=True) if number == layer]
        names = [record.name for record in records]
        kinds = [record.kind for record in records]
        fix = (
            f'take one kind, such as seen.by(kind="{kinds[0]}")'
            if len(set(kinds)) > 1
            else "take one of them, such as seen[0]"
        )
        raise ArgumentError("layer", f"{len(names)} records are of layer {layer}: {', '.join(names)}", fix)
    return weights[_place_of("layer", layer, numbers)]


def _place_of(name: str, number: int, numbers: Sequence[Any]) -> int:
    if number not in numbers:
        raise ArgumentError(name, f"expected one of {list(numbers)}, got {number}")
    return list(numbers).index(number)


def _check_layers(layers: Sequence[Any]) -> None:
    for place, layer in enumerate(layers):
        shape = _shape(layer) or ()
        if len(shape) < 2:
            problem = f"expected (q,k), (h,q,k) or (b,h,q,k), got ({','.join(map(str, shape))})"
            raise ShapeError(f"weights[{place}]", problem)


def _of_one_sequence(weights: Any, batch: int) -> Any:
    """Return one sequence of a layer, without computing the weights of a map.

    A long map is pooled later, so its full matrix is never in memory.
    """
    attention_map = getattr(weights, "map", weights)
    if not hasattr(attention_map, "pooled"):
        return _one_sequence(weights, batch)
    _check("batch", batch, attention_map.shape[0])
    part = attention_map.select(batch=batch)
    if attention_map is weights:
        return part
    queries, keys = (x and [x[batch]] for x in (weights.query_tokens, weights.key_tokens))
    return replace(weights, map=part, query_tokens=queries, key_tokens=keys)


def _one_sequence(weights: Any, batch: int) -> Any:
    """Return one sequence of a batch as an array or tensor of at most three axes ``(h,q,k)``."""
    weights = getattr(weights, "map", weights)
    # Of a map, only the weights of this sequence are computed.
    if hasattr(weights, "select") and hasattr(weights, "pooled"):
        _check("batch", batch, weights.shape[0])
        return weights.select(batch=batch).weights()[0]
    if not hasattr(weights, "shape"):
        import numpy as np

        try:
            weights = np.asarray(weights, dtype=np.float64)
        except (TypeError, ValueError) as error:
            problem = f"expected an array, a tensor, a map or layers of these, got {type(weights).__name__}"
            raise DtypeError("weights", problem, str(error)) from None
    if not 1 <= len(weights.shape) <= 4:
        raise ShapeError("weights", f"expected (k), (q,k), (h,q,k) or (b,h,q,k), got {tuple(weights.shape)}")
    return _pick("batch", weights, batch) if len(weights.shape) == 4 else weights


def _labels(record: Any, query_tokens: Any, key_tokens: Any, batch: int) -> tuple[Any, Any]:
    """Return the labels of the queries and of the keys, from the arguments or else from the record."""
    if query_tokens is not None or key_tokens is not None or not hasattr(record, "query_tokens"):
        return query_tokens, key_tokens
    queries, keys = record.query_tokens, record.key_tokens
    keys = keys or (queries if record.kind != "cross" else None)
    return (queries[batch] if queries else None), (keys[batch] if keys else None)


def _pick(name: str, values: Any, place: int) -> Any:
    _check(name, place, len(values))
    return values[place]


def _check(name: str, place: int, count: int) -> None:
    if not -count <= place < count:
        raise ArgumentError(name, f"expected one of {count}, counted from 0, got {place}")


def _no_choice(name: str, value: Any, fix: str) -> None:
    if value is not None:
        raise ArgumentError(name, f"got {value} without a layer", fix)


def _named(title: str | None) -> dict[str, Any]:
    return {} if title is None else {"title": title}
