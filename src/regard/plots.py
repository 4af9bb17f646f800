"""Pictures of attention weights, drawn with matplotlib (``pip install 'regard[plot]'``).

The weights may be a NumPy array, a torch tensor (also one that requires a gradient, or in bfloat16), an
``AttentionMap`` or nested lists. A picture grows with its tokens, so that no label is cut; it is written to
the file in one step, so that there is never half a picture; without a screen nothing is shown and nothing
waits.

>>> figure = visualize_attention([[0.9, 0.1], [0.2, 0.8]], ["the", "cat"], ["le", "chat"])
>>> [text.get_text() for text in figure.axes[0].texts]
['0.90', '0.10', '0.20', '0.80']
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard._drawing import as_labels, as_weights
from regard.errors import ArgumentError, FileError, MissingExtraError, ShapeError
from regard.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

__all__ = ["plot_attention_weights", "plot_weights", "visualize_attention"]

ENDINGS = (".png", ".svg", ".pdf")
POINT = 1 / 72  # inch
CELL = 0.34  # inch, the side of a cell with a readable label beside it
NUMBER_CELL = 0.52  # inch, the width of a cell with "0.25" in it
LONGEST_SIDE = 30.0  # inch; with more tokens than fit, the cells and the labels shrink
MOST_NUMBERS = 60  # along either axis, unless asked for
PAD = 0.12  # inch, around the picture
DPI = 150.0


def plot_attention_weights(
    attention_weights: Any,
    tokens: Iterable[Any],
    title: str = "Attention Weights Heatmap",
    *,
    path: str | os.PathLike[str] | None = "attention_heatmap.png",
    ax: Axes | None = None,
) -> Figure:
    """Draw self-attention as a heat map with the tokens on both axes, and write it to ``path``.

    ``path`` ends in .png, .svg or .pdf; ``path=None`` writes nothing. ``ax`` draws into axes of yours.

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
    target = _check_path(path)
    figure = _heat_map(weights, labels, labels, (title, "Key Tokens", "Query Tokens"), numbers=False, ax=ax)
    if target is not None:
        _save(figure, target, tight=ax is not None)
        print(f"Attention heatmap saved as '{path}'")
    return figure


def visualize_attention(
    attention_weights: Any,
    source_tokens: Iterable[Any],
    target_tokens: Iterable[Any],
    *,
    path: str | os.PathLike[str] | None = None,
    title: str = "Attention Weights",
    show: bool | None = None,
    numbers: bool | None = None,
    axes: tuple[str, str] = ("Source", "Target"),
) -> Figure:
    """Draw the weights of each target token (a row) over the source tokens (the columns), with the numbers.

    ``path`` writes the picture to a .png, .svg or .pdf file. ``show`` opens a window: by default where
    there is a screen and no path. ``numbers=None`` writes them into the cells up to 60 tokens a side.
    ``axes`` are the names of the columns and of the rows.
    """
    weights = as_weights("attention_weights", attention_weights, "qk")
    q, k = weights.shape
    columns = as_labels("source_tokens", source_tokens, k, f"columns in attention_weights ({q},{k})")
    rows = as_labels("target_tokens", target_tokens, q, f"rows in attention_weights ({q},{k})")
    target, screen = _check_path(path), _wants_screen(show, path)
    annotate = max(q, k) <= MOST_NUMBERS if numbers is None else numbers
    figure = _heat_map(weights, rows, columns, (title, *axes), numbers=annotate, screen=screen)
    return _finish(figure, target, screen)


def plot_weights(
    weights: Any,
    tokens: Iterable[Any] | None = None,
    *,
    title: str = "Additive Attention Weights",
    path: str | os.PathLike[str] | None = None,
    show: bool | None = None,
) -> Figure:
    """Draw the weights of one query as bars over the input positions (or the tokens).

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
    target, screen = _check_path(path), _wants_screen(show, path)
    cell = _cell(k, CELL)
    figure, ax = _new_axes(max(k * cell, 3.0), 2.6, screen)
    ax.bar(range(k), heights, color="#31688e")
    ax.set_xlim(-0.6, k - 0.4)
    ax.axhline(0, color="black", linewidth=0.8)
    families = _families([title, *labels])
    _name_axes(ax, (title, "Input position", "Attention weight"), families)
    _label_columns(ax, labels, max(cell, 3.0 / k), families)
    _fit(figure, [ax])
    return _finish(figure, target, screen)


# ---- drawing -------------------------------------------------------------------------------------


def _heat_map(
    weights: np.ndarray,
    rows: list[str],
    columns: list[str],
    names: tuple[str, str, str],
    *,
    numbers: bool,
    ax: Axes | None = None,
    screen: bool = False,
) -> Figure:
    q, k = weights.shape
    width, height = _cell(k, NUMBER_CELL if numbers else CELL), _cell(q, CELL)
    own = ax is None
    if ax is None:
        figure, ax = _new_axes(max(k * width, 1.2), max(q * height, 1.2), screen)
        width, height = max(width, 1.2 / k), max(height, 1.2 / q)
    else:
        figure = _figure_of(ax)
        box = ax.get_window_extent()
        width, height = box.width / figure.dpi / k, box.height / figure.dpi / q
    low, high = min(0.0, float(weights.min())), float(weights.max())
    image = ax.imshow(
        weights,
        cmap="viridis",
        vmin=low,
        vmax=high if high > low else low + 1,
        aspect="auto",
        interpolation="nearest",
    )
    families = _families([names[0], *rows, *columns])
    _name_axes(ax, names, families)
    _label_columns(ax, columns, width, families)
    _label_rows(ax, rows, height, families)
    if numbers:
        _write_numbers(ax, image, weights, min(width / 0.5, height / 0.25) * 8)
    bar = figure.add_axes((0, 0, 0.1, 0.1)) if own else None
    figure.colorbar(image, cax=bar, ax=None if own else ax)
    if bar is not None:
        _place_beside(figure, ax, bar)
        _fit(figure, [ax, bar])
    return figure


def _write_numbers(ax: Axes, image: AxesImage, weights: np.ndarray, size: float) -> None:
    """The weights in their cells, black on light colours and white on dark ones."""
    colours = image.to_rgba(weights)[..., :3]
    dark = colours @ (0.2126, 0.7152, 0.0722) < 0.5
    for (row, column), weight in np.ndenumerate(weights):
        colour = "white" if dark[row, column] else "black"
        text = f"{weight:.2f}"
        text = text if text != "-0.00" else "0.00"
        ax.text(column, row, text, ha="center", va="center", color=colour, fontsize=min(8.0, size))


def _label_columns(ax: Axes, labels: list[str], cell: float, families: list[str] | None) -> None:
    """Level where all labels fit their cells, else slanted, else upright; thinned out if still too close."""
    size, kept = _label_size(cell), _kept(labels, cell)
    widest = max(_width(label) for label in labels)
    level = widest * size * POINT * 0.62 <= cell * 0.95
    angle = 0 if level else 45 if cell >= 0.2 else 90
    ax.set_xticks(kept, [labels[i] for i in kept], rotation=angle)
    for text in ax.get_xticklabels():
        text.set(
            ha="right" if angle == 45 else "center", rotation_mode="anchor" if angle == 45 else "default"
        )
        text.set(va="top")
    _dress(ax.xaxis, size, families)


def _label_rows(ax: Axes, labels: list[str], cell: float, families: list[str] | None) -> None:
    kept = _kept(labels, cell)
    ax.set_yticks(kept, [labels[i] for i in kept])
    _dress(ax.yaxis, _label_size(cell), families)


def _dress(axis: Axis, size: float, families: list[str] | None) -> None:
    for text in axis.get_ticklabels():
        text.set(fontsize=size, parse_math=False)  # "$5" is a token, not a formula
        if families:
            text.set_fontfamily(families)


def _name_axes(ax: Axes, names: tuple[str, str, str], families: list[str] | None) -> None:
    title = ax.set_title(names[0])
    ax.set_xlabel(names[1])
    ax.set_ylabel(names[2])
    if families:
        title.set_fontfamily(families)


def _cell(count: int, wanted: float) -> float:
    return min(wanted, LONGEST_SIDE / count)


def _label_size(cell: float) -> float:
    return min(9.0, max(4.0, cell / POINT * 0.8))


def _kept(labels: Sequence[str], cell: float) -> list[int]:
    """Which labels are written: all of them, until they are closer than the smallest type."""
    return list(range(0, len(labels), math.ceil(4.4 * POINT / cell)))


def _width(label: str) -> int:
    return sum(2 if ord(c) > 0x2E7F else 1 for c in label)


# ---- figures -------------------------------------------------------------------------------------


def _new_axes(width: float, height: float, screen: bool) -> tuple[Figure, Axes]:
    """Axes of this size in inches; the figure takes its own size from what is drawn (see ``_fit``)."""
    _need_matplotlib()
    size = (width + 2, height + 2)
    if screen:
        import matplotlib.pyplot as plt

        figure = plt.figure(figsize=size)
    else:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=size, dpi=DPI)
        FigureCanvasAgg(figure)
    figure.set_layout_engine("none")
    return figure, figure.add_axes((1 / size[0], 1 / size[1], width / size[0], height / size[1]))


def _place_beside(figure: Figure, ax: Axes, bar: Axes) -> None:
    """A colour bar 0.18 inch wide, 0.15 inch to the right of the axes."""
    box, width = ax.get_position(), float(figure.get_figwidth())
    bar.set_position((box.x1 + 0.15 / width, box.y0, 0.18 / width, box.height))


def _fit(figure: Figure, axes: list[Axes]) -> None:
    """Resize the figure to what is drawn in it, labels included; the axes keep their size in inches."""
    old = np.array(figure.get_size_inches())
    with _quiet_glyphs():
        drawn = figure.get_tightbbox()
    new = np.array([drawn.width, drawn.height]) + 2 * PAD
    places = [np.array(ax.get_position().bounds).reshape(2, 2) * old for ax in axes]
    figure.set_size_inches(*new)
    for ax, (corner, size) in zip(axes, places, strict=True):
        x, y = (corner - (drawn.x0, drawn.y0) + PAD) / new
        width, height = size / new
        ax.set_position((x, y, width, height))


def _figure_of(ax: Axes) -> Figure:
    figure = ax.get_figure(root=True)
    if figure is None:
        raise ArgumentError("ax", "these axes belong to no figure", "make them with figure.subplots()")
    return figure


def _finish(figure: Figure, path: Path | None, screen: bool) -> Figure:
    if path is not None:
        _save(figure, path)
    if screen:
        import matplotlib.pyplot as plt

        plt.show()
        if not plt.isinteractive():  # the window was closed: leave nothing behind
            plt.close(figure)
    return figure


def _wants_screen(show: bool | None, path: object) -> bool:
    if show is False or (show is None and path is not None):
        return False
    screen = _has_screen()
    if show and not screen:
        raise ArgumentError("show", "there is no screen to show the picture on", "give a path to write it to")
    return screen


def _has_screen() -> bool:
    _need_matplotlib()
    import matplotlib
    from matplotlib.backends import BackendFilter, backend_registry

    interactive = backend_registry.list_builtin(BackendFilter.INTERACTIVE)
    return matplotlib.get_backend().lower() in {name.lower() for name in interactive}


def _need_matplotlib() -> None:
    try:
        found = importlib.util.find_spec("matplotlib") is not None
    except ValueError:  # something has put an empty entry into sys.modules
        found = False
    if not found:
        raise MissingExtraError("matplotlib", "plot", "drawing")


def _families(texts: Iterable[str]) -> list[str] | None:
    from regard._fonts import families_for

    return families_for(texts)


@contextlib.contextmanager
def _quiet_glyphs() -> Iterator[None]:
    """Without matplotlib's warning for each missing character: ``families_for`` has said it once."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph \d+")
        warnings.filterwarnings("ignore", message=r"Matplotlib currently does not support")
        yield


# ---- files ---------------------------------------------------------------------------------------


def _check_path(path: str | os.PathLike[str] | None) -> Path | None:
    """Say what is wrong with the path before anything is drawn."""
    if path is None:
        return None
    target = Path(path)
    if target.suffix.lower() not in ENDINGS:
        raise ArgumentError(
            "path", f"unknown ending {target.suffix!r} in '{target}'", f"use one of {', '.join(ENDINGS)}"
        )
    if not target.parent.is_dir():
        raise FileError(f"path: the folder '{target.parent}' of '{target}' does not exist: create it first")
    if target.is_dir():
        raise FileError(f"path: '{target}' is a folder: give the name of a file")
    return target


def _save(figure: Figure, path: Path, tight: bool = False) -> None:
    """Write the picture in one step: nobody ever sees half of it.

    Our own figures have the size of what is in them; ``tight`` is for those that someone else made.
    """
    ending = path.suffix.lower()[1:]
    dpi = min(DPI, 6000 / max(figure.get_size_inches()))
    box = "tight" if tight else None
    try:
        with _quiet_glyphs():
            write_atomically(path, lambda part: figure.savefig(part, format=ending, dpi=dpi, bbox_inches=box))
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"path: cannot write '{path}': {error.strerror or error}") from error
