"""English ordinals, decades and measures, as a model reads them and as French and Chinese write them.

The shipped models know "third" and "12 kg", but few ordinals in digits and few units. Therefore a word or a unit that
they know stands for another one, such as "third" for "22nd" and "kg" for "ml", and is replaced in the translation.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from regard.corpus.particulars.words import day_time
from regard.tasks.translate.amounts import read_amounts, with_linked_nouns
from regard.tasks.translate.dates import DAY, NOT_AFTER, SUFFIX
from regard.tasks.translate.spelled_numbers import SPELLED, chinese_words, french_words, number_of
from regard.text.traced import TracedText

__all__ = [
    "Numeral",
    "has_numbers",
    "has_numerals",
    "is_written_otherwise",
    "read_numbers",
    "read_numerals",
    "with_numerals",
]

# A day without its month, as in "on the 22nd".
_LONE_DAY = re.compile(
    rf"\b(?P<before>on|until|till|since|for|by|before|after)\sthe\s{DAY}{SUFFIX}"
    r"(?=\s*(?:[.,;:!?]|$)|\s(?:at|and|or|if|when|because|with)\b)",
    re.IGNORECASE,
)
# Stands for the month of such a day.
_MONTH = "March"
_MONTH_PATTERNS = {"fr": r"(?<=\d|r)\smars\b", "zh": r"3月(?=\d+[日号])"}

# A month of a year, as in "in March 2024", is read as a day of it, which stands for no day.
_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_MONTH_OF_YEAR = re.compile(rf"\b(?P<in>[Ii]n)\s(?P<month>{_MONTHS})\s(?P<year>[12]\d{{3}})(?![\w:])")
_SOME_DAY = "20"

_ORDINAL = re.compile(rf"{NOT_AFTER}(?P<number>[1-9]\d{{0,3}}){SUFFIX}(?![.,]\d)", re.IGNORECASE)
# English ordinals that stand for others, with their French and Chinese. "First" has two genders in French, so that it
# stands only for "1st".
_FIRST = "first"
_ORDINALS = {
    _FIRST: (r"\bpremi(?:(?P<er>er)|è(?P<re>re))(?P<s>s?)\b", "一"),
    "third": (r"\btroisième(?P<s>s?)\b", "三"),
    "fourth": (r"\bquatrième(?P<s>s?)\b", "四"),
    "fifth": (r"\bcinquième(?P<s>s?)\b", "五"),
    "seventh": (r"\bseptième(?P<s>s?)\b", "七"),
}
# Centuries and floors are counted without a prefix in Chinese.
_CHINESE_ORDINAL = "(?:第{0}(?=世纪|楼|层)|(?P<prefix>第){0}(?!世纪|楼|层|[一二三四五六七八九十百千]))"

# The units that stand for others, with their French and Chinese, and the units that they stand for.
_UNITS = {
    "kg": ("kg", "(?:公斤|千克|kg)", "mg|g|µg|lbs?|oz|ml|cl|dl|l|[KMGT]B|[kmgt]b|[kMG]Hz|Hz|kWh|kW|W|V|mAh"),
    "meters": ("mètres?", "米", "cm|mm|m|ft"),
    "km": ("km", "(?:公里|千米|km)", "m2|m²|km²|km/h|kmh|mph|m/s"),
    "degrees": ("degrés", "度", "°C|°F|°|℃|℉"),
}
_NUMBER = r"(?<![A-Za-z0-9_.,:/$€£])(?P<number>-?\d+(?:,\d{3})*(?:\.\d+)?)"
# A single letter is a unit only right after a number, apart from these.
_MEASURES = {
    unit: re.compile(rf"{_NUMBER}(?:\s(?=[mgl]\b|\S{{2}}|°))?(?P<unit>{units})(?![\w/²])")
    for unit, (*_, units) in _UNITS.items()
}

# A time such as "3:45 p.m.", and its forms in a translation with the word for the half of the day.
_TIME = re.compile(
    rf"{NOT_AFTER}(?P<hour>1[0-2]|[1-9]):(?P<minutes>[0-5]\d) (?P<half>[ap])\.m(?:\.|\b)", re.IGNORECASE
)
_TIME_PATTERNS = {
    "fr": r"(?<![\d:])(?P<time>{}(?::|\sh\s){})(?!\d)(?:\s(?:du matin|du soir|de l'après-midi|de la nuit))?",
    "zh": r"(?:凌晨|清晨|早上|早晨|上午|中午|下午|傍晚|晚上)?(?<![\d:])(?P<time>{}:{})(?!\d)",
}
# Numbers that stand for others, if a translation has other numbers than its source. Models were trained on many of two
# digits.
_NUMBERS = ("46", "57", "83", "39", "74", "68")
_REPLACEABLE = re.compile(r"(?<![\w.,:/$€£#+=-])(?:[2-9]|[1-9]\d{1,2}|\d/\d)(?![\w:/%°+=-]|[.,]\d|\s[+=/])")
_ANY_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")

# The article of a French title inside a sentence, in place of a name, as in "de Le docteur".
_ARTICLE_OF_TITLE = re.compile(r"(?:\b(?P<before>de|à) |(?<=[\w,;] ))[Ll]e (?=docteur|professeur)")
_CONTRACTED = {"de": "du ", "à": "au ", None: "le "}

# "40s" may also be an age or a number of seconds.
_DECADE = re.compile(
    rf"(?:\b(?:the|early|late|mid)[\s-]['’]?(?P<short>[1-9]0)|{NOT_AFTER}(?P<long>[12]\d\d0))['’]?s(?!\w)",
    re.IGNORECASE,
)
_COPIED_DECADE = rf"{NOT_AFTER}['’]?(?P<decade>\d{{3}}0|[1-9]0)['’]?s(?![A-Za-z0-9_])"
# A decade in a French text, with the word before it that has no plural.
_FRENCH_DECADE = re.compile(rf"(?:\b(?P<before>en|le|au|du)\s)?{_COPIED_DECADE}", re.IGNORECASE)
_CHINESE_DECADE = re.compile(rf"{_COPIED_DECADE}(?:年代?)?", re.IGNORECASE)
_PLURALS = {"en": "dans les", "le": "les", "au": "aux", "du": "des"}


class Numeral(NamedTuple):
    """The pattern of a word that stands for a numeral in a translation, and the template of the numeral itself."""

    pattern: str
    template: str


def read_numerals(text: TracedText, language: str) -> tuple[TracedText, tuple[Numeral, ...]]:
    """Return an English sentence with the numerals that models know, and what is given back to a translation.

    ``language`` is that of the translation, "fr" or "zh".

    >>> text, numerals = read_numerals(TracedText("The 21st shop sells 5 ml."), "fr")
    >>> text.text, with_numerals(TracedText("Le troisième magasin vend 5 kg."), numerals, "", "fr").text
    ('The third shop sells 5 kg.', 'Le 21e magasin vend 5 ml.')
    """
    found: list[Numeral] = []
    text = text.replaced(SPELLED, lambda match: _in_digits(match, found, language), whole=True)
    if not any(letter.isdigit() for letter in text.text):
        return text, ()
    text, amounts = read_amounts(text, language)
    found += [Numeral(pattern, amount) for pattern, amount in amounts]
    found += [_time_of_day(match, language) for match in _TIME.finditer(text.text)]
    if not re.search(rf"\b{_MONTH}\b", text.text, re.IGNORECASE):
        text = text.replaced(_LONE_DAY, lambda match: _with_month(match, found, language), whole=True)
    if not re.search(rf"\b{_SOME_DAY}\b", text.text):
        text = text.replaced(_MONTH_OF_YEAR, lambda match: _with_day(match, found, language), whole=True)
    free = [
        word for word in _ORDINALS if word != _FIRST and not re.search(rf"\b{word}", text.text, re.IGNORECASE)
    ]
    text = text.replaced(_ORDINAL, lambda match: _ordinal_word(match, free, found, language), whole=True)
    for unit in _UNITS:
        text = text.replaced(
            _MEASURES[unit], lambda match, unit=unit: _measure(match, unit, found, language), whole=True
        )
    return text, tuple(found)


def _time_of_day(match: re.Match[str], language: str) -> Numeral:
    """Return a time with the half of the day, which a translation may lack or have wrong."""
    clock = f"{match['hour']}:{match['minutes']}"
    _, french, chinese = day_time(f"{match['half'].lower()}m", clock)
    template = rf"{chinese}\g<time>" if language == "zh" else rf"\g<time> {french}"
    return Numeral(_TIME_PATTERNS[language].format(match["hour"], match["minutes"]), template)


def _in_digits(match: re.Match[str], found: list[Numeral], language: str) -> str:
    number = number_of(match)
    # A number at the start would need a capital, and the same number in digits would become words too.
    if not match.start() or re.search(rf"\b{number}\b", match.string):
        return match.group()
    words = chinese_words(number) if language == "zh" else french_words(number)
    found.append(Numeral(rf"(?<![A-Za-z0-9.,:/-]){number}(?![A-Za-z0-9:/-]|[.,]\d)", words))
    return str(number)


def _with_month(match: re.Match[str], found: list[Numeral], language: str) -> str:
    if any(one.pattern == _MONTH_PATTERNS[language] for one in found):
        return match.group()
    found.append(Numeral(_MONTH_PATTERNS[language], ""))
    month = _MONTH.upper() if match.group().isupper() else _MONTH
    return f"{match['before']} {month} {int(match['day'])}"


def _with_day(match: re.Match[str], found: list[Numeral], language: str) -> str:
    year = match["year"]
    french = Numeral(rf"\ble {_SOME_DAY} (?=\w+ {year}\b)", "en ")
    chinese = Numeral(rf"(?<={year}年)(\d+月){_SOME_DAY}[日号]", r"\1")
    found.append(french if language == "fr" else chinese)
    return f"{'On' if match['in'] == 'In' else 'on'} {match['month']} {_SOME_DAY}, {year}"


def _ordinal_word(match: re.Match[str], free: list[str], found: list[Numeral], language: str) -> str:
    number = match["number"]
    if number != "1" and not free:
        return match.group()
    word = _FIRST if number == "1" else free.pop(0)
    # If the sentence has the word itself, the translation stays in words.
    if not re.search(rf"\b{word}\b", match.string, re.IGNORECASE):
        found.append(_ordinal(word, number, language))
    if match.group().isupper():
        return word.upper()
    return word if match.start() else word.capitalize()


def _ordinal(word: str, number: str, language: str) -> Numeral:
    french, chinese = _ORDINALS[word]
    if language == "zh":
        return Numeral(_CHINESE_ORDINAL.format(chinese), rf"\g<prefix>{number}")
    return Numeral(french, number + (r"\g<er>\g<re>\g<s>" if word == _FIRST else r"e\g<s>"))


def _measure(match: re.Match[str], unit: str, found: list[Numeral], language: str) -> str:
    number, written = match["number"], match["unit"]
    french, chinese, _ = _UNITS[unit]
    pattern = rf"(?<![A-Za-z0-9.,]){re.escape(number)}\s?" + (chinese if language == "zh" else rf"{french}\b")
    template = number + written if language == "zh" else f"{number} {written}"
    # The same number has two units.
    if any(one.pattern == pattern and one.template != template for one in found):
        return match.group()
    found.append(Numeral(pattern, template))
    return f"{number} {unit}"


def read_numbers(text: TracedText) -> tuple[TracedText, tuple[Numeral, ...]]:
    """Return a sentence with other numbers, and what is given back to a translation.

    >>> text, numerals = read_numbers(TracedText("I have 2 dogs."))
    >>> text.text, with_numerals(TracedText("J'ai 46 chiens."), numerals, "", "fr").text
    ('I have 46 dogs.', "J'ai 2 chiens.")
    """
    free, found = [one for one in _NUMBERS if one not in text.text], []

    def replaced(match: re.Match[str]) -> str:
        if not free:
            return match.group()
        number = free.pop(0)
        found.append(Numeral(rf"(?<![A-Za-z0-9.,:/-]){number}(?![A-Za-z0-9:/-]|[.,]\d)", match.group()))
        return number

    return text.replaced(_REPLACEABLE, replaced, whole=True), tuple(found)


def has_numbers(source: str, text: str) -> bool:
    """Return whether a translation has the numbers of its source, each as often. Chinese months do not count.

    >>> has_numbers("I have 2 dogs.", "J'ai 2 chiens."), has_numbers("I have 2 dogs.", "J'ai 22 chiens.")
    (True, False)
    """
    written = re.sub(r"\d+月", "", text)
    return Counter(_ANY_NUMBER.findall(source)) == Counter(_ANY_NUMBER.findall(written))


def has_numerals(text: str, numerals: tuple[Numeral, ...]) -> bool:
    """Return whether a translation has each word that stands for a numeral as often as its source.

    >>> has_numerals("Elle vit au troisième étage.", (Numeral("troisième", "21e"),))
    True
    """
    counts = Counter(one.pattern for one in numerals)
    return all(
        sum(1 for _ in re.finditer(pattern, text, re.IGNORECASE)) == count
        for pattern, count in counts.items()
    )


def is_written_otherwise(source: str) -> bool:
    """Return whether a sentence has an ordinal or a decade, which a model may copy."""
    return bool(_ORDINAL.search(source) or _DECADE.search(source))


def with_numerals(text: TracedText, numerals: tuple[Numeral, ...], source: str, language: str) -> TracedText:
    """Return a translation into "fr" or "zh" with the numerals of its source.

    Ordinals and decades that were copied from the source are written as in the other language.

    >>> with_numerals(TracedText("J'aime les 80s."), (), "I like the 80s.", "fr").text
    "J'aime les années 80."
    """
    for pattern, template in dict(numerals).items():
        replaced = re.compile(pattern, re.IGNORECASE)
        text = text.replaced(
            replaced, lambda match, template=template: _expanded(match, template), whole=True
        )
    if any(template.startswith("le ") for _, template in numerals):
        text = text.replaced(_ARTICLE_OF_TITLE, lambda match: _CONTRACTED[match["before"]], whole=True)
    if any(template.endswith(("million", "millions", "milliard", "milliards")) for _, template in numerals):
        text = with_linked_nouns(text)
    if _ORDINAL.search(source):
        text = text.replaced(_ORDINAL, lambda match: _copied_ordinal(match["number"], language), whole=True)
    decades = {match["short"] or match["long"] for match in _DECADE.finditer(source)}
    if not decades:
        return text
    pattern, write = (
        (_FRENCH_DECADE, _french_decade) if language == "fr" else (_CHINESE_DECADE, _chinese_decade)
    )
    return text.replaced(
        pattern, lambda match: write(match) if match["decade"] in decades else match.group(), whole=True
    )


def _expanded(match: re.Match[str], template: str) -> str:
    found = match.expand(template)
    return found[:1].upper() + found[1:] if match.group()[:1].isupper() else found


def _copied_ordinal(number: str, language: str) -> str:
    if language == "zh":
        return f"第{number}"
    return "1er" if number == "1" else f"{number}e"


def _chinese_decade(match: re.Match[str]) -> str:
    return f"{match['decade']}年代"


def _french_decade(match: re.Match[str]) -> str:
    """Write "en 1990s" as "dans les années 1990", and "les 80s" as "les années 80"."""
    before, start = match["before"], match.string[: match.start()]
    if before:
        plural = _PLURALS[before.lower()]
        article = f"{plural.capitalize() if before[0].isupper() else plural} "
    else:
        article = "" if re.search(r"\b(?:les|des|aux|ces|nos|vos)\s$", start, re.IGNORECASE) else "les "
    return f"{article}années {match['decade']}"
