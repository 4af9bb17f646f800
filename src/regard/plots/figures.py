"""Figures that have the size of what is drawn in them, shown where there is a screen and saved in one step."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from regard.errors import ArgumentError, FileError, MissingExtraError
from regard.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "check_path",
    "families_of",
    "figure_of",
    "finish",
    "fit",
    "new_axes",
    "new_figure",
    "place_axes",
    "place_beside",
    "save",
    "wants_screen",
]

ENDINGS = (".png", ".svg", ".pdf")
PAD = 0.12  # inch, around the picture
DPI = 150.0


def new_axes(width: float, height: float, screen: bool) -> tuple[Figure, Axes]:
    """Axes of this size in inches; the figure takes its own size from what is drawn (see ``fit``)."""
    figure = new_figure(width + 2, height + 2, screen)
    return figure, place_axes(figure, 1, 1, width, height)


def new_figure(width: float, height: float, screen: bool) -> Figure:
    """A figure of this size in inches, until it is fitted to what is drawn."""
    _need_matplotlib()
    if screen:
        import matplotlib.pyplot as plt

        figure = plt.figure(figsize=(width, height))
    else:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(width, height), dpi=DPI)
        FigureCanvasAgg(figure)
    figure.set_layout_engine("none")
    return figure


def place_axes(figure: Figure, x: float, y: float, width: float, height: float) -> Axes:
    """Axes at a place and of a size in inches; places outside the figure come inside when it is fitted."""
    across, up = figure.get_size_inches()
    return figure.add_axes((x / across, y / up, width / across, height / up))


def place_beside(figure: Figure, ax: Axes, bar: Axes) -> None:
    """A colour bar 0.18 inch wide, 0.15 inch to the right of the axes."""
    box, width = ax.get_position(), float(figure.get_figwidth())
    bar.set_position((box.x1 + 0.15 / width, box.y0, 0.18 / width, box.height))


def fit(figure: Figure, axes: list[Axes]) -> None:
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


def figure_of(ax: Axes) -> Figure:
    """The figure that axes of the user's belong to."""
    figure = ax.get_figure(root=True)
    if figure is None:
        raise ArgumentError("ax", "these axes belong to no figure", "make them with figure.subplots()")
    return figure


def finish(figure: Figure, path: Path | None, screen: bool) -> Figure:
    """Save the figure where a path is given, show it where a screen is wanted."""
    if path is not None:
        save(figure, path)
    if screen:
        import matplotlib.pyplot as plt

        plt.show()
        if not plt.isinteractive():  # the window was closed: leave nothing behind
            plt.close(figure)
    return figure


def wants_screen(show: bool | None, path: object) -> bool:
    """Whether to open a window: as asked, else where there is a screen and no path."""
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


def families_of(texts: Iterable[str]) -> list[str] | None:
    """Fonts that have all characters of the texts; None where matplotlib's own font has them."""
    from regard._fonts import families_for

    return families_for(texts)


@contextlib.contextmanager
def _quiet_glyphs() -> Iterator[None]:
    """Without matplotlib's warning for each missing character: ``families_for`` has said it once."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph \d+")
        warnings.filterwarnings("ignore", message=r"Matplotlib currently does not support")
        yield


def check_path(path: str | os.PathLike[str] | None) -> Path | None:
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


def save(figure: Figure, path: Path, tight: bool = False) -> None:
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
