"""Texts whose words are highlighted by their weights, shared by ``terminal``, ``plots`` and the pages of tasks.

>>> print(highlighted_text("A fine film.", [(0, 1), (2, 6), (7, 11)], [0.0, 0.8, 0.4]))
A ****fine**** film.
"""

from __future__ import annotations

import html
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from regard._drawing import as_weights
from regard.errors import ShapeError

__all__ = ["Stretch", "colour_of", "highlighted_html", "highlighted_text", "stretches", "strongest_words"]

Span = tuple[int, int]
# The number of asterisks around the word with the largest weight, if there is no colour.
LEVELS = 4
# The background of the word with the largest weight.
COLOUR = (253, 141, 60)
_LINE_BREAK = re.compile(r"\s*<br\s*/?>\s*(?:<br\s*/?>\s*)*", re.IGNORECASE)


class Stretch(NamedTuple):
    """A word of a text with its weight, or the characters between two words, whose weight is None.

    ``level`` is 0 for a weight of the mean or below. It is 1 for the largest weight if that is at least twice the mean,
    and smaller for nearly even weights. ``read`` is False for text that the model did not read.
    """

    text: str
    weight: float | None = None
    level: float = 0.0
    read: bool = True


def stretches(
    text: str, spans: Sequence[Span], weights: Any, unread: Span | None = None
) -> Iterator[Stretch]:
    """Yield the words of a text with their weights, and the text between them, in order.

    ``spans`` are the (start, end) characters of the words in order, and ``weights`` has one number for each. The text
    between words is marked as not read within the characters ``unread``. A ``<br>`` tag between words becomes a line
    break.

    >>> [part.text for part in stretches("It is<br />fine.", [(0, 2), (11, 15)], [0.2, 0.8])]
    ['It', ' is\\n', 'fine', '.']
    """
    array = as_weights("weights", weights, "k") if len(spans) else np.zeros(0)
    if len(array) != len(spans):
        raise ShapeError("weights", f"{len(array)} given for {len(spans)} words", "give one for each")
    place = 0
    for (start, end), weight, level in zip(spans, array.tolist(), _levels(array), strict=True):
        yield from _between(text, place, start, unread)
        yield Stretch(text[start:end], weight, level)
        place = end
    yield from _between(text, place, len(text), unread)


def _levels(weights: np.ndarray) -> list[float]:
    even = float(weights.mean()) if len(weights) > 1 else 0.0
    most = max(float(weights.max(initial=0.0)) - even, even)
    return [max(0.0, weight - even) / most if most > 0 else 0.0 for weight in weights.tolist()]


def _between(text: str, start: int, end: int, unread: Span | None) -> Iterator[Stretch]:
    cuts = (
        [start, end] if unread is None else sorted({start, end, *(min(max(c, start), end) for c in unread)})
    )
    for left, right in itertools.pairwise(cuts):
        read = unread is None or not (unread[0] <= left and right <= unread[1])
        if left < right:
            yield Stretch(_LINE_BREAK.sub("\n", text[left:right]), read=read)


def strongest_words(text: str, spans: Sequence[Span], weights: Any, most: int = 5) -> list[tuple[str, float]]:
    """Return the ``most`` words with the largest weights, the largest first, each with its weight.

    The other arguments are those of :func:`stretches`. Of equal weights, the earlier word comes first.

    >>> strongest_words("A fine film.", [(0, 1), (2, 6), (7, 11)], [0.1, 0.6, 0.3], most=2)
    [('fine', 0.6), ('film', 0.3)]
    """
    array = as_weights("weights", weights, "k") if len(spans) else np.zeros(0)
    places = np.argsort(-array, kind="stable")[:most]
    return [(text[slice(*spans[place])], float(array[place])) for place in places]


def highlighted_text(text: str, spans: Sequence[Span], weights: Any, unread: Span | None = None) -> str:
    """Return a text with up to four asterisks on each side of a word, the more the larger its weight.

    The arguments are those of :func:`stretches`.
    """
    parts = []
    for part in stretches(text, spans, weights, unread):
        marks = "*" * round(part.level * LEVELS)
        parts.append(f"{marks}{part.text}{marks}")
    return "".join(parts)


def colour_of(level: float) -> tuple[int, int, int]:
    """Return the red, green and blue (0 to 255) of the background of a word, from white at level 0 to orange at 1."""
    red, green, blue = (round(255 + (end - 255) * level) for end in COLOUR)
    return red, green, blue


def highlighted_html(text: str, spans: Sequence[Span], weights: Any, unread: Span | None = None) -> str:
    """Return the HTML of a text, each word on a background that is darker for a larger weight.

    Text that was not read is in italics. The arguments are those of :func:`stretches`.

    >>> highlighted_html("<b>", [(1, 2)], [0.5])
    '&lt;<span style="background:rgb(253,141,60)" title="0.500">b</span>&gt;'
    """
    parts = []
    for part in stretches(text, spans, weights, unread):
        shown = html.escape(part.text)
        if part.weight is not None:
            colour = "rgb({},{},{})".format(*colour_of(part.level))
            shown = f'<span style="background:{colour}" title="{part.weight:.3f}">{shown}</span>'
        parts.append(shown if part.read else f"<i>{shown}</i>")
    return "".join(parts)
