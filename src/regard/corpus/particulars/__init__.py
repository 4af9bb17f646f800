"""Sentences with particulars, which a translation has to keep unchanged, such as names, numbers, prices and addresses.

A sentence is made from a pattern of ``patterns.txt`` in English, French and Chinese. The patterns that are marked there
with ``*``, and one in ten of the names and numbers, are used in tests only.

>>> sentence = next(generate_particulars(1, split="train", seed=5))
>>> print(sentence.text("en"), sentence.text("fr"), sentence.text("zh"))
Let's meet at 10:25 on Tuesday. Retrouvons-nous mardi à 10:25. 我们星期二10:25见吧。
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from regard.corpus.particulars import names, numbers
from regard.corpus.particulars.words import SLOTS_OF_WORDS, day_time
from regard.errors import ArgumentError, UnknownNameError

__all__ = ["Particular", "ParticularSentence", "elided", "generate_particulars"]

_LANGUAGES = ("en", "fr", "zh")
# A slot such as {name}, {name2} or, in French, {de name}, in which "de" becomes "d'" before a vowel.
_SLOT = re.compile(r"\{(?:(de|que) )?([a-z_]+?(?:24)?)(2?)\}")
_VOWELS = "aeiouâàáäåãæéèêëíîïóôöøœúûüAEIOUÂÀÁÄÅÃÆÉÈÊËÍÎÏÓÔÖØŒÚÛÜİı"


@dataclass(frozen=True, slots=True)
class Particular:
    """A text that has to arrive unchanged, with its kind, such as ``Particular("price", "$12.50")``."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class ParticularSentence:
    """A sentence in three languages, with its particulars. ``pattern`` is its number in ``patterns.txt``."""

    texts: tuple[str, str, str]  # English, French, Chinese
    particulars: tuple[Particular, ...]
    pattern: int

    def text(self, language: str) -> str:
        """Return the sentence in the language "en", "fr" or "zh". Others raise UnknownNameError."""
        if language not in _LANGUAGES:
            raise UnknownNameError("language", language, _LANGUAGES)
        return self.texts[_LANGUAGES.index(language)]


def generate_particulars(
    count: int, *, split: str = "train", seed: int = 0, new_patterns: bool = True
) -> Iterator[ParticularSentence]:
    """Yield ``count`` sentences of the split "train" or "test".

    The names and numbers of the two splits differ. The test uses the patterns that are never trained on, or the others
    with ``new_patterns=False``. The same arguments give the same sentences on every machine.
    """
    if split not in ("train", "test"):
        raise UnknownNameError("split", split, ("train", "test"))
    if count < 0:
        raise ArgumentError("count", f"expected 0 or more sentences, got {count}")
    random = Random(f"particulars {split} {seed}")
    held = split == "test" and new_patterns
    patterns = [(place, texts) for place, (texts, test) in enumerate(_patterns()) if test == held]
    return (_sentence(random, split, *random.choice(patterns)) for _ in range(count))


def elided(word: str, following: str) -> str:
    """Return the French word "de" or "que" as it is written before another word.

    >>> elided("de", "Anna"), elided("de", "Marc"), elided("que", "Émile")
    ("d'", 'de ', "qu'")
    """
    return f"{word[:-1]}'" if following[:1] in _VOWELS else f"{word} "


@functools.cache
def _patterns() -> tuple[tuple[tuple[str, ...], bool], ...]:
    """Return the texts of each pattern, and whether it is used in tests only."""
    lines = (Path(__file__).parent / "patterns.txt").read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if line and not line.startswith("#")]
    return tuple((tuple(line.removeprefix("* ").split(" | ")), line.startswith("*")) for line in kept)


def _sentence(random: Random, split: str, place: int, texts: tuple[str, ...]) -> ParticularSentence:
    values: dict[str, tuple[str, str, str]] = {}  # by slot, in the three languages
    particulars: list[Particular] = []
    for _, kind, number in _SLOT.findall(texts[0]):
        slot = kind + number
        if kind in ("am", "pm"):
            values[slot] = day_time(kind, values[f"time{number}"][0])
        elif kind in SLOTS_OF_WORDS:
            values[slot] = random.choice(SLOTS_OF_WORDS[kind])
        elif slot not in values:
            text = _particular(random, kind, split)
            values[slot] = (text, "1er" if kind == "day" and text == "1" else text, text)
            particulars.append(Particular(kind, text))
    written = tuple(_filled(text, values, side) for side, text in enumerate(texts))
    return ParticularSentence(written, tuple(particulars), place)  # pyright: ignore[reportArgumentType]


def _filled(text: str, values: dict[str, tuple[str, str, str]], side: int) -> str:
    def fill(match: re.Match[str]) -> str:
        word, kind, number = match.groups()
        text = values[kind + number][side]
        return (elided(word, text) if word else "") + text

    filled = _SLOT.sub(fill, text)
    # An abbreviation such as "a.m." at the end has the final mark already.
    return filled[:-1] if filled.endswith(".m..") else filled


def _particular(random: Random, kind: str, split: str) -> str:
    """Return a new text for a slot."""
    if kind == "name":
        make = names.full_name if random.random() < 0.4 else names.first_name
        return make(random, split)
    if kind in ("woman", "man", "first"):
        gender = {"woman": "f", "man": "m"}.get(kind)
        make = names.full_name if kind != "first" and random.random() < 0.2 else names.first_name
        return make(random, split, gender)
    makers = {"last": names.surname, "place": names.place_name, "company": names.company_name}
    return makers[kind](random, split) if kind in makers else numbers.value(random, kind, split)
