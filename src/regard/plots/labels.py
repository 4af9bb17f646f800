"""Tick labels that are rotated or thinned out so that they do not overlap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from regard._tokens import columns_of, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

__all__ = ["cell_side", "cut_title", "label_columns", "label_rows", "name_axes"]

POINT = 1 / 72  # inches
# The longest side of a heat map in inches. With more tokens than fit, the cells and the labels shrink.
LONGEST_SIDE = 30.0
# The longest line of a title, in columns of a terminal.
LONGEST_TITLE = 120


def label_columns(ax: Axes, labels: list[str], cell: float, families: list[str] | None) -> None:
    """Label the columns, horizontally if all labels fit their cells, and otherwise at 45 or 90 degrees.

    Some labels are left out if they would still overlap. ``cell`` is the width of a column in inches.
    """
    size, kept = _label_size(cell), _spaced(labels, cell)
    widest = max(columns_of(line) for label in labels for line in label.split("\n"))
    level = widest * size * POINT * 0.62 <= cell * 0.85
    angle = 0 if level else 45 if cell >= 0.2 else 90
    ax.set_xticks(kept, [labels[i] for i in kept], rotation=angle)
    for text in ax.get_xticklabels():
        text.set(
            ha="right" if angle == 45 else "center", rotation_mode="anchor" if angle == 45 else "default"
        )
        text.set(va="top")
    _style(ax.xaxis, size, families)


def label_rows(ax: Axes, labels: list[str], cell: float, families: list[str] | None) -> None:
    """Label the rows, leaving some labels out if they would overlap.

    ``cell`` is the height of a row in inches.
    """
    kept = _spaced(labels, cell)
    ax.set_yticks(kept, [labels[i] for i in kept])
    _style(ax.yaxis, _label_size(cell), families)


def _style(axis: Axis, size: float, families: list[str] | None) -> None:
    for text in axis.get_ticklabels():
        # Without parse_math=False, a token such as "$5" would be read as a formula.
        text.set(fontsize=size, parse_math=False)
        if families:
            text.set_fontfamily(families)


def name_axes(ax: Axes, names: tuple[str, str, str], families: list[str] | None) -> None:
    """Set the title, the name of the columns and the name of the rows, in this order."""
    title, horizontal, vertical = map(cut_title, names)
    for text in (ax.set_title(title), ax.set_xlabel(horizontal), ax.set_ylabel(vertical)):
        text.set(parse_math=False)
        if families:
            text.set_fontfamily(families)


def cut_title(title: str) -> str:
    """Return a title whose lines are cut at LONGEST_TITLE, so that it does not widen the figure without limit."""
    return "\n".join(shortened(line, LONGEST_TITLE) for line in title.split("\n"))


def cell_side(count: int, wanted: float) -> float:
    """Return the side of a cell in inches, smaller than ``wanted`` if ``count`` cells would exceed LONGEST_SIDE."""
    return min(wanted, LONGEST_SIDE / count)


def _label_size(cell: float) -> float:
    return min(9.0, max(4.0, cell / POINT * 0.8))


def _spaced(labels: Sequence[str], cell: float) -> list[int]:
    """Return the indices of the labels to draw, at a spacing of at least the smallest font size."""
    return list(range(0, len(labels), math.ceil(4.4 * POINT / cell)))
