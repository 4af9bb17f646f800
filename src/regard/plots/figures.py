"""Creating, resizing, showing and saving of figures."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import io
import os
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.errors import ArgumentError, FileError, MissingExtraError
from regard.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "check_path",
    "color_scale",
    "families_of",
    "figure_of",
    "finish",
    "fit",
    "new_axes",
    "new_figure",
    "place_axes",
    "place_beside",
    "quiet_glyphs",
    "save",
    "wants_screen",
]

ENDINGS = (".png", ".svg", ".pdf")
PAD = 0.12  # inches around the figure
DPI = 150.0


def new_axes(width: float, height: float, screen: bool) -> tuple[Figure, Axes]:
    """Make a figure with axes of this size in inches.

    ``fit`` later gives the figure its final size. ``screen`` says whether the figure will be shown in a window.
    """
    figure = new_figure(width + 2, height + 2, screen)
    return figure, place_axes(figure, 1, 1, width, height)


def new_figure(width: float, height: float, screen: bool) -> Figure:
    """Make a figure of this size in inches, which ``fit`` later replaces.

    With ``screen`` it is a pyplot figure, and otherwise a figure without pyplot.
    """
    _need_matplotlib()
    if screen:
        import matplotlib.pyplot as plt

        figure = plt.figure(figsize=(width, height))
    else:
        figure = _displayable_figure_class()(figsize=(width, height), dpi=DPI)
    figure.set_layout_engine("none")
    return figure


@functools.cache
def _displayable_figure_class() -> type[Figure]:
    """Return a class of figures that a notebook displays without pyplot."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    class DisplayableFigure(Figure):
        def __init__(self, **settings: Any):
            super().__init__(**settings)
            FigureCanvasAgg(self)

        def _repr_png_(self) -> bytes:
            png = io.BytesIO()
            with quiet_glyphs():
                self.savefig(png, format="png", dpi=min(DPI, 2400 / max(self.get_size_inches())))
            return png.getvalue()

    return DisplayableFigure


def place_axes(figure: Figure, x: float, y: float, width: float, height: float) -> Axes:
    """Add axes at a position and of a size in inches.

    The position may lie outside the figure, since ``fit`` resizes the figure around its axes.
    """
    figure_width, figure_height = figure.get_size_inches()
    return figure.add_axes(
        (x / figure_width, y / figure_height, width / figure_width, height / figure_height)
    )


def place_beside(figure: Figure, ax: Axes, bar: Axes) -> None:
    """Place a colour bar 0.18 inches wide, 0.15 inches to the right of the axes."""
    box, width = ax.get_position(), float(figure.get_figwidth())
    bar.set_position((box.x1 + 0.15 / width, box.y0, 0.18 / width, box.height))


def fit(figure: Figure, axes: list[Axes]) -> None:
    """Resize the figure to its contents including labels, and keep the size of ``axes``, all its axes, in inches."""
    old = np.array(figure.get_size_inches())
    with quiet_glyphs():
        drawn = figure.get_tightbbox()
    new = np.array([drawn.width, drawn.height]) + 2 * PAD
    places = [np.array(ax.get_position().bounds).reshape(2, 2) * old for ax in axes]
    figure.set_size_inches(*new)
    for ax, (corner, size) in zip(axes, places, strict=True):
        x, y = (corner - (drawn.x0, drawn.y0) + PAD) / new
        width, height = size / new
        ax.set_position((x, y, width, height))


def color_scale(weights: np.ndarray) -> dict[str, Any]:
    """Return the colours for ``imshow``, which span 0 to the largest weight.

    If some weights are negative, the colours diverge from white at 0 to blue for negative and red for positive ones.

    >>> color_scale(np.array([0.25, 0.75]))
    {'cmap': 'viridis', 'vmin': 0.0, 'vmax': 0.75}
    >>> color_scale(np.array([-0.25, 1.25]))
    {'cmap': 'RdBu_r', 'vmin': -1.25, 'vmax': 1.25}
    """
    weights = np.ma.filled(weights, 0.0)
    largest = float(np.abs(weights).max()) or 1.0
    if float(weights.min()) < 0:
        return {"cmap": "RdBu_r", "vmin": -largest, "vmax": largest}
    return {"cmap": "viridis", "vmin": 0.0, "vmax": largest}


def figure_of(ax: Axes) -> Figure:
    """Return the figure of the given axes, or raise ArgumentError if they have none."""
    figure = ax.get_figure(root=True)
    if figure is None:
        raise ArgumentError("ax", "these axes belong to no figure", "make them with figure.subplots()")
    return figure


def finish(figure: Figure, path: Path | None, screen: bool) -> Figure:
    """Save the figure if there is a path, show it if ``screen`` is True, and return it."""
    if path is not None:
        save(figure, path)
    if screen:
        import matplotlib.pyplot as plt

        plt.show()
        # plt.show() returned because the window was closed, so pyplot can release the figure.
        if not plt.isinteractive():
            plt.close(figure)
    return figure


def wants_screen(window: bool | None, path: object) -> bool:
    """Return whether to open a window.

    ``window=None`` opens one if there is a display and no path. ``window=True`` without a display raises ArgumentError.
    """
    if window is False or (window is None and path is not None):
        return False
    screen = _has_screen()
    if window and not screen:
        raise ArgumentError("window", "there is no display to open a window on", "give a path to write it to")
    return screen


def _has_screen() -> bool:
    _need_matplotlib()
    import matplotlib
    from matplotlib.backends import BackendFilter, backend_registry

    interactive = backend_registry.list_builtin(BackendFilter.INTERACTIVE)
    return matplotlib.get_backend().lower() in {name.lower() for name in interactive}


def _need_matplotlib() -> None:
    try:
        installed = importlib.util.find_spec("matplotlib") is not None
    # find_spec raises ValueError if sys.modules["matplotlib"] has no spec.
    except ValueError:
        installed = False
    if not installed:
        raise MissingExtraError("matplotlib", "plot", "drawing")


def families_of(texts: Iterable[str]) -> list[str] | None:
    """Return fonts that together have all characters of the texts, or None if matplotlib's default has them."""
    from regard._fonts import families_for

    return families_for(texts)


@contextlib.contextmanager
def quiet_glyphs() -> Iterator[None]:
    """Suppress matplotlib's warnings for each missing character, since ``families_for`` warns once."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph \d+")
        warnings.filterwarnings("ignore", message=r"Matplotlib currently does not support")
        yield


def check_path(path: str | os.PathLike[str] | None) -> Path | None:
    """Convert a path that is not None, or raise an error if its ending is unknown or its folder does not exist."""
    if path is None:
        return None
    target = Path(path)
    if target.suffix.lower() not in ENDINGS:
        raise ArgumentError(
            "path", f"unknown ending {target.suffix!r} in '{target}'", f"use one of {', '.join(ENDINGS)}"
        )
    if not target.parent.is_dir():
        raise FileError(
            f"the folder '{target.parent}' of '{target}' does not exist: create it first", argument="path"
        )
    if target.is_dir():
        raise FileError(f"'{target}' is a folder: give the name of a file", argument="path")
    return target


def save(figure: Figure, path: Path, tight: bool = False) -> None:
    """Write the figure to a file atomically.

    ``tight`` crops the figure to its contents. It is meant for the user's own figures, which ``fit`` did not resize.
    """
    ending = path.suffix.lower()[1:]
    dpi = min(DPI, 6000 / max(figure.get_size_inches()))
    box = "tight" if tight else None
    try:
        with quiet_glyphs():
            write_atomically(path, lambda part: figure.savefig(part, format=ending, dpi=dpi, bbox_inches=box))
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"cannot write '{path}': {error.strerror or error}", argument="path") from error
