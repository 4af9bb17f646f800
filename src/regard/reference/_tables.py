"""Labelled tables of numbers, formatted as aligned text for a terminal or as HTML."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ._basics import Array

# The most rows or columns of one table. Larger tables are cut in the middle.
_MOST_LINES = 16
# The most tables of one step, one for each batch and head.
_MOST_TABLES = 8
_GAP = "…"


class ExplainedStep(NamedTuple):
    """One step of an explanation, with a title, a table of numbers and the names of its columns.

    `numbers` is None if the step changed nothing. `shaded` colours the cells of an HTML table by their values.
    """

    title: str
    numbers: Array | None
    columns: tuple[str, ...]
    shaded: bool = False


class Table(NamedTuple):
    """One formatted table.

    A row holds its label, its cells as text, and the shade of each cell from 0 (white) to 1 (dark).
    """

    caption: str
    columns: list[str]
    rows: list[tuple[str, list[str], list[float]]]


def display_width(text: str) -> int:
    """Return the number of terminal columns that a text occupies.

    A wide (East Asian) character takes 2 columns and a combining mark none.

    >>> display_width("注意力"), display_width("abc"), display_width("e\\u0301")
    (6, 3, 1)
    """
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _printable(text: str) -> str:
    """Escape newlines, tabs and other control characters."""
    return "".join(c if c.isprintable() or unicodedata.category(c) == "Cf" else ascii(c)[1:-1] for c in text)


def _number(x: float, digits: int) -> str:
    text = f"{x:.{digits}f}"
    # A negative number that rounds to zero is written "0.0000", not "-0.0000".
    return text.removeprefix("-") if float(text) == 0 else text


def _chosen(count: int) -> list[int | None]:
    """Return the indices of the rows or columns to show, with None for the gap in the middle."""
    if count <= _MOST_LINES:
        return list(range(count))
    half = _MOST_LINES // 2
    return [*range(half), None, *range(count - half, count)]


def tables_of(step: ExplainedStep, row_labels: Sequence[str], digits: int) -> Iterator[Table]:
    """Yield a table for each batch and head of a step, at most `_MOST_TABLES` of them.

    If there are more, a last table without rows says how many. A step without numbers has no tables.
    """
    if step.numbers is None:
        return
    leading = list(np.ndindex(step.numbers.shape[:-2]))
    for index in leading[:_MOST_TABLES]:
        matrix = step.numbers[index]  # (q,k)
        column_indices = _chosen(matrix.shape[1])
        rows = []
        for i in _chosen(matrix.shape[0]):
            values = [None if i is None or j is None else float(matrix[i, j]) for j in column_indices]
            rows.append(
                (
                    _GAP if i is None else row_labels[i],
                    [_GAP if x is None else _number(x, digits) for x in values],
                    [x if step.shaded and x is not None and np.isfinite(x) else 0.0 for x in values],
                )
            )
        yield Table(
            f"[{', '.join(map(str, index))}]" if index else "",
            [_GAP if j is None else step.columns[j] for j in column_indices],
            rows,
        )
    if len(leading) > _MOST_TABLES:
        yield Table(f"{_GAP} and {len(leading) - _MOST_TABLES} more", [], [])


def _text_table(table: Table) -> Iterator[str]:
    if table.caption:
        yield table.caption
    if not table.rows:
        return
    grid = [["", *map(_printable, table.columns)]]
    grid += [[_printable(label), *cells] for label, cells, _ in table.rows]
    widths = [max(display_width(row[j]) for row in grid) for j in range(len(grid[0]))]
    for label, *cells in grid:
        # str.rjust counts characters, but a Chinese character is two columns wide.
        line = label + " " * (widths[0] - display_width(label))
        for cell, width in zip(cells, widths[1:], strict=True):
            line += "  " + " " * (width - display_width(cell)) + cell
        yield line.rstrip()


def as_text(title: str, steps: Sequence[ExplainedStep], row_labels: Sequence[str], digits: int) -> str:
    """Format all steps as one text with aligned columns."""
    lines = [title]
    for number, step in enumerate(steps, start=1):
        lines += ["", f"{number}. {step.title}"]
        for table in tables_of(step, row_labels, digits):
            lines += _text_table(table)
    return "\n".join(lines)


def _html_table(table: Table) -> Iterator[str]:
    yield "<table>"
    if table.caption:
        yield f"<caption>{html.escape(table.caption)}</caption>"
    if table.rows:
        heads = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in table.columns)
        yield f"<thead><tr><td></td>{heads}</tr></thead>"
        yield "<tbody>"
        for label, cells, shades in table.rows:
            row = "".join(
                f'<td style="text-align:right;background:rgba(31,119,180,{0.6 * shade:.3f})">{cell}</td>'
                for cell, shade in zip(cells, shades, strict=True)
            )
            yield f'<tr><th scope="row">{html.escape(label)}</th>{row}</tr>'
        yield "</tbody>"
    yield "</table>"


def as_html(title: str, steps: Sequence[ExplainedStep], row_labels: Sequence[str], digits: int) -> str:
    """Format all steps as HTML for a notebook, with larger weights in darker cells."""
    parts = ['<div class="regard-explanation">', f"<p><b>{html.escape(title)}</b></p>"]
    for number, step in enumerate(steps, start=1):
        parts.append(f"<p>{number}. {html.escape(step.title)}</p>")
        for table in tables_of(step, row_labels, digits):
            parts += _html_table(table)
    return "\n".join([*parts, "</div>"])
