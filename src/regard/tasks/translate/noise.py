"""Noise in the source of training pairs, in letter case, final marks, apostrophes, contractions and spelling."""

from __future__ import annotations

import re
from random import Random

__all__ = ["noisy"]

_WORD = re.compile(r"(?<![\w'’-])[a-z]{5,}(?![\w'’-])")
_INNER_CAPITAL = re.compile(r"(?<=\s)(?!I\b)[A-ZÀ-Þ]")
# English contractions with their long forms, which mean the same everywhere.
_CONTRACTIONS = (
    ("I'm", "I am"),
    ("don't", "do not"),
    ("Don't", "Do not"),
    ("doesn't", "does not"),
    ("didn't", "did not"),
    ("isn't", "is not"),
    ("aren't", "are not"),
    ("wasn't", "was not"),
    ("weren't", "were not"),
    ("can't", "cannot"),
    ("couldn't", "could not"),
    ("won't", "will not"),
    ("wouldn't", "would not"),
    ("shouldn't", "should not"),
    ("haven't", "have not"),
    ("hasn't", "has not"),
    ("I've", "I have"),
    ("I'll", "I will"),
    ("you're", "you are"),
    ("You're", "You are"),
    ("we're", "we are"),
    ("We're", "We are"),
    ("they're", "they are"),
    ("They're", "They are"),
)


def noisy(random: Random, text: str, *, english: bool = True) -> str:
    """Return a source with one kind of noise, or the same text where that kind finds nothing to change.

    ``english`` also exchanges contractions and their long forms, which is not an error but another wording.

    >>> noisy(Random(0), "I don't know this word.")
    'I dont know this word.'
    """
    changes = [(0.35, _without_mark), (0.2, _lower), (0.05, _capitals), (0.2, _misspelt)]
    changes += [(0.08, _without_apostrophe), (0.12, _other_form)] if english else []
    shares, makers = zip(*changes, strict=True)
    (make,) = random.choices(makers, shares)
    return make(random, text)


def _without_mark(_random: Random, text: str) -> str:
    return text[:-1].rstrip() if len(text) > 2 and text[-1] in ".!?" else text


def _lower(random: Random, text: str) -> str:
    """Return the text in lower case. A text with names loses only its first capital, since a name is copied."""
    if _INNER_CAPITAL.search(text):
        first = text.split(" ", 1)[0]
        return text if first.isupper() else text[:1].lower() + text[1:]
    text = text.lower()
    return _without_mark(random, text) if random.random() < 0.5 else text


def _capitals(_random: Random, text: str) -> str:
    return text if _INNER_CAPITAL.search(text) else text.upper()


def _without_apostrophe(_random: Random, text: str) -> str:
    return re.sub(r"(?<=[a-zI])'(?=(?:t|m|re|ve|ll|s)\b)", "", text)


def _other_form(_random: Random, text: str) -> str:
    for short, long in _CONTRACTIONS:
        for old, new in ((short, long), (long, short)):
            if re.search(rf"\b{old}\b", text):
                return re.sub(rf"\b{old}\b", new, text)
    return text


def _misspelt(random: Random, text: str) -> str:
    """Return the text with one error in a word, which is two letters swapped, one left out or one doubled."""
    words = list(_WORD.finditer(text))
    if not words:
        return text
    word = random.choice(words)
    place = random.randrange(word.start() + 1, word.end() - 1)
    kind = random.choice(("swap", "drop", "double"))
    if kind == "swap":
        return text[:place] + text[place + 1] + text[place] + text[place + 2 :]
    return text[:place] + ("" if kind == "drop" else text[place] * 2) + text[place + 1 :]
