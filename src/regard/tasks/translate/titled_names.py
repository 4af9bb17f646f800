"""English names with a title, as a model reads them and as French and Chinese write them.

The data of the shipped models has few sentences with names such as "Mrs. Kowalczyk", and a model may write one of these
in place of a translation. Therefore a first name that the models know from many sentences stands for the title and the
name, and is replaced in the translation.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from regard.tasks.translate.numerals import Numeral
from regard.text.traced import TracedText

__all__ = ["lone_salutation", "read_titled_names", "with_salutation"]


class _Person(NamedTuple):
    """A first name that models know, with the patterns of its French and Chinese forms."""

    english: str
    fr: str
    zh: str


_MEN = (_Person("Tom", r"\bTom\b", "Tom|汤姆"), _Person("John", r"\b(?:John|Jean)\b", "John|约翰"))
_WOMEN = (
    _Person("Mary", r"\b(?:Mary|Marie)\b", "Mary|玛丽|玛莉"),
    _Person("Jane", r"\b(?:Jane|Jeanne)\b", "Jane|珍|简"),
)
_COUPLE = _Person("Tom and Mary", r"\bTom et (?:Mary|Marie)\b", "(?:Tom|汤姆)[和跟与](?:Mary|玛丽|玛莉)")

_TITLES = {
    "fr": {
        "Mr": "Monsieur {}",
        "Mrs": "Madame {}",
        "Ms": "Madame {}",
        "Miss": "Mademoiselle {}",
        "Dr": "le docteur {}",
        "Prof": "le professeur {}",
        "Professor": "le professeur {}",
        "couple": "Monsieur et Madame {}",
    },
    "zh": {
        "Mr": "{}先生",
        "Mrs": "{}太太",
        "Ms": "{}女士",
        "Miss": "{}小姐",
        "Dr": "{}医生",
        "Prof": "{}教授",
        "Professor": "{}教授",
        "couple": "{}夫妇",
    },
}
# The first words of letters without a name.
_SALUTATIONS = {
    "dear sir or madam": ("Madame, Monsieur", "尊敬的先生或女士"),
    "dear madam or sir": ("Madame, Monsieur", "尊敬的女士或先生"),
    "dear sir/madam": ("Madame, Monsieur", "尊敬的先生/女士"),
    "dear sir": ("Monsieur", "尊敬的先生"),
    "dear sirs": ("Messieurs", "尊敬的先生们"),
    "dear madam": ("Madame", "尊敬的女士"),
    "to whom it may concern": ("À qui de droit", "敬启者"),
}
# The French word for "dear" beside a title in place of a first name.
_DEAR = re.compile(
    r"\b(?P<dear>[Cc]h)er (?:(?P<woman>(?=Mad))|(?P<couple>(?=Monsieur et))|le (?=docteur|professeur))"
)
_NAME = r"[A-ZÀ-Þ](?:[A-Za-zÀ-ɏ]+|['’][A-ZÀ-Þ][A-Za-zÀ-ɏ]+)(?:['’-][A-ZÀ-Þ][A-Za-zÀ-ɏ]+)*"
_TITLE = r"(?:(?P<couple>Mr\.? and Mrs)|(?P<title>Mrs?|Ms|Miss|Dr|Prof|Professor))"
# "Mr. President" has an office in place of a name.
_OFFICE = r"(?:President|Chairman|Speaker|Mayor|Secretary|Ambassador|Minister|Prime|Vice|Justice|Right)\b"
_TITLED = re.compile(rf"\b{_TITLE}(?:\.|\b) (?!{_OFFICE})(?P<name>{_NAME}(?: {_NAME})*)")


def read_titled_names(text: TracedText, language: str) -> tuple[TracedText, tuple[Numeral, ...]]:
    """Return an English sentence with first names for titled names, and what is given back to a translation.

    ``language`` is that of the translation, "fr" or "zh".

    >>> from regard.tasks.translate.numerals import with_numerals
    >>> text, names = read_titled_names(TracedText("Mr. Kowalczyk will come."), "zh")
    >>> text.text, with_numerals(TracedText("汤姆会来。"), names, "", "zh").text
    ('Tom will come.', 'Kowalczyk先生会来。')
    """
    found: list[Numeral] = []
    taken = {person.english for person in (*_MEN, *_WOMEN) if re.search(rf"\b{person.english}\b", text.text)}

    def replaced(match: re.Match[str]) -> str:
        title = match["title"] or "couple"
        people = (
            (_COUPLE,) if match["couple"] else _MEN if title in ("Mr", "Dr", "Prof", "Professor") else _WOMEN
        )
        free = [person for person in people if taken.isdisjoint(person.english.split(" and "))]
        if not free:
            return match.group()
        taken.update(free[0].english.split(" and "))
        found.append(Numeral(getattr(free[0], language), _TITLES[language][title].format(match["name"])))
        return free[0].english

    return text.replaced(_TITLED, replaced, whole=True), tuple(found)


def with_salutation(text: TracedText) -> TracedText:
    """Return a French text in which "cher" agrees with the title after it.

    >>> with_salutation(TracedText("Cher Madame Roy, cher le docteur Roy")).text
    'Chère Madame Roy, cher docteur Roy'
    """

    def agreeing(match: re.Match[str]) -> str:
        ending = "er" if match["woman"] is None else "ère"
        return f"{match['dear']}{ending}{'s' if match['couple'] is not None else ''} "

    return text.replaced(_DEAR, agreeing, whole=True)


def lone_salutation(text: str, language: str) -> str | None:
    """Return the translation of an English text into "fr" or "zh" if the text is only a salutation without a name.

    >>> lone_salutation("Dear Sir or Madam", "fr"), lone_salutation("DEAR SIR", "fr"), lone_salutation("Dear Tom", "fr")
    ('Madame, Monsieur', 'MONSIEUR', None)
    """
    found = _SALUTATIONS.get(" ".join(text.lower().split()))
    if found is None or language not in ("fr", "zh"):
        return None
    words = found[language == "zh"]
    return words.upper() if text.isupper() else words
