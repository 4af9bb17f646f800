"""Plots of attention weights as bars, as a heat map, and as a heat map with numbers in its cells."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from regard._drawing import as_labels, as_weights, row_marks
from regard.errors import ShapeError, former_names
from regard.plots.figures import (
    check_path,
    color_scale,
    families_of,
    figure_of,
    finish,
    fit,
    new_axes,
    place_beside,
    save,
    wants_screen,
)
from regard.plots.labels import cell_side, label_columns, label_rows, name_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

__all__ = ["plot_attention_weights", "plot_weights", "visualize_attention"]

# Inches, the side of a cell with a readable label.
CELL = 0.34
# Inches, the width of a cell that contains "0.25".
NUMBER_CELL = 0.52
# Up to this number of tokens on both axes, numbers are written into the cells by default.
MOST_NUMBERS = 60
# Characters of a line of a note below a heat map.
NOTE_WIDTH = 70


def plot_attention_weights(
    attention_weights: Any,
    tokens: Iterable[Any],
    title: str = "Attention Weights Heatmap",
    *,
    path: str | os.PathLike[str] | None = "attention_heatmap.png",
    ax: Axes | None = None,
) -> Figure:
    """Draw self-attention as a heat map with the tokens on both axes, and write it to ``path``.

    ``path`` ends in .png, .svg or .pdf. Its name is printed after writing, and ``path=None`` writes and prints nothing.
    ``ax`` draws into existing axes, whose whole figure is written.

    >>> figure = plot_attention_weights([[0.9, 0.1], [0.2, 0.8]], ["the", "cat"], path=None)
    >>> [label.get_text() for label in figure.axes[0].get_xticklabels()]
    ['the', 'cat']
    """
    weights = as_weights("attention_weights", attention_weights, "qk")
    q, k = weights.shape
    if q != k:
        fix = "use visualize_attention for two sequences"
        raise ShapeError("attention_weights", f"expected as many queries as keys, got (q,k) = ({q},{k})", fix)
    labels = as_labels("tokens", tokens, k, f"rows and columns in attention_weights ({q},{k})")
    target = check_path(path)
    figure = _heat_map(weights, labels, labels, (title, "Key Tokens", "Query Tokens"), numbers=False, ax=ax)
    if target is not None:
        save(figure, target, tight=ax is not None)
        print(f"Attention heatmap saved as '{path}'")
    return figure


@former_names(show="window")
def visualize_attention(
    attention_weights: Any,
    source_tokens: Iterable[Any],
    target_tokens: Iterable[Any],
    *,
    path: str | os.PathLike[str] | None = None,
    title: str = "Attention Weights",
    window: bool | None = None,
    numbers: bool | None = None,
    axes: tuple[str, str] = ("Source", "Target"),
    marks: Iterable[str] | None = None,
    notes: Sequence[str] = (),
) -> Figure:
    """Draw a heat map of each target token (rows) over the source tokens (columns), with numbers in the cells.

    ``path`` writes the figure to a .png, .svg or .pdf file. ``window`` says whether to open a window, by default if
    there is a display and no path, as in the document that this function comes from. ``numbers`` says whether to write
    the weights into the cells, by default up to 60 tokens a side.
    ``axes`` are the names of the columns and of the rows.

    Masked weights of a NumPy array are hatched, and a row without any has its text of ``marks``, by default
    "no weights". ``notes`` are lines below the heat map.

    >>> figure = visualize_attention([[0.9, 0.1], [0.2, 0.8]], ["the", "cat"], ["le", "chat"], window=False)
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['0.90', '0.10', '0.20', '0.80']
    """
    weights = as_weights("attention_weights", attention_weights, "qk")
    q, k = weights.shape
    columns = as_labels("source_tokens", source_tokens, k, f"columns in attention_weights ({q},{k})")
    rows = as_labels("target_tokens", target_tokens, q, f"rows in attention_weights ({q},{k})")
    target, screen = check_path(path), wants_screen(window, path)
    annotate = max(q, k) <= MOST_NUMBERS if numbers is None else numbers
    absent = row_marks("marks", weights, marks)
    if np.ma.is_masked(weights):
        notes = [*notes, "hatched: no weights were computed"]
    lines = [line for note in notes for line in textwrap.wrap(note, NOTE_WIDTH)]
    names = (title, "\n".join([axes[0], *lines]), axes[1])
    figure = _heat_map(weights, rows, columns, names, numbers=annotate, screen=screen, absent=absent)
    return finish(figure, target, screen)


@former_names(show="window")
def plot_weights(
    weights: Any,
    tokens: Iterable[Any] | None = None,
    *,
    title: str = "Additive Attention Weights",
    path: str | os.PathLike[str] | None = None,
    window: bool = False,
) -> Figure:
    """Draw the weights of one query as bars over the tokens, or over the input positions without tokens.

    ``path`` writes a .png, .svg or .pdf file, and ``window=True`` opens a window.

    >>> figure = plot_weights([0.7, 0.2, 0.1], title="One step of the decoder")
    >>> [round(float(bar.get_height()), 1) for bar in figure.axes[0].patches]
    [0.7, 0.2, 0.1]
    """
    heights = as_weights("weights", weights, "k")
    k = len(heights)
    if tokens is None:
        labels = [str(i) for i in range(k)]
    else:
        labels = as_labels("tokens", tokens, k, f"weights ({k},)")
    target, screen = check_path(path), wants_screen(window, path)
    cell = cell_side(k, CELL)
    figure, ax = new_axes(max(k * cell, 3.0), 2.6, screen)
    ax.bar(range(k), heights, color=np.where(heights < 0, "#2166ac", "#31688e").tolist())
    ax.set_xlim(-0.6, k - 0.4)
    ax.axhline(0, color="black", linewidth=0.8)
    families = families_of([title, *labels])
    name_axes(ax, (title, "Input position", "Attention weight"), families)
    label_columns(ax, labels, max(cell, 3.0 / k), families)
    fit(figure, [ax])
    return finish(figure, target, screen)


def _heat_map(
    weights: np.ndarray,
    rows: list[str],
    columns: list[str],
    names: tuple[str, str, str],
    *,
    numbers: bool,
    ax: Axes | None = None,
    screen: bool = False,
    absent: Sequence[str] = (),
) -> Figure:
    q, k = weights.shape
    width, height = cell_side(k, NUMBER_CELL if numbers else CELL), cell_side(q, CELL)
    new = ax is None
    if ax is None:
        figure, ax = new_axes(max(k * width, 1.2), max(q * height, 1.2), screen)
        width, height = max(width, 1.2 / k), max(height, 1.2 / q)
    else:
        figure = figure_of(ax)
        box = ax.get_window_extent()
        width, height = box.width / figure.dpi / k, box.height / figure.dpi / q
    image = ax.imshow(weights, aspect="auto", interpolation="nearest", **color_scale(weights))
    families = families_of([*names, *rows, *columns])
    name_axes(ax, names, families)
    label_columns(ax, columns, width, families)
    label_rows(ax, rows, height, families)
    size = min(width / 0.5, height / 0.25) * 8
    if np.ma.is_masked(weights):
        # The axes show through the masked cells of the image.
        ax.patch.set(facecolor="white", edgecolor="#999", hatch="///")
        for row, mark in enumerate(absent):
            box = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
            ax.text((k - 1) / 2, row, mark, ha="center", va="center", fontsize=min(8.0, size), bbox=box)
    if numbers:
        _write_numbers(ax, image, weights, size)
    bar = figure.add_axes((0, 0, 0.1, 0.1)) if new else None
    scale = figure.colorbar(image, cax=bar, ax=None if new else ax)
    if float(weights.min()) < 0:
        scale.set_label("weight (blue: negative)")
    if bar is not None:
        place_beside(figure, ax, bar)
        fit(figure, [ax, bar])
    return figure


def _write_numbers(ax: Axes, image: AxesImage, weights: np.ndarray, size: float) -> None:
    """Write the weights into their cells, black on light colours and white on dark ones.

    ``size`` is the font size in points, of which at most 8 are used.
    """
    colours = image.to_rgba(weights)[..., :3]
    dark = colours @ (0.2126, 0.7152, 0.0722) < 0.5
    for row, column in np.argwhere(~np.ma.getmaskarray(weights)).tolist():
        weight = weights[row, column]
        colour = "white" if dark[row, column] else "black"
        text = f"{weight:.2f}"
        text = text if text != "-0.00" else "0.00"
        ax.text(column, row, text, ha="center", va="center", color=colour, fontsize=min(8.0, size))
