"""Vocabularies whose tokens are runs of UTF-8 bytes, so that no text is unknown to them."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self

from regard.errors import ArgumentError
from regard.text._vocabulary import Vocabulary

__all__ = ["ByteLevelVocabulary", "ByteVocabulary"]


class ByteLevelVocabulary(Vocabulary):
    """Decoding, labels and spans, given the bytes of every ordinary id."""

    _bytes: Sequence[bytes]  # without the specials

    @abstractmethod
    def _encode(self, text: str) -> list[int]: ...

    def __len__(self) -> int:
        return self._ordinary_from + len(self._bytes)

    def _join(self, ids: list[int]) -> str:
        # A model may stop in the middle of a character: that becomes U+FFFD.
        return b"".join([self._bytes[number - self._ordinary_from] for number in ids]).decode(
            errors="replace"
        )

    def _piece(self, number: int) -> str:
        return self._bytes[number - self._ordinary_from].decode(errors="backslashreplace")

    def _spans(self, text: str) -> list[tuple[int, int]]:
        if text.isascii():
            home = range(len(text))
        else:  # the character that each byte belongs to
            home = [place for place, letter in enumerate(text) for _ in letter.encode()]
        lengths = [len(self._bytes[number - self._ordinary_from]) for number in self._encode(text)]
        ends = list(itertools.accumulate(lengths))
        return [(home[end - length], home[end - 1] + 1) for end, length in zip(ends, lengths, strict=True)]


class ByteVocabulary(ByteLevelVocabulary):
    """The 256 bytes of UTF-8 and the specials: nothing to learn, nothing unknown.

    >>> vocabulary = ByteVocabulary()
    >>> ids = vocabulary.encode("né")
    >>> ids, vocabulary.decode(ids), vocabulary.pieces(ids)
    ([113, 198, 172], 'né', ['n', '\\\\xc3', '\\\\xa9'])
    """

    kind: ClassVar[str] = "byte"
    _bytes: Sequence[bytes] = tuple(bytes([value]) for value in range(256))

    def _encode(self, text: str) -> list[int]:
        first = self._ordinary_from
        return [first + value for value in text.encode()]

    @classmethod
    def _learn(cls, texts: Iterator[str], size: int, lowercase: bool, specials: tuple[str, ...]) -> Self:
        vocabulary = cls(lowercase=lowercase, specials=specials)
        check_size(size, vocabulary)
        return vocabulary

    def _content(self) -> dict[str, Any]:
        return {}

    @classmethod
    def _from_content(cls, content: dict[str, Any], lowercase: bool, specials: tuple[str, ...]) -> Self:
        return cls(lowercase=lowercase, specials=specials)


def check_size(size: int, smallest: Vocabulary) -> None:
    """Refuse a size that does not hold the bytes and the specials."""
    if size < len(smallest):
        raise ArgumentError(
            "size", f"expected at least 256 bytes and {len(smallest.specials)} specials, got {size}"
        )
