"""Encoding of texts as the token ids that a model reads, in training and in use."""

from __future__ import annotations

import re
from collections.abc import Sequence

from regard.errors import UnknownNameError
from regard.shapes import whole_number
from regard.tasks.settings import CUTS
from regard.text import Framing, Vocabulary
from regard.text.cache import fingerprint_of

__all__ = ["TextEncoder", "without_line_breaks"]

_LINE_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)


def without_line_breaks(text: str) -> str:
    """Replace the line breaks of HTML by as many spaces, so that the places of all other characters stay.

    >>> without_line_breaks("Good.<br />Bad.")
    'Good.      Bad.'
    """
    return _LINE_BREAK.sub(lambda match: " " * len(match.group()), text)


class TextEncoder:
    """A vocabulary that encodes at most ``most`` tokens of each text.

    Of a longer text, ``cut="end"`` leaves out the end and ``cut="middle"`` the middle. Line breaks of HTML are read as
    spaces.

    >>> from regard.text import train_vocabulary
    >>> letters = train_vocabulary("character", ["abcdefg"], 20)
    >>> TextEncoder(letters, 4, "middle").encode_batch(["abcdefg"]) == letters.encode_batch(["abfg"])
    True
    """

    def __init__(self, vocabulary: Vocabulary, most: int, cut: str = "end"):
        if cut not in CUTS:
            raise UnknownNameError("cut", cut, CUTS)
        self.vocabulary, self.cut = vocabulary, cut
        self.most = whole_number("max_tokens", most, least=1)

    def __len__(self) -> int:
        return len(self.vocabulary)

    @property
    def fingerprint(self) -> str:
        """A hash of everything that the ids depend on."""
        return fingerprint_of(self.vocabulary.fingerprint, self.most, self.cut, "line breaks")

    @property
    def framing(self) -> Framing:
        """The special tokens that are put around a text."""
        return self.vocabulary.framing

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text that are read, without special tokens."""
        return [ids for ids, _ in self.encode(texts)]

    def encode(self, texts: Sequence[str]) -> list[tuple[list[int], bool]]:
        """Return the ids of each text that are read, and whether others were cut off."""
        whole = self.vocabulary.encode_batch([without_line_breaks(text) for text in texts])
        return [([ids[place] for place in self.places(len(ids))], len(ids) > self.most) for ids in whole]

    def places(self, count: int) -> list[int]:
        """Return the places of the tokens that are read of a text of ``count`` tokens.

        >>> from regard.text import ByteVocabulary
        >>> TextEncoder(ByteVocabulary(), 3, "middle").places(9)
        [0, 1, 8]
        """
        if count <= self.most:
            return list(range(count))
        first = self.most if self.cut == "end" else self.most - self.most // 2
        return [*range(first), *range(count - (self.most - first), count)]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the (start, end) characters of each token that is read."""
        spans = self.vocabulary.spans(without_line_breaks(text))
        return [spans[place] for place in self.places(len(spans))]
