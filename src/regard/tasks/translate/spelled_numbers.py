"""Numbers of two words, from 21 to 99, in English, French and Chinese.

Small models know "thirty" and "seven", but often lose one of them in "thirty-seven". They copy digits. Therefore they
read such a number in digits, and the translation is given the words of its language.
"""

from __future__ import annotations

import re

__all__ = ["SPELLED", "chinese_words", "french_words", "number_of"]

_UNITS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_NUMBER_WORD = "|".join(
    (*_UNITS, *_TENS, "ten", "eleven", "twelve", r"\w+teen", "hundred", "thousand", r"\w+illion")
)
# Not a part of "nineteen eighty-four", "a hundred and twenty-five" or "twenty-five past six".
SPELLED = re.compile(
    r"(?<![\w'’-])(?<!hundred )(?<!hundred and )(?<!thousand )(?<!thousand and )(?<!teen )(?<!twenty )"
    rf"(?P<tens>{'|'.join(_TENS)})[- ](?P<unit>{'|'.join(_UNITS)})"
    rf"(?![\w'’-]| (?:{_NUMBER_WORD}|past|to|percent|per)\b)",
    re.IGNORECASE,
)

_FRENCH_UNITS = (
    "",
    "un",
    "deux",
    "trois",
    "quatre",
    "cinq",
    "six",
    "sept",
    "huit",
    "neuf",
    "dix",
    "onze",
    "douze",
)
_FRENCH_TEENS = ("treize", "quatorze", "quinze", "seize", "dix-sept", "dix-huit", "dix-neuf")
_FRENCH_SMALL = (*_FRENCH_UNITS, *_FRENCH_TEENS)  # from 0 to 19
_FRENCH_TENS = {2: "vingt", 3: "trente", 4: "quarante", 5: "cinquante", 6: "soixante", 8: "quatre-vingt"}
_CHINESE_DIGITS = "〇一二三四五六七八九"


def number_of(match: re.Match[str]) -> int:
    """Return the number that a match of :data:`SPELLED` stands for.

    >>> number_of(SPELLED.search("She is thirty-seven years old."))
    37
    """
    return 10 * (2 + _TENS.index(match["tens"].lower())) + 1 + _UNITS.index(match["unit"].lower())


def french_words(number: int) -> str:
    """Return a number of two English words in French words, or in digits if its last word has two genders.

    >>> [french_words(number) for number in (22, 71, 77, 84, 95, 31)]
    ['vingt-deux', 'soixante et onze', 'soixante-dix-sept', 'quatre-vingt-quatre', 'quatre-vingt-quinze', '31']
    """
    tens, unit = divmod(number, 10)
    if unit == 1 and tens not in (7, 9):
        return str(number)
    if tens in (7, 9):
        tens, unit = tens - 1, unit + 10
    joint = " et " if (tens, unit) == (6, 11) else "-"
    return f"{_FRENCH_TENS[tens]}{joint}{_FRENCH_SMALL[unit]}"


def chinese_words(number: int) -> str:
    """Return a number of two English words in Chinese words.

    >>> chinese_words(37)
    '三十七'
    """
    tens, unit = divmod(number, 10)
    return f"{_CHINESE_DIGITS[tens]}十{_CHINESE_DIGITS[unit]}"
