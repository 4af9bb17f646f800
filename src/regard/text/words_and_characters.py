"""Vocabularies of whole words and of single characters.

Tokens that were not seen in training are unknown.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Self

from regard.errors import ArgumentError
from regard.text.base_vocabulary import UNKNOWN_SIGN, Vocabulary

__all__ = ["CharacterVocabulary", "WordVocabulary"]


class ListedVocabulary(Vocabulary):
    """The base class of vocabularies that are a list of tokens, the most frequent first.

    A token that is not in the list is encoded to unk.
    """

    unk: int | None = 3
    _unknown: ClassVar[str] = UNKNOWN_SIGN

    def __init__(self, tokens: Sequence[str], *, lowercase: bool = False, specials: Sequence[str] = ()):
        super().__init__(lowercase=lowercase, specials=specials)
        self._tokens = list(tokens)
        self._texts = [""] * self._ordinary_from + self._tokens  # by id
        self._texts[3] = self._unknown
        self._ids = {token: place for place, token in enumerate(self._tokens, self._ordinary_from)}
        if len(self._ids) != len(self._tokens):
            raise ArgumentError("tokens", "expected distinct tokens, got duplicates")
        if not all(isinstance(token, str) and self._is_token(token) for token in self._tokens):
            raise ArgumentError("tokens", f"some are not tokens of a {type(self).__name__}")

    @staticmethod
    @abstractmethod
    def _split(text: str) -> Iterable[str]:
        """Return the tokens of a text in order."""

    @staticmethod
    @abstractmethod
    def _is_token(token: str) -> bool:
        """Return whether ``_split`` can produce this token."""

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
        # Tokens of equal frequency are sorted alphabetically, so that the order of the texts does not matter.
        ranked = sorted(counts, key=lambda token: (-counts[token], token))
        room = size - len(cls._special_names(specials))
        return cls(ranked[:room], lowercase=lowercase, specials=specials)

    def _content(self) -> dict[str, Any]:
        return {"tokens": self._tokens}

    @classmethod
    def _from_content(cls, content: dict[str, Any], lowercase: bool, specials: tuple[str, ...]) -> Self:
        return cls(content["tokens"], lowercase=lowercase, specials=specials)


class CharacterVocabulary(ListedVocabulary):
    """A vocabulary with one token for each character.

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
    """A vocabulary of words, punctuation marks and single Han characters.

    A token includes the space before it, so that decoding restores the text with single spaces. If a word is known
    only with or only without the space, that form is used for both.

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
        """Split a text into words, each with the space before it if there is one.

        The first word gets a space too, unless it is a Han character.
        """
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
        # A match may begin with one space, which is not part of the span.
        return [
            (match.start() + match.group().startswith(" "), match.end())
            for match in _pattern().finditer(text)
        ]


HAN_RANGES = "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd"
_HAN = re.compile(f"[{HAN_RANGES}]")


@functools.cache
def _pattern() -> re.Pattern[str]:
    """Return the pattern of a token.

    A token is an optional space, then either letters and digits with combining accents, or one other character such
    as a Han character or a punctuation mark.
    """
    characters = (chr(code) for code in range(0x300, 0x20000))
    # \w does not include combining marks.
    marks = "".join(character for character in characters if unicodedata.category(character).startswith("M"))
    letters = rf"[^\W{HAN_RANGES}]"
    # This lookahead skips the long list of marks for most letters, which is five times as fast.
    quick = r"(?![\0-\u02ff])"
    return re.compile(rf" ?(?:{letters}+(?:{quick}[{marks}]+{letters}*)*|\S)")


def _other_form(token: str) -> str:
    return token[1:] if token.startswith(" ") else " " + token
