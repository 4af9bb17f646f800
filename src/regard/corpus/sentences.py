"""Generated sentences with text, words and spans, and the word alignments between two languages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from regard.corpus.english import Word
from regard.corpus.meaning import Statement
from regard.errors import UnknownNameError

__all__ = ["LANGUAGES", "Links", "Sentence", "Triple", "write_chinese", "write_english", "write_french"]

LANGUAGES = ("en", "fr", "zh")

# No space before these in English and French.
_CLOSE_UP = frozenset((".", ",", "'s"))
_CLOSE_UP_ENGLISH = _CLOSE_UP | {"?", "!"}


class Links(NamedTuple):
    """Word alignments as pairs of word indices (source, target), where ``possible`` includes ``sure``."""

    sure: frozenset[tuple[int, int]]
    possible: frozenset[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence in one language with its words and their character spans.

    ``text[a:b] == word`` for each word and its span. ``units`` holds (word, sure units, possible units) for each word,
    with the units as bit masks (see :mod:`regard.corpus.meaning`).
    """

    text: str
    words: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]
    units: tuple[Word, ...] = field(default=(), repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Triple:
    """The same sentence in English, French and Chinese, with word alignments.

    ``meaning`` is the tree that the sentences were generated from.
    """

    english: Sentence
    french: Sentence
    chinese: Sentence
    meaning: Statement | None = field(default=None, repr=False, compare=False)

    def side(self, language: str) -> Sentence:
        """Return the sentence in the language "en", "fr" or "zh". Others raise UnknownNameError."""
        if language == "en":
            return self.english
        if language == "fr":
            return self.french
        if language == "zh":
            return self.chinese
        raise UnknownNameError("language", language, LANGUAGES)

    def links(self, source: str, target: str) -> Links:
        """Return the word alignments between two languages, given as "en", "fr" or "zh".

        A link is (index of the source word, index of the target word). Two words are linked if they express the same
        unit. The link is sure if the unit is sure for both words.
        """
        sure: set[tuple[int, int]] = set()
        possible: set[tuple[int, int]] = set()
        target_units = self.side(target).units
        for i, (_, source_sure, source_possible) in enumerate(self.side(source).units):
            either = source_sure | source_possible
            for j, (_, target_sure, target_possible) in enumerate(target_units):
                if source_sure & target_sure:
                    sure.add((i, j))
                if either & (target_sure | target_possible):
                    possible.add((i, j))
        return Links(frozenset(sure), frozenset(possible))


def write_english(words: Sequence[Word]) -> Sentence:
    """Join English words, at least one, to a sentence with spaces and a capital letter."""
    return _write(words, _CLOSE_UP_ENGLISH)


def write_french(words: Sequence[Word]) -> Sentence:
    """Join French words to a sentence with a capital letter, no space after an apostrophe, and one before ? and !."""
    return _write(words, _CLOSE_UP)


def _write(words: Sequence[Word], close_up: frozenset[str]) -> Sentence:
    texts: list[str] = []
    spans: list[tuple[int, int]] = []
    pieces: list[str] = []
    start = 0
    no_space = True
    for word, _, _ in words:
        if no_space or word in close_up or word[0] == "-":
            pieces.append(word)
        else:
            pieces.append(" " + word)
            start += 1
        end = start + len(word)
        spans.append((start, end))
        texts.append(word)
        start = end
        no_space = word[-1] == "'"
    texts[0] = pieces[0] = texts[0][0].upper() + texts[0][1:]
    return Sentence("".join(pieces), tuple(texts), tuple(spans), tuple(words))


def write_chinese(words: Sequence[Word]) -> Sentence:
    """Join Chinese words to a sentence without spaces."""
    spans: list[tuple[int, int]] = []
    start = 0
    for word, _, _ in words:
        end = start + len(word)
        spans.append((start, end))
        start = end
    texts = tuple([word for word, _, _ in words])
    return Sentence("".join(texts), texts, tuple(spans), tuple(words))
