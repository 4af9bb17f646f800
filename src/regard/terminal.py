"""Tables of attention weights for the terminal.

Cells are coloured if the terminal supports it, and otherwise marked with shades. Output to a file or a pipe is
plain ASCII. Columns stay aligned with wide (East Asian) characters. A table wider than the terminal is split into
several tables below each other.

>>> print(weights_text([[1.0, 0.0], [0.25, 0.75]], ["the", "猫"], ["the", "猫"]))
        the      猫
the  1.00 #  0.00
 猫  0.25 .  0.75 *
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from rich.cells import cell_len
from rich.console import Console
from rich.style import Style
from rich.text import Text

from regard._drawing import as_labels, as_weights, row_marks
from regard._highlights import Stretch, colour_of, highlighted_text, stretches, strongest_words
from regard._tokens import shortened
from regard.errors import former_names

__all__ = ["draw_grids", "draw_text", "draw_weights", "weights_text"]

ASCII = " .:*#"
SHADES = " ░▒▓█"
# The longest label in terminal columns. Longer labels are cut and end in "~".
LONGEST_LABEL = 16
# Words of a text whose weight is below this share of the largest one are not coloured.
LEAST_LEVEL = 0.15
# The signs of labels for white space, for terminals that cannot show them.
_PLAIN_SIGNS = str.maketrans({"␣": " ", "⏎": "\\n", "⇥": "\\t"})
# The ends of the colour scale of tables with negative weights.
BLUE, RED = (33, 102, 172), (178, 24, 43)
COLOUR_NOTE = "Red weights are positive, blue weights are negative."
SHADE_NOTE = "The marks show the size of a weight without its sign."
# Nine colours of matplotlib's viridis, from dark to light.
VIRIDIS = (
    (68, 1, 84),
    (71, 45, 123),
    (59, 82, 139),
    (44, 114, 142),
    (33, 145, 140),
    (40, 174, 128),
    (94, 201, 98),
    (173, 220, 48),
    (253, 231, 37),
)


@former_names(rows="query_tokens", columns="key_tokens")
def draw_weights(
    weights: Any,
    query_tokens: Iterable[Any],
    key_tokens: Iterable[Any] | None = None,
    *,
    title: str = "",
    marks: Iterable[str] | None = None,
    console: Console | None = None,
) -> None:
    """Print weights ``(q,k)`` as a table with a row for each query and a column for each key.

    ``key_tokens=None`` labels the columns with the query tokens. ``title`` is printed above the table. If there are
    negative weights, positive ones are coloured red and negative ones blue, and a line below the table says so.
    Masked weights of a NumPy array are left empty, and a row without any has its text of ``marks``, by default
    "no weights". ``console`` is the rich console to print on, by default standard output.
    """
    console = console or Console(highlight=False)
    if title:
        console.print(Text(title, style="bold"), soft_wrap=True)
    colour = console.is_terminal and console.color_system is not None and not console.no_color
    shades = SHADES if console.is_terminal and _can_encode(console, SHADES) else ASCII
    lines = _lines(weights, query_tokens, key_tokens, console.width, shades, colour, marks, console.encoding)
    for line in lines:
        console.print(line, soft_wrap=True)


@former_names(rows="query_tokens", columns="key_tokens")
def weights_text(
    weights: Any, query_tokens: Iterable[Any], key_tokens: Iterable[Any] | None = None, *, width: int = 100
) -> str:
    """Return weights ``(q,k)`` as a table in plain text, at most ``width`` characters wide.

    A wider table is split into several below each other. A single column that is too wide is not split.
    ``key_tokens=None`` labels the columns with the query tokens.
    """
    return "\n".join(
        line.plain for line in _lines(weights, query_tokens, key_tokens, width, ASCII, colour=False)
    )


def draw_text(
    text: str,
    spans: Sequence[tuple[int, int]],
    weights: Any,
    *,
    unread: tuple[int, int] | None = None,
    last_line: str = "largest weights: {words}",
    console: Console | None = None,
) -> None:
    """Print a text with a background behind each word by its weight, or with asterisks where there is no colour.

    ``spans`` are the (start, end) characters of the words in order, and ``weights`` has one number for each. ``unread``
    is the (start, end) of a part of the text that the model did not read, which is dimmed where there is colour. The
    lines are wrapped at the width of the terminal. ``last_line`` is the line that names the five words with the largest
    weights, in place of ``{words}``.
    """
    console = console or Console(highlight=False)
    colour = console.is_terminal and console.color_system is not None and not console.no_color
    if colour:
        shown = Text()
        for part in stretches(text, spans, weights, unread):
            shown.append(part.text, _style(part))
    else:
        shown = Text(highlighted_text(text, spans, weights, unread))
    console.print(shown)
    words = ", ".join(f"{word} {weight:.2f}" for word, weight in strongest_words(text, spans, weights))
    console.print(Text(last_line.replace("{words}", words), style="dim" if colour else ""))


def draw_grids(
    weights: Any, words: Iterable[Any], grid: tuple[int, int], *, console: Console | None = None
) -> None:
    """Print the weights ``(words,cells)`` of each word over the cells of a picture as a small map.

    ``grid`` is the (rows, columns) of cells. A character stands for two cells, one above the other. Each map has its
    own scale. Where there is no colour, a character is darker the larger the mean of its two weights is.

    >>> from rich.console import Console
    >>> draw_grids([[0.5, 0, 0.5, 0]], ["seven"], (2, 2), console=Console(width=40, color_system=None))
    seven
    #
    """
    console = console or Console(highlight=False)
    array = as_weights("weights", weights, "qk")
    labels = as_labels("words", list(words), len(array), f"rows in weights {array.shape}")
    names = [_cut(label, console.encoding) for label in labels]
    colour = console.is_terminal and console.color_system is not None and not console.no_color
    shades = SHADES if console.is_terminal and _can_encode(console, SHADES) else ASCII
    maps = [_small_map(row.reshape(grid), shades, colour) for row in array]
    side = max(grid[1], *map(cell_len, names)) + 2
    together = max(1, console.width // side)
    for start in range(0, len(maps), together):
        some = range(start, min(start + together, len(maps)))
        head = "".join(names[n] + " " * (side - cell_len(names[n])) for n in some)
        console.print(Text(head.rstrip(), style="bold"), soft_wrap=True)
        for place in range(len(maps[start])):
            line = Text()
            for n in some:
                line.append_text(maps[n][place]).append(" " * (side - grid[1]))
            line.rstrip()
            console.print(line, soft_wrap=True)


def _small_map(cells: np.ndarray, shades: str, colour: bool) -> list[Text]:
    """Return the lines of a map of ``cells (rows,columns)``, two rows in each line."""
    levels = np.abs(cells) / (float(np.abs(cells).max()) or 1.0)
    if len(levels) % 2:
        levels = np.concatenate([levels, levels[-1:]])
    lines = []
    for upper, lower in zip(levels[::2], levels[1::2], strict=True):
        line = Text()
        for above, below in zip(upper.tolist(), lower.tolist(), strict=True):
            if colour:
                inks = ["rgb({},{},{})".format(*_viridis(level)) for level in (above, below)]
                line.append("▀", Style.parse(f"{inks[0]} on {inks[1]}"))
            else:
                line.append(shades[round((above + below) / 2 * (len(shades) - 1))])
        lines.append(line)
    return lines


def _style(part: Stretch) -> Style:
    if not part.read:
        return Style(dim=True)
    if part.level < LEAST_LEVEL:
        return Style()
    red, green, blue = colour_of(part.level)
    return Style.parse(f"black on rgb({red},{green},{blue})")


def _lines(
    weights: Any,
    queries: Iterable[Any],
    keys: Iterable[Any] | None,
    width: int,
    shades: str,
    colour: bool,
    marks: Iterable[str] | None = None,
    encoding: str = "utf-8",
) -> list[Text]:
    array = as_weights("weights", weights, "qk")
    absent, hidden = row_marks("marks", array, marks), np.ma.getmaskarray(array)
    array = np.ma.filled(array, 0.0)
    queries = list(queries)
    keys = queries if keys is None else list(keys)
    q, k = array.shape
    rows = as_labels("query_tokens", queries, q, f"rows in weights ({q},{k})")
    columns = as_labels("key_tokens", keys, k, f"columns in weights ({q},{k})")
    left, top = ([_cut(label, encoding) for label in labels] for labels in (rows, columns))
    margin = max(cell_len(label) for label in left)
    signed = bool((array < 0).any())
    widths = [max(cell_len(label), len("-0.00 #" if signed else "0.00 #")) for label in top]
    lines: list[Text] = []
    for start, stop in _column_ranges(widths, width - margin):
        if lines:
            lines.append(Text(""))
        head = "".join("  " + _right(top[j], widths[j]) for j in range(start, stop))
        lines.append(Text(" " * margin + head))
        for i in range(q):
            line = Text(_right(left[i], margin))
            if absent[i]:
                line.append(f"  {absent[i]}", "italic" if colour else "")
                lines.append(line)
                continue
            for j in range(start, stop):
                level = _level(array, i, j)
                cell = _cell(array[i, j], level, widths[j], shades, colour, signed)
                line.append("  ").append_text(Text(" " * widths[j]) if hidden[i, j] else cell)
            if not colour:
                line.rstrip()
            lines.append(line)
    if signed:
        lines += [Text(""), Text(COLOUR_NOTE if colour else SHADE_NOTE)]
    return lines


def _column_ranges(widths: list[int], room: int) -> list[tuple[int, int]]:
    """Split the columns into (start, stop) ranges that fit into ``room`` side by side, with at least one column each.

    ``widths`` are the widths of the columns. Each takes two characters more.
    """
    ranges, start, used = [], 0, 0
    for j, width in enumerate(widths):
        if j > start and used + width + 2 > room:
            ranges.append((start, j))
            start, used = j, 0
        used += width + 2
    return [*ranges, (start, len(widths))]


def _level(array: np.ndarray, i: int, j: int) -> float:
    """Return the magnitude of a weight as a fraction of the largest magnitude of the table, 0 to 1."""
    largest = float(np.abs(array).max())
    return abs(float(array[i, j])) / largest if largest > 0 else 0.0


def _cell(weight: float, level: float, width: int, shades: str, colour: bool, signed: bool) -> Text:
    number = f"{weight:.2f}".replace("-0.00", "0.00")
    if not colour:
        return Text(_right(f"{number} {shades[round(level * (len(shades) - 1))]}", width))
    red, green, blue = _diverging(level, weight < 0) if signed else _viridis(level)
    ink = "white" if 0.2126 * red + 0.7152 * green + 0.0722 * blue < 128 else "black"
    return Text(f"{number:^{width}}", style=Style.parse(f"{ink} on rgb({red},{green},{blue})"))


def _diverging(level: float, negative: bool) -> tuple[int, int, int]:
    """Return a colour (red, green, blue) between white at level 0 and blue (``negative``) or red at level 1."""
    red, green, blue = (round(255 + (c - 255) * level) for c in (BLUE if negative else RED))
    return red, green, blue


def _viridis(level: float) -> tuple[int, int, int]:
    place = level * (len(VIRIDIS) - 1)
    low = min(int(place), len(VIRIDIS) - 2)
    pairs = zip(VIRIDIS[low], VIRIDIS[low + 1], strict=True)
    red, green, blue = (round(a + (b - a) * (place - low)) for a, b in pairs)
    return red, green, blue


def _cut(label: str, encoding: str) -> str:
    """Return a label of limited length in characters that the terminal can show."""
    try:
        label.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        label = label.translate(_PLAIN_SIGNS).encode("ascii", "backslashreplace").decode()
    return shortened(label, LONGEST_LABEL, "~")


def _right(text: str, width: int) -> str:
    return " " * (width - cell_len(text)) + text


def _can_encode(console: Console, text: str) -> bool:
    try:
        text.encode(console.encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
