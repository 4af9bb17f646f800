"""English dates and times in the forms that a model was trained on, and the translation of a date that stands alone."""

from __future__ import annotations

import functools
import re

from regard.text.traced import TracedText

__all__ = ["DAY", "MONTHS", "NOT_AFTER", "SUFFIX", "lone_date", "month_in", "with_plain_dates"]

_MONTHS_TEXT = "January February March April May June July August September October November December"
MONTHS = _MONTHS_TEXT.split()
_WEEKDAYS = "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday"
_SHORT = r"(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept|Sep|Oct|Nov|Dec)\b\.?"
_MONTH = rf"(?P<month>{'|'.join(MONTHS)}|{_SHORT})"
DAY = r"(?P<day>0?[1-9]|[12]\d|3[01])"
_YEAR = r"(?:,?\s(?P<year>[12]\d{3})(?![\w:]))?"
# A Chinese character may follow.
SUFFIX = r"(?:st|nd|rd|th)(?![A-Za-z0-9_])"
# A number after these is part of another one. Chinese characters are not.
NOT_AFTER = r"(?<![A-Za-z0-9_.,:/$€£-])"
# A month may also be a verb or a name. Therefore it must have a capital beside a number that is not an ordinal.
_DATES = (
    # "the 3rd of March 2024" and "March 3rd, 2024"
    re.compile(rf"\b(?:the\s)?{DAY}{SUFFIX}\s(?:day\s)?(?:of\s)?{_MONTH}(?!\w){_YEAR}", re.IGNORECASE),
    re.compile(rf"\b{_MONTH}\s(?:the\s)?{DAY}{SUFFIX}{_YEAR}", re.IGNORECASE),
    # "3 March 2024" and "Mar. 3"
    re.compile(rf"{NOT_AFTER}{DAY}\s{_MONTH}(?!\w){_YEAR}"),
    re.compile(rf"\b(?P<month>{_SHORT})\s{DAY}(?![\w:%]|[.,]\d){_YEAR}"),
)
# "5pm", "5:30 pm" and "5 p.m.". A time such as "5:30 p.m." is in the training data.
_TIME = re.compile(
    rf"{NOT_AFTER}(?P<hour>1[0-2]|[1-9])"
    r"(?:(?P<minutes>:[0-5]\d)?\s?(?P<half>[ap])m\b|\s?(?P<dotted>[ap])\.m(?:\.|\b))",
    re.IGNORECASE,
)
# A single "H" is not an hour.
_DURATION = re.compile(
    rf"{NOT_AFTER}(?P<number>\d+(?:\.\d+)?)\s?(?P<unit>hrs?|HRS?|h|mins?|MINS?|secs?|SECS?)\b(?!\.\w|/)"
)
_NUMBERED = re.compile(r"(?:\bN[or]\.|№)\s?(?=\d)")
_YEARS_OLD = re.compile(r"(?<=\d)-(?:year|month|week|day)-olds?\b")
_LONE_DATE = re.compile(
    rf"(?:(?P<weekday>{_WEEKDAYS}),?\s)?(?P<month>{'|'.join(MONTHS)})\s{DAY}{_YEAR}(?P<mark>\.?)",
    re.IGNORECASE,
)


def with_plain_dates(text: TracedText) -> TracedText:
    """Return an English sentence with dates such as "March 3, 2024", times such as "17:30" and some words written out.

    >>> with_plain_dates(TracedText("We met on the 3rd of May at 5pm for 20min at No. 5.")).text
    'We met on May 3 at 17:00 for 20 minutes at number 5.'
    """
    for pattern in _DATES:
        text = text.replaced(pattern, _date, whole=True)
    text = text.replaced(_TIME, _time, whole=True).replaced(_DURATION, _duration, whole=True)
    text = text.replaced(_NUMBERED, lambda match: "number " if match.start() else "Number ", whole=True)
    return text.replaced(_YEARS_OLD, lambda match: match.group().replace("-", " "))


def lone_date(text: str, language: str) -> str | None:
    """Return the translation of an English text into "fr" or "zh" if the text is only a date.

    >>> lone_date("Monday, March 3rd, 2024", "fr"), lone_date("the 1st of May", "zh"), lone_date("We met.", "fr")
    ('Lundi 3 mars 2024', '5月1日', None)
    """
    match = _LONE_DATE.fullmatch(with_plain_dates(TracedText(text)).text)
    if match is None or language not in ("fr", "zh"):
        return None
    month, day, year = _word("month", match["month"], language), match["day"], match["year"]
    weekday = _word("weekday", match["weekday"], language) if match["weekday"] else ""
    if language == "zh":
        mark = "。" if match["mark"] else ""
        return f"{year}年{month}{day}日{weekday}{mark}" if year else f"{month}{day}日{weekday}{mark}"
    day = "1er" if day == "1" else day
    found = " ".join(part for part in (weekday, day, month, year) if part)
    if text.isupper():
        found = found.upper()
    elif match["weekday"] and match["weekday"][0].isupper():
        found = found.capitalize()
    return found + match["mark"]


@functools.cache
def _words(slot: str) -> dict[str, tuple[str, str]]:
    from regard.corpus.particulars.words import SLOTS_OF_WORDS

    return {english.lower(): (french, chinese) for english, french, chinese in SLOTS_OF_WORDS[slot]}


def _word(slot: str, english: str, language: str) -> str:
    return _words(slot)[english.lower()][language == "zh"]


def month_in(language: str, month: str) -> str:
    """Return an English month in "fr" or "zh".

    >>> month_in("fr", "May"), month_in("zh", "May")
    ('mai', '5月')
    """
    return _word("month", month, language)


def _date(match: re.Match[str]) -> str:
    name = match["month"].rstrip(".")
    month = next(full for full in MONTHS if full.lower().startswith(name.lower()))
    month = month.upper() if name.isupper() else month
    return f"{month} {int(match['day'])}" + (f", {match['year']}" if match["year"] else "")


def _time(match: re.Match[str]) -> str:
    is_afternoon = (match["half"] or match["dotted"]).lower() == "p"
    hour = int(match["hour"]) % 12 + 12 * is_afternoon
    # The dot of "p.m." at the end of a sentence is its mark as well.
    mark = "." if match.group().endswith(".") and match.end() == len(match.string) else ""
    return f"{hour}{match['minutes'] or ':00'}{mark}"


def _duration(match: re.Match[str]) -> str:
    unit = {"h": "hour", "m": "minute", "s": "second"}[match["unit"][0].lower()]
    unit += "" if match["number"] == "1" else "s"
    return f"{match['number']} {unit.upper() if match['unit'].isupper() else unit}"
