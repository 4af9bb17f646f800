"""The words of composed scenes, and the captions that are made of them in English and Chinese."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from regard.errors import ArgumentError, UnknownNameError

__all__ = [
    "DIGITS",
    "GARMENTS",
    "LANGUAGES",
    "USUAL_WORDS",
    "Mention",
    "caption_of",
    "checked_words",
    "mentions",
]

LANGUAGES = ("en", "zh")
# The classes of MNIST and of Fashion-MNIST in the order of their numbers.
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
GARMENTS = (*("tee", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot"),)
# The other garments look like a shirt or like a sneaker, and classifiers of single pictures confuse them.
USUAL_WORDS = (*DIGITS, "trousers", "shirt", "sneaker", "bag", "boot")

_CHINESE = dict(
    zip(
        (*DIGITS, *GARMENTS),
        (
            *("零", "一", "二", "三", "四", "五", "六", "七", "八", "九"),
            *("T恤", "裤子", "毛衣", "连衣裙", "大衣", "凉鞋", "衬衫", "运动鞋", "包", "靴子"),
        ),
        strict=True,
    )
)
# The place of the first object relative to the second, of the third to both, and of the fourth to all three.
_PHRASES: dict[str, dict[int, dict[str, str]]] = {
    "en": {
        1: {"above": "{} above {}", "left": "{} to the left of {}"},
        2: {
            "above": ", {} above them",
            "below": ", {} below them",
            "left": ", {} to their left",
            "right": ", {} to their right",
        },
        3: {
            "above": ", {} above all of them",
            "below": ", {} below all of them",
            "left": ", {} to the left of all of them",
            "right": ", {} to the right of all of them",
        },
    },
    "zh": {
        1: {"above": "{}在{}的上方", "left": "{}在{}的左边"},
        2: {
            "above": "，{}在它们的上方",
            "below": "，{}在它们的下方",
            "left": "，{}在它们的左边",
            "right": "，{}在它们的右边",
        },
        3: {
            "above": "，{}在其余物体的上方",
            "below": "，{}在其余物体的下方",
            "left": "，{}在其余物体的左边",
            "right": "，{}在其余物体的右边",
        },
    },
}


@dataclass(frozen=True)
class Mention:
    """The word of an object in a caption, with its (start, end) characters."""

    word: str  # the English name of the object, in every language
    start: int
    end: int


def caption_of(words: Sequence[str], places: Sequence[str], language: str = "en") -> str:
    """Return the caption of a scene.

    ``words`` are the names of its objects in the order of the caption. ``places`` has one entry less: the place of the
    first object relative to the second ("above" or "left"), that of the third relative to both, and that of the fourth
    relative to all three ("above", "below", "left" or "right").

    >>> caption_of(["seven", "sneaker", "eight"], ["above", "right"])
    'a seven above a sneaker, an eight to their right'
    >>> caption_of(["seven", "sneaker", "shirt"], ["above", "right"], "zh")
    '数字七在运动鞋的上方，衬衫在它们的右边'
    """
    if language not in LANGUAGES:
        raise UnknownNameError("language", language, LANGUAGES)
    named = [_with_article(word, language) for word in words]
    phrases = _PHRASES[language]
    parts = [phrases[1][places[0]].format(*named[:2])]
    parts += [phrases[n][places[n - 1]].format(named[n]) for n in range(2, len(named))]
    return "".join(parts)


def mentions(text: str, language: str = "en") -> list[Mention]:
    """Return the words of objects in a caption, in order. The caption may be wrong.

    >>> [mention.word for mention in mentions("a seven above a bag above a seven")]
    ['seven', 'bag', 'seven']
    >>> mentions("数字七在包的上方", "zh")[1]
    Mention(word='bag', start=4, end=5)
    """
    pattern, words = _word_pattern(language)
    return [Mention(words[found.group()], found.start(), found.end()) for found in pattern.finditer(text)]


def checked_words(text: str | None) -> tuple[str, ...]:
    """Return the names of objects in a text such as "seven,bag", or those that are usual for None.

    >>> checked_words("seven, bag")
    ('seven', 'bag')
    """
    if text is None:
        return USUAL_WORDS
    words = tuple(word.strip() for word in text.split(","))
    for word in words:
        if word not in _CHINESE:
            raise UnknownNameError("words", word, _CHINESE)
    if len(set(words)) < len(words) or len(words) < 2:
        raise ArgumentError("words", f"expected two different words or more, got {text!r}")
    return words


def _with_article(word: str, language: str) -> str:
    if language == "zh":
        return f"数字{_CHINESE[word]}" if word in DIGITS else _CHINESE[word]
    if word == "trousers":
        return word
    # "one" begins with the sound of w.
    return f"an {word}" if word == "eight" else f"a {word}"


@cache
def _word_pattern(language: str) -> tuple[re.Pattern[str], dict[str, str]]:
    """Return a pattern of all words of objects in a language, and the English name of each."""
    words = {name: name for name in _CHINESE} if language == "en" else {v: k for k, v in _CHINESE.items()}
    longest_first = "|".join(sorted(map(re.escape, words), key=len, reverse=True))
    return re.compile(rf"\b(?:{longest_first})\b" if language == "en" else longest_first), words
