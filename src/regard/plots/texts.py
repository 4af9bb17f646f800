"""Plot of a running text whose words are highlighted by their weights."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from regard._highlights import Stretch, colour_of, stretches
from regard._tokens import shortened
from regard.errors import former_names
from regard.plots.figures import check_path, families_of, finish, fit, new_axes, quiet_glyphs, wants_screen
from regard.plots.labels import cut_title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_text"]

WIDTH = 7.5  # inches, of the lines
SIZE = 11.0  # points, of the letters
LINE = 0.24  # inches from line to line
LONGEST_LINE = 500  # characters, more than a line has room for
# Widths of texts are measured at this resolution, because at that of a screen they are rounded.
DPI = 720


class _Placed(NamedTuple):
    """A part of a text with its place, in inches from the left and in lines from the top."""

    part: Stretch
    x: float
    line: int
    width: float


@former_names(show="window")
def plot_text(
    text: str,
    spans: Sequence[tuple[int, int]],
    weights: Any,
    *,
    unread: tuple[int, int] | None = None,
    title: str = "",
    path: str | os.PathLike[str] | None = None,
    window: bool = False,
) -> Figure:
    """Draw a text in lines, with a background behind each word that is darker for a larger weight.

    ``spans`` are the (start, end) characters of the words and ``weights`` has one number for each. ``unread`` is the
    (start, end) of a part of the text that the model did not read, which is grey. ``path`` writes a .png, .svg or .pdf
    file, and ``window=True`` opens a window.

    >>> figure = plot_text("A fine film.", [(0, 1), (2, 6), (7, 11)], [0.1, 0.8, 0.1])
    >>> [word.get_text() for word in figure.axes[0].texts]
    ['A', 'fine', 'film', '.']
    """
    target, screen = check_path(path), wants_screen(window, path)
    parts = list(stretches(text, spans, weights, unread))
    families = families_of([text, title])
    font: dict[str, Any] = {"fontsize": SIZE, **({"fontfamily": families} if families else {})}
    with quiet_glyphs():
        placed = list(_placed(parts, font))
    lines = placed[-1].line + 1 if placed else 1
    figure, ax = new_axes(WIDTH, LINE * lines, screen)
    ax.set(xlim=(0, WIDTH), ylim=(lines, 0))
    ax.axis("off")
    for one in placed:
        colour = [c / 255 for c in colour_of(one.part.level)]
        if one.part.weight is not None:
            ax.fill_between([one.x, one.x + one.width], one.line + 0.04, one.line + 0.96, color=colour, lw=0)
        ink = "black" if one.part.read else "#999999"
        middle = {"va": "center_baseline", "parse_math": False, "color": ink}
        ax.text(one.x, one.line + 0.5, one.part.text, **middle, **font)
    if title:
        ax.set_title(cut_title(title), loc="left", parse_math=False, **font)
    fit(figure, [ax])
    return finish(figure, target, screen)


def _placed(parts: list[Stretch], font: dict[str, Any]) -> Iterator[_Placed]:
    """Yield the words and marks of a text at their places, in lines that are broken at WIDTH inches."""
    measure = _Measure(font)
    space = measure(" ")
    x, line = 0.0, 0
    for part in parts:
        for number, row in enumerate(part.text.split("\n")):
            if number:
                x, line = 0.0, line + 1
            x += space * (row[:1].isspace() and x > 0)
            for place, word in enumerate(row.split()):
                x += space * (place > 0)
                for piece in _line_pieces(word, measure):
                    width = measure(piece)
                    if x > 0 and x + width > WIDTH:
                        x, line = 0.0, line + 1
                    yield _Placed(part._replace(text=piece), x, line, width)
                    x += width
            x += space * (row[-1:].isspace() and bool(row.strip()))


def _line_pieces(word: str, measure: _Measure) -> Iterator[str]:
    """Yield a word, in pieces of at most one line if it is longer."""
    if measure(word[:LONGEST_LINE]) <= WIDTH and len(word) <= LONGEST_LINE:
        yield word
        return
    columns = int(WIDTH / measure("W"))
    while word:
        piece = shortened(word, columns, end="") or word[:1]
        yield piece
        word = word[len(piece) :]


class _Measure:
    """A function that returns the width of a text in inches."""

    def __init__(self, font: dict[str, Any]):
        from matplotlib.backends.backend_agg import RendererAgg
        from matplotlib.font_manager import FontProperties

        self.renderer = RendererAgg(10, 10, DPI)
        family = font.get("fontfamily")
        self.font = FontProperties(family=family, size=font["fontsize"])

    def __call__(self, text: str) -> float:
        return self.renderer.get_text_width_height_descent(text, self.font, ismath=False)[0] / DPI
