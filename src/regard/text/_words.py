"""Vocabularies of whole words and of single characters. What was not seen in training is unknown."""

from __future__ import annotations

import functools
import re
import unicodedata
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Self

from regard.errors import ArgumentError
from regard.text._vocabulary import UNKNOWN_SIGN, Vocabulary

__all__ = ["CharacterVocabulary", "WordVocabulary"]


class ListedVocabulary(Vocabulary):
    """A list of tokens, the most frequent first; the rest is unk."""

    unk: ClassVar[int | None] = 3
    _unknown: ClassVar[str] = UNKNOWN_SIGN

    def __init__(self, tokens: Sequence[str], *, lowercase: bool = False, specials: Sequence[str] = ()):
        super().__init__(lowercase=lowercase, specials=specials)
        self._tokens = list(tokens)
        self._texts = [""] * self._ordinary_from + self._tokens  # by id
        self._texts[3] = self._unknown
        self._ids = {token: place for place, token in enumerate(self._tokens, self._ordinary_from)}
        if len(self._ids) != len(self._tokens):
            raise ArgumentError("tokens", "some are there twice")
        if not all(isinstance(token, str) and self._is_token(token) for token in self._tokens):
            raise ArgumentError("tokens", f"some are not tokens of a {type(self).__name__}")

    @staticmethod
    @abstractmethod
    def _split(text: str) -> Iterable[str]:
        """The tokens of a text."""

    @staticmethod
    @abstractmethod
    def _is_token(token: str) -> bool:
        """Whether ``_split`` could have made it."""

    def __len__(self) -> int:
        return self._ordinary_from + len(self._tokens)

    def _join(self, ids: list[int]) -> str:
        return "".join([self._texts[number] for number in ids])

    def _piece(self, number: int) -> str:
        return self._texts[number]

    @classmethod
    def _learn(cls, texts: Iterator[str], size: int, lowercase: bool, specials: tuple[str, ...]) -> Self:
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(cls._split(text))
        if not counts:
            raise ArgumentError("texts", "there is no text to learn from")
        # Ties go by the alphabet, so that the order of the texts does not matter.
        ranked = sorted(counts, key=lambda token: (-counts[token], token))
        room = size - len(cls._special_names(specials))
        return cls(ranked[:room], lowercase=lowercase, specials=specials)

    def _content(self) -> dict[str, Any]:
        return {"tokens": self._tokens}

    @classmethod
    def _from_content(cls, content: dict[str, Any], lowercase: bool, specials: tuple[str, ...]) -> Self:
        return cls(content["tokens"], lowercase=lowercase, specials=specials)


class CharacterVocabulary(ListedVocabulary):
    """One token for each character.

    >>> vocabulary = CharacterVocabulary.train(["abba"], 6)
    >>> vocabulary.encode("abc"), vocabulary.decode(vocabulary.encode("abc"))
    ([4, 5, 3], 'ab�')
    """

    kind: ClassVar[str] = "character"

    @staticmethod
    def _split(text: str) -> Iterable[str]:
        return text

    @staticmethod
    def _is_token(token: str) -> bool:
        return len(token) == 1

    def _encode(self, text: str) -> list[int]:
        return [self._ids.get(letter, 3) for letter in text]

    def _spans(self, text: str) -> list[tuple[int, int]]:
        return [(place, place + 1) for place in range(len(text))]


class WordVocabulary(ListedVocabulary):
    """Words, punctuation marks, and single Han characters, which are written without spaces.

    A token knows whether a space stands before it, so that decoding gives the text back with single spaces.
    If a word is known only with or only without the space, that form stands for both.

    >>> vocabulary = WordVocabulary.train(["Hello, world! 你好。"], 100)
    >>> vocabulary.pieces(vocabulary.encode("Hello , 你 world!"))
    ['Hello', ',', '你', 'world', '!']
    >>> vocabulary.decode(vocabulary.encode("Hello,   world!"))
    'Hello, world!'
    """

    kind: ClassVar[str] = "word"
    _unknown: ClassVar[str] = " " + UNKNOWN_SIGN

    @staticmethod
    def _split(text: str) -> Iterable[str]:
        """Each word with a space in front, where there is one. The first word gets its usual form."""
        tokens = _pattern().findall(" ".join(text.split()))
        if tokens:
            first = tokens[0].removeprefix(" ")
            tokens[0] = first if _HAN.match(first) else " " + first
        return tokens

    @staticmethod
    def _is_token(token: str) -> bool:
        word = token.removeprefix(" ")
        return bool(word) and not any(letter.isspace() for letter in word)

    def _encode(self, text: str) -> list[int]:
        ids = self._ids
        return [ids.get(token) or ids.get(_other_form(token), 3) for token in self._split(text)]

    def _join(self, ids: list[int]) -> str:
        return super()._join(ids).removeprefix(" ")

    def _piece(self, number: int) -> str:
        return super()._piece(number).removeprefix(" ")

    def _spans(self, text: str) -> list[tuple[int, int]]:
        # A match may begin with one space: the texts of the pattern have no more.
        return [
            (found.start() + found.group().startswith(" "), found.end())
            for found in _pattern().finditer(text)
        ]


HAN_RANGES = "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd"
_HAN = re.compile(f"[{HAN_RANGES}]")


@functools.cache
def _pattern() -> re.Pattern[str]:
    """A space if there is one, and a run of letters and digits with accents, a Han character, or one other sign."""
    signs = (chr(code) for code in range(0x300, 0x20000))
    marks = "".join(sign for sign in signs if unicodedata.category(sign).startswith("M"))  # not in \w
    letters = rf"[^\W{HAN_RANGES}]"
    quick = r"(?![\0-\u02ff])"  # a look at the next letter spares the long list of marks: five times as fast
    return re.compile(rf" ?(?:{letters}+(?:{quick}[{marks}]+{letters}*)*|\S)")


def _other_form(token: str) -> str:
    return token[1:] if token.startswith(" ") else " " + token
