"""Sentences as the user sees them: text, words, spans, and the links between two languages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from regard.errors import UnknownNameError
from regard.text.corpus.chinese import chinese
from regard.text.corpus.english import Word, english
from regard.text.corpus.french import french
from regard.text.corpus.meaning import Statement

__all__ = ["LANGUAGES", "Links", "Sentence", "Triple", "realise"]

LANGUAGES = ("en", "fr", "zh")

_CLOSE_UP = frozenset((".", ",", "'s"))  # no space before these in English and French
_CLOSE_UP_ENGLISH = _CLOSE_UP | {"?", "!"}


class Links(NamedTuple):
    """Pairs of word indices, source first. ``possible`` includes ``sure``."""

    sure: frozenset[tuple[int, int]]
    possible: frozenset[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence in one language; ``text[a:b] == word`` for each word and its span."""

    text: str
    words: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]
    units: tuple[Word, ...] = field(default=(), repr=False, compare=False)  # what each word expresses


@dataclass(frozen=True, slots=True)
class Triple:
    """The same sentence in English, French and Chinese, with the words that translate each other."""

    english: Sentence
    french: Sentence
    chinese: Sentence

    def side(self, language: str) -> Sentence:
        """The sentence in ``en``, ``fr`` or ``zh``."""
        if language == "en":
            return self.english
        if language == "fr":
            return self.french
        if language == "zh":
            return self.chinese
        raise UnknownNameError("language", language, LANGUAGES)

    def links(self, source: str, target: str) -> Links:
        """Which word of ``source`` translates which of ``target``.

        Two words are linked if they express the same unit of meaning: surely if both certainly do.
        """
        sure: set[tuple[int, int]] = set()
        possible: set[tuple[int, int]] = set()
        others = self.side(target).units
        for i, (_, certain, perhaps) in enumerate(self.side(source).units):
            either = certain | perhaps
            for j, (_, their_certain, their_perhaps) in enumerate(others):
                if certain & their_certain:
                    sure.add((i, j))
                if either & (their_certain | their_perhaps):
                    possible.add((i, j))
        return Links(frozenset(sure), frozenset(possible))


def realise(statement: Statement) -> Triple:
    """Say a meaning in the three languages."""
    return Triple(
        write_english(english(statement)), write_french(french(statement)), write_chinese(chinese(statement))
    )


def write_english(words: Sequence[Word]) -> Sentence:
    """Set the spaces of English."""
    return _write(words, _CLOSE_UP_ENGLISH)


def write_french(words: Sequence[Word]) -> Sentence:
    """Set the spaces of French: none after an apostrophe, one before ? and !."""
    return _write(words, _CLOSE_UP)


def _write(words: Sequence[Word], close_up: frozenset[str]) -> Sentence:
    texts: list[str] = []
    spans: list[tuple[int, int]] = []
    pieces: list[str] = []
    at = 0
    glued = True
    for word, _, _ in words:
        if glued or word in close_up or word[0] == "-":
            pieces.append(word)
        else:
            pieces.append(" " + word)
            at += 1
        end = at + len(word)
        spans.append((at, end))
        texts.append(word)
        at = end
        glued = word[-1] == "'"
    texts[0] = pieces[0] = texts[0][0].upper() + texts[0][1:]
    return Sentence("".join(pieces), tuple(texts), tuple(spans), tuple(words))


def write_chinese(words: Sequence[Word]) -> Sentence:
    """No spaces at all."""
    spans: list[tuple[int, int]] = []
    at = 0
    for word, _, _ in words:
        end = at + len(word)
        spans.append((at, end))
        at = end
    texts = tuple([word for word, _, _ in words])
    return Sentence("".join(texts), texts, tuple(spans), tuple(words))
