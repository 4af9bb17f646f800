"""Plots of all heads of one layer, or of all layers and heads of a model."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from regard._drawing import as_labels, as_weights
from regard._tokens import columns_of
from regard.errors import ShapeError, former_names
from regard.plots.figures import (
    check_path,
    color_scale,
    families_of,
    finish,
    fit,
    new_figure,
    place_axes,
    place_beside,
    wants_screen,
)
from regard.plots.labels import cell_side, cut_title, label_columns, label_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_heads", "plot_model"]

# Inches, the side of a heat map in the grid of a model.
SMALL = 1.0
MOST_CELLS = 256  # cells along a side of a small heat map
LINE = 0.11  # inches for a label of a small heat map
MOST_LABELS = 36  # labels along a side of a small heat map
GAP = 0.28  # inches between the heat maps of heads


@former_names(tokens="query_tokens", other_tokens="key_tokens", show="window")
def plot_heads(
    weights: Any,
    query_tokens: Iterable[Any],
    key_tokens: Iterable[Any] | None = None,
    *,
    heads: Sequence[int] | None = None,
    columns: int = 4,
    title: str = "Attention heads",
    path: str | os.PathLike[str] | None = None,
    window: bool = False,
) -> Figure:
    """Draw one heat map for each head of ``weights`` ``(h,q,k)``, all on the same colour scale.

    ``query_tokens`` label the rows and ``key_tokens`` the columns, by default with the query tokens. ``heads`` are the
    head numbers in the titles, by default those of a record, or else from 0. ``columns`` is the number of heat maps in
    a row. ``path`` writes a .png, .svg or .pdf file, and ``window=True`` opens a window.

    >>> figure = plot_heads(np.full((2, 3, 3), 1 / 3), ["a", "b", "c"])
    >>> [ax.get_title() for ax in figure.axes if ax.get_title()]
    ['Head 0', 'Head 1']
    """
    array = _stack("weights", weights)
    h, q, k = array.shape
    numbers = _head_numbers(weights, h) if heads is None else heads
    rows = as_labels("query_tokens", query_tokens, q, f"rows in weights ({h},{q},{k})")
    if key_tokens is None and q != k:
        problem = f"required, since there are {q} queries and {k} keys"
        raise ShapeError("key_tokens", problem, "give one token for each key")
    columns_of_keys = rows if key_tokens is None else key_tokens
    keys = as_labels("key_tokens", columns_of_keys, k, f"columns in weights ({h},{q},{k})")
    target, screen = check_path(path), wants_screen(window, path)
    cell = cell_side(max(q, k), 0.26)
    side = (max(1.6, k * cell), max(1.6, q * cell))
    families = families_of([title, *keys, *rows])
    figure = new_figure((side[0] + 2) * columns, (side[1] + 2) * h, screen)
    margin = _label_room(rows, keys)
    axes = []
    for head in range(h):
        down, across = divmod(head, columns)
        ax = place_axes(figure, across * (side[0] + margin[0]), -down * (side[1] + margin[1]), *side)
        _draw_heat_map(ax, array[head], array)
        ax.set_title(f"Head {numbers[head]}", fontsize=9)
        label_columns(ax, keys, side[0] / k, families)
        label_rows(ax, rows, side[1] / q, families)
        axes.append(ax)
    bar = place_axes(figure, 0, 0, 1, 1)
    figure.colorbar(axes[0].get_images()[0], cax=bar)
    place_beside(figure, axes[min(h, columns) - 1], bar)
    _write_title(figure, axes, title, families)
    fit(figure, [*axes, bar])
    return finish(figure, target, screen)


@former_names(tokens="query_tokens", other_tokens="key_tokens", show="window")
def plot_model(
    layers: Sequence[Any],
    query_tokens: Iterable[Any] | None = None,
    key_tokens: Iterable[Any] | None = None,
    *,
    title: str = "Layers (rows) and heads (columns)",
    path: str | os.PathLike[str] | None = None,
    window: bool = False,
) -> Figure:
    """Draw every head of every layer as a small heat map, with layers as rows and heads as columns.

    ``layers`` holds a map, a record or an array ``(h,q,k)`` for each layer. Each heat map has its own colour scale from
    0 to its largest weight, or a diverging scale if it has negative weights. Long maps are pooled to their largest
    weights. ``query_tokens`` label the rows at the left, and ``key_tokens`` the columns below the lowest row. If there
    are as many queries as keys, one of the two is enough. Records bring their own labels. More than 36 labels along a
    side are left out. ``plot_heads`` and ``show(..., layer=, head=)`` draw them. ``path`` writes a .png, .svg or .pdf
    file, and ``window=True`` opens a window.

    >>> figure = plot_model([np.full((2, 3, 3), 1 / 3)] * 4)
    >>> len(figure.axes)
    8
    """
    if not layers:
        raise ShapeError("layers", "expected at least one layer, got none")
    queries, keys = (None if x is None else list(x) for x in (query_tokens, key_tokens))
    stacks = [_pooled(place, layer) for place, layer in enumerate(layers)]
    labels = [_readable(_labels_of(place, layer, queries, keys)) for place, layer in enumerate(layers)]
    target, screen = check_path(path), wants_screen(window, path)
    texts = [text for rows, columns in labels for text in (*(rows or ()), *(columns or ()))]
    families = families_of([title, *texts])
    side = min(max([SMALL, *(LINE * len(x) for both in labels for x in both if x)]), 2.2 * SMALL)
    widest = max(len(stack) for stack in stacks)
    figure = new_figure(widest * (side + 0.1) + 1, len(stacks) * (side + 0.1) + 1, screen)
    names = _names(layers)
    axes, top = [], 0.0
    for layer, (stack, (rows, columns)) in enumerate(zip(stacks, labels, strict=True)):
        pictures = _row_of_pictures(figure, stack, top, side)
        pictures[0].set_ylabel(names[layer], fontsize=8)
        if rows:
            label_rows(pictures[0], rows, side / len(rows), families)
        last = layer + 1 == len(stacks)
        below = columns if last or labels[layer + 1][1] != columns else None
        for head, ax in enumerate(pictures):
            if below:
                label_columns(ax, below, side / len(below), families)
            if layer == 0:
                ax.set_title(f"head {_head_numbers(layers[0], len(stack))[head]}", fontsize=8)
        axes += pictures
        top -= side + 0.1 + (_label_room([""], below)[1] if below else 0)
    _write_title(figure, axes, title, families)
    fit(figure, axes)
    return finish(figure, target, screen)


def _row_of_pictures(figure: Figure, stack: np.ndarray, top: float, side: float) -> list[Axes]:
    axes = []
    for head, picture in enumerate(stack):
        ax = place_axes(figure, head * (side + 0.1), top, side, side)
        _draw_heat_map(ax, picture, picture)
        ax.set_xticks([])
        ax.set_yticks([])
        axes.append(ax)
    return axes


def _names(layers: Sequence[Any]) -> list[str]:
    """Return the row titles, such as "layer 3", with the tower or the kind of attention if there are several."""
    numbers = [getattr(layer, "layer", None) for layer in layers]
    kinds = [getattr(layer, "kind", None) for layer in layers]
    numbered = [f"layer {place if n is None else n}" for place, n in enumerate(numbers)]
    names = numbered
    if len(set(kinds)) > 1:
        names = [f"{name}, {kind}" if kind else name for name, kind in zip(numbered, kinds, strict=True)]
    if not all(getattr(layer, "map", None) is not None for layer in layers):
        return names
    from regard.maps.records import towers_of

    towers = towers_of([layer.name for layer in layers], names if "cross" in kinds else numbered)
    return [f"{tower}, {name}" if tower else name for tower, name in zip(towers, names, strict=True)]


def _labels_of(
    place: int, layer: Any, queries: list[Any] | None, keys: list[Any] | None
) -> tuple[list[str] | None, list[str] | None]:
    """Return the labels of a layer's queries and keys, from the arguments or else from its record."""
    if queries is None and keys is None and getattr(layer, "map", None) is not None:
        queries, keys = (x and x[0] for x in (layer.query_tokens, layer.key_tokens))
        keys = keys or (queries if layer.kind != "cross" else None)
    q, k = getattr(layer, "map", layer).shape[-2:]
    where = f"layers[{place}] ({q},{k})"
    rows = None if queries is None else as_labels("query_tokens", queries, q, f"rows in {where}")
    columns = None if keys is None else as_labels("key_tokens", keys, k, f"columns in {where}")
    if q == k:
        return (columns if rows is None else rows), (rows if columns is None else columns)
    return rows, columns


def _readable(labels: tuple[list[str] | None, ...]) -> tuple[list[str] | None, ...]:
    return tuple(x if x and len(x) <= MOST_LABELS else None for x in labels)


def _head_numbers(layer: Any, count: int) -> Sequence[int]:
    """Return the numbers in the model of the ``count`` heads of a layer.

    They differ from 0..count-1 if the layer is a record of some heads only.
    """
    heads = getattr(layer, "heads", None)
    return range(count) if heads is None else heads


def _draw_heat_map(ax: Axes, weights: np.ndarray, scaled_by: np.ndarray) -> None:
    """Draw a heat map on the colour scale of ``scaled_by``."""
    ax.imshow(weights, aspect="auto", interpolation="nearest", **color_scale(scaled_by))


def _write_title(figure: Figure, axes: list[Axes], title: str, families: list[str] | None) -> None:
    """Write the title above all heat maps at the left edge, anchored to the first axes."""
    first = axes[0]
    height = float(figure.get_figheight()) * first.get_position().height
    text = first.text(
        0, 1 + 0.42 / height, cut_title(title), transform=first.transAxes, fontsize=11, va="bottom"
    )
    text.set(parse_math=False)
    if families:
        text.set_fontfamily(families)


def _label_room(rows: list[str], columns: list[str]) -> tuple[float, float]:
    """Estimate the width for the row labels beside a heat map and the height for the column labels below it, in inches.

    Both include a gap to the next heat map.
    """
    wide, deep = max(map(columns_of, rows)), max(map(columns_of, columns))
    return 0.075 * wide + GAP, 0.06 * deep + 2 * GAP


def _stack(argument: str, value: Any) -> np.ndarray:
    """Convert weights to an array ``(h,q,k)`` of finite numbers, dropping a batch axis of size 1."""
    value = getattr(value, "map", value)
    if hasattr(value, "detach"):
        value = value.detach().cpu().double().numpy()
    array = np.asarray(value.numpy() if hasattr(value, "numpy") else value, dtype=np.float64)
    if array.ndim == 4 and len(array) == 1:
        array = array[0]
    if array.ndim == 2:
        array = array[None]
    if array.ndim != 3 or 0 in array.shape:
        fix = f"pick one sequence, such as {argument}[0]" if array.ndim == 4 else ""
        raise ShapeError(argument, f"expected (h,q,k), got {array.shape}", fix)
    return as_weights(argument, array, "hqk")


def _pooled(place: int, layer: Any) -> np.ndarray:
    """Return the weights of a layer as an array ``(h,q,k)``, pooled to at most ``MOST_CELLS`` a side.

    A cell holds the weight of the largest magnitude.
    """
    value = getattr(layer, "map", layer)
    # A long map is pooled by the map itself, so its full matrix is never in memory. Maps with negative weights hold
    # their matrix, and are pooled below.
    if hasattr(value, "pooled") and max(value.shape[2:]) > MOST_CELLS and not _stores_weights(value):
        if value.shape[0] != 1:
            problem = f"expected one sequence, got (b,h,q,k) = {tuple(value.shape)}"
            raise ShapeError(f"layers[{place}]", problem, "pick one: .select(batch=0)")
        rows, columns = (min(MOST_CELLS, n) for n in value.shape[2:])
        return _stack(f"layers[{place}]", value.pooled(rows, columns))
    stack = _stack(f"layers[{place}]", value)
    for axis in (1, 2):
        n = stack.shape[axis]
        if n > MOST_CELLS:
            starts = np.arange(MOST_CELLS) * n // MOST_CELLS
            largest, lowest = (pool.reduceat(stack, starts, axis=axis) for pool in (np.maximum, np.minimum))
            stack = np.where(-lowest > largest, lowest, largest)
    return stack


def _stores_weights(attention_map: Any) -> bool:
    """Return whether a map stores its weights, instead of computing them from q and k."""
    from regard.maps.sources import Recomputed

    source = attention_map._source
    while hasattr(source, "source"):
        source = source.source
    return not isinstance(source, Recomputed)
