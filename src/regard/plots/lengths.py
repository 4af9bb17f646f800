"""Plot of the scores of several models by sentence length."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from regard.errors import ArgumentError, former_names
from regard.plots.figures import check_path, families_of, finish, fit, new_axes, wants_screen
from regard.plots.labels import label_columns, name_axes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_by_length"]

# A colour-blind safe palette, with markers for print without colour.
STYLES = (("#0072b2", "o"), ("#d55e00", "s"), ("#009e73", "^"), ("#cc79a7", "D"), ("#e69f00", "v"))
STEP = 0.95  # inches between two ranges of lengths


@former_names(show="window")
def plot_by_length(
    scores: Mapping[str, Sequence[tuple[str, int, float]]],
    *,
    title: str = "Quality by sentence length",
    axes: tuple[str, str] = ("Words of the source", "BLEU"),
    path: str | os.PathLike[str] | None = None,
    window: bool = False,
) -> Figure:
    """Draw the scores of each model as a line over ranges of sentence lengths.

    ``scores`` maps the name of a model to the rows of ``regard.metrics.by_length``. All models must have the same
    ranges. ``axes`` are the names of the horizontal and the vertical axis. ``path`` writes a .png, .svg or .pdf file,
    and ``window=True`` opens a window.

    >>> rows = {"attention": [("1-10", 9, 31.0), ("11-20", 5, 30.0)], "none": [("1-10", 9, 27.0), ("11-20", 5, 18.0)]}
    >>> figure = plot_by_length(rows)
    >>> [line.get_label() for line in figure.axes[0].get_lines()]
    ['attention', 'none']
    """
    ranges = _ranges(scores)
    target, screen = check_path(path), wants_screen(window, path)
    figure, ax = new_axes(max(3.2, STEP * len(ranges)), 2.8, screen)
    for place, (name, rows) in enumerate(scores.items()):
        colour, mark = STYLES[place % len(STYLES)]
        ax.plot([score for _, _, score in rows], color=colour, marker=mark, label=name)
    ax.set_xlim(-0.4, len(ranges) - 0.6)
    ax.set_ylim(bottom=0)
    ax.grid(axis="y", alpha=0.3)
    families = families_of([title, *axes, *scores])
    name_axes(ax, (title, *axes), families)
    label_columns(ax, [f"{name}\n({count})" for name, count in ranges], STEP, families)
    legend = ax.legend(frameon=False)
    for text in legend.get_texts():
        text.set(parse_math=False, **({"fontfamily": families} if families else {}))
    fit(figure, [ax])
    return finish(figure, target, screen)


def _ranges(scores: Mapping[str, Sequence[tuple[str, int, float]]]) -> list[tuple[str, int]]:
    """Return the ranges of lengths with their numbers of sentences, or raise ArgumentError if models differ."""
    if not scores:
        raise ArgumentError("scores", "expected at least one model, got none", "give {name: by_length(...)}")
    by_model = {name: [(words, count) for words, count, _ in rows] for name, rows in scores.items()}
    first, ranges = next(iter(by_model.items()))
    for name, others in by_model.items():
        if others != ranges:
            raise ArgumentError(
                "scores",
                f"{name!r} has the ranges {others}, {first!r} has {ranges}",
                "measure both on the same sentences",
            )
    if not ranges:
        raise ArgumentError("scores", f"{first!r} has no rows")
    return ranges
