"""Vocabularies whose tokens are sequences of UTF-8 bytes, so that no text is unknown."""

from __future__ import annotations

import functools
import itertools
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self

from regard.errors import ArgumentError
from regard.text.base_vocabulary import Vocabulary

__all__ = ["ByteLevelVocabulary", "ByteVocabulary"]


class ByteLevelVocabulary(Vocabulary):
    """The base class of byte-level vocabularies, with decoding, labels and spans.

    A subclass provides ``_bytes``, the bytes of each token in the order of ids, from the first that is not special.
    """

    _bytes: Sequence[bytes]

    @abstractmethod
    def _encode(self, text: str) -> list[int]: ...

    def __len__(self) -> int:
        return self._ordinary_from + len(self._bytes)

    @functools.cached_property
    def token_bytes(self) -> tuple[bytes, ...]:
        """The UTF-8 bytes of each id, empty for special tokens."""
        return (*[b""] * self._ordinary_from, *self._bytes)

    def _join(self, ids: list[int]) -> str:
        # A model may stop in the middle of a character, which is then decoded to U+FFFD.
        return b"".join([self._bytes[number - self._ordinary_from] for number in ids]).decode(
            errors="replace"
        )

    def _piece(self, number: int) -> str:
        return self._bytes[number - self._ordinary_from].decode(errors="backslashreplace")

    def _spans(self, text: str) -> list[tuple[int, int]]:
        # The index of the character that each byte belongs to.
        if text.isascii():
            character = range(len(text))
        else:
            character = [place for place, letter in enumerate(text) for _ in letter.encode()]
        lengths = [len(self._bytes[number - self._ordinary_from]) for number in self._encode(text)]
        ends = list(itertools.accumulate(lengths))
        return [
            (character[end - length], character[end - 1] + 1)
            for end, length in zip(ends, lengths, strict=True)
        ]


class ByteVocabulary(ByteLevelVocabulary):
    """A vocabulary of the 256 byte values and the special tokens, which needs no training.

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
    """Raise ArgumentError if ``size`` is below that of ``smallest``, a vocabulary of the 256 bytes and the specials."""
    if size < len(smallest):
        raise ArgumentError(
            "size", f"expected at least 256 bytes and {len(smallest.specials)} specials, got {size}"
        )
