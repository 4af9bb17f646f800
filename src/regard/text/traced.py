"""A text whose characters keep their places in the text that it was made from."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence

__all__ = ["Span", "TracedText"]

Span = tuple[int, int]


class TracedText:
    """A text with the span of each of its characters in an original text.

    A character that is not of the original has an empty span.

    >>> text = TracedText("a  b").replaced(r" +", " ")
    >>> text.text, text.spans
    ('a b', [(0, 1), (1, 3), (3, 4)])
    """

    __slots__ = ("spans", "text")

    def __init__(self, text: str, spans: Sequence[Span] | None = None, *, start: int = 0):
        self.text = text
        self.spans = (
            [(place, place + 1) for place in range(start, start + len(text))]
            if spans is None
            else list(spans)
        )

    def __repr__(self) -> str:
        return f"TracedText({self.text!r}, {self.spans})"

    def __len__(self) -> int:
        return len(self.text)

    def __add__(self, other: TracedText) -> TracedText:
        return TracedText(self.text + other.text, self.spans + other.spans)

    @classmethod
    def added(cls, text: str, place: int) -> TracedText:
        """Return a text that is not of the original, with the place in the original where it was added.

        >>> TracedText("ab") + TracedText.added(".", 2)
        TracedText('ab.', [(0, 1), (1, 2), (2, 2)])
        """
        return cls(text, [(place, place)] * len(text))

    def cut(self, start: int, end: int | None = None) -> TracedText:
        """Return the characters from ``start`` to ``end``."""
        return TracedText(self.text[start:end], self.spans[start:end])

    def stripped(self) -> TracedText:
        """Return the text without outer white space."""
        start = len(self.text) - len(self.text.lstrip())
        return self.cut(start, max(start, len(self.text.rstrip())))

    def mapped(self, table: Mapping[int, str]) -> TracedText:
        """Return the text with each character replaced by that of a table, as ``str.translate`` does.

        >>> TracedText("a…").mapped({ord("…"): "..."}).text
        'a...'
        """
        if not any(ord(letter) in table for letter in self.text):
            return self
        pieces = [table.get(ord(letter), letter) for letter in self.text]
        spans = [span for piece, span in zip(pieces, self.spans, strict=True) for span in [span] * len(piece)]
        return TracedText("".join(pieces), spans)

    def replaced(
        self,
        pattern: str | re.Pattern[str],
        by: str | Callable[[re.Match[str]], str],
        *,
        whole: bool = False,
    ) -> TracedText:
        """Return the text with all matches of a pattern replaced.

        If a replacement is as long as the match, each character keeps its own span. Otherwise, or with ``whole``, each
        gets the span of the whole match.

        >>> TracedText("3 May").replaced("3 May", "May 3", whole=True).spans[:2]
        [(0, 5), (0, 5)]
        """
        pieces, last = [], 0
        for match in re.finditer(pattern, self.text):
            text = by if isinstance(by, str) else by(match)
            if text == match.group():
                continue
            spans = self.spans[match.start() : match.end()]
            if whole or len(text) != len(spans):
                spans = [self.span(*match.span())] * len(text)
            pieces += [self.cut(last, match.start()), TracedText(text, spans)]
            last = match.end()
        return self if not pieces else joined([*pieces, self.cut(last)])

    def span(self, start: int, end: int) -> Span:
        """Return the span in the original of the characters from ``start`` to ``end``.

        Characters that are not of the original do not count. If there are no others, the span is empty.
        """
        spans = self.spans[start:end]
        real = [one for one in spans if one[0] < one[1]]
        if real:
            return real[0][0], real[-1][1]
        place = spans[0][0] if spans else self._place(start)
        return place, place

    def _place(self, index: int) -> int:
        if index < len(self.spans):
            return self.spans[index][0]
        return self.spans[-1][1] if self.spans else 0

    def originals(self, spans: Sequence[Span], offset: int = 0) -> list[Span]:
        """Return spans of this text as spans of the original, minus ``offset``.

        >>> TracedText("a  b").replaced(r" +", " ").originals([(0, 1), (2, 3)])
        [(0, 1), (3, 4)]
        """
        found = [self.span(*span) for span in spans]
        return [(start - offset, end - offset) for start, end in found]

    def moved(self, spans: Sequence[Span]) -> list[Span]:
        """Return spans of the original as spans of this text.

        A span of which nothing is left is empty.

        >>> TracedText("a  b").replaced(r" +", " ").moved([(0, 1), (1, 2), (3, 4)])
        [(0, 1), (1, 2), (2, 3)]
        """
        ends = [end for _, end in self.spans]
        found = []
        for start, end in spans:
            # The first character that ends after the start of the span.
            first = last = bisect_left(ends, start + 1)
            for place in range(first, len(self.spans)):
                begin, stop = self.spans[place]
                if begin >= end and stop > begin:
                    break
                if begin < stop and begin < end:
                    last = place + 1
            while first < last and self.spans[first][0] >= self.spans[first][1]:
                first += 1
            found.append((first, max(first, last)))
        return found


def joined(texts: Sequence[TracedText]) -> TracedText:
    """Join traced texts of one original.

    >>> joined([TracedText("a"), TracedText("b", start=1)])
    TracedText('ab', [(0, 1), (1, 2)])
    """
    return TracedText("".join(one.text for one in texts), [span for one in texts for span in one.spans])
