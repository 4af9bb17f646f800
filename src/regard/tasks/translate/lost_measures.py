"""Dates and measures of a sentence that its translation lost."""

from __future__ import annotations

import re

from regard.tasks.translate.dates import DAY, MONTHS, month_in
from regard.text.traced import TracedText

__all__ = ["lost_measures", "with_months_in_digits"]

_DATE = re.compile(rf"\b(?P<month>{'|'.join(MONTHS)}) {DAY}(?![\w:%/]|[.,]\d)", re.IGNORECASE)
# Units with their forms after a number in French and in Chinese. Units without these have the same form there.
_FORMS = {
    "km": ("km|kilomètres?", "km|公里|千米"),
    "m": ("m|mètres?", "m|米"),
    "cm": ("cm|centimètres?", "cm|厘米|公分"),
    "mm": ("mm|millimètres?", "mm|毫米"),
    "kg": ("kg|kilos?|kilogrammes?", "kg|公斤|千克"),
    "g": ("g|grammes?", "g|克"),
    "mg": ("mg|milligrammes?", "mg|毫克"),
    "l": ("l|litres?", "l|升"),
    "ml": ("ml|millilitres?", "ml|毫升"),
    "km/h": ("km/h|kilomètres? (?:à l'|/|par )heure", "km/h|公里/小?时|公里每小?时"),
    "mph": ("mph|miles (?:à l'|par )heure", "mph|英里"),
    "%": ("%|pour ?cent", "%|个百分点"),
    "°C": ("°C?|degrés?", "°C?|℃|度|摄氏度"),
    "°F": ("°F?|degrés?", "°F?|℉|度|华氏度"),
    "°": ("°|degrés?", "°|度"),
}
_SAME = "KB MB GB TB kB Hz kHz MHz GHz W kW kWh V mAh m² km² m/s"
_UNITS = "|".join(sorted((re.escape(unit) for unit in (*_FORMS, *_SAME.split())), key=len, reverse=True))
_MEASURE = re.compile(
    rf"(?<![\w.,:/$€£-])(?P<number>\d+(?:,\d{{3}})*(?:\.\d+)?)\s?(?P<unit>{_UNITS})(?![\w/²'’])"
)
_BETWEEN_DIGITS = re.compile(r"(?<=\d)[ .,\u00a0\u202f](?=\d)")
_CHINESE_MONTH = re.compile(r"(?:十[一二]?|[一二三四五六七八九])月(?=\s?\d{1,2}[日号])")
_CHINESE_DIGITS = "一二三四五六七八九十"


def lost_measures(source: TracedText, read: TracedText, written: str, target: str) -> list[str]:
    """Return the dates and the numbers with units of a sentence that its translation into "fr" or "zh" lacks.

    ``source`` is the sentence of the user, and ``read`` the one that the model read.

    >>> text = TracedText("I ran 10 km on June 2.")
    >>> lost_measures(text, text, "J'ai couru 10 minutes le 2 juin.", "fr")
    ['10 km']
    >>> lost_measures(text, text, "2日我跑了10公里。", "zh")
    ['June 2']
    """
    if target not in ("fr", "zh"):
        return []
    dates = [match for match in _DATE.finditer(read.text) if _is_in(source.text, match)]
    measures = _MEASURE.finditer(source.text)
    lost = [match.group() for match in measures if not _has_measure(match, written, target)]
    return lost + [match.group() for match in dates if not _has_date(match, written, target)]


def _is_in(source: str, date: re.Match[str]) -> bool:
    """Return whether the month and the day of a date are the user's, and do not stand for others."""
    has_day = re.search(rf"(?<!\d)0?{date['day']}(?!\d)", source)
    return has_day is not None and date["month"][:3].lower() in source.lower()


def _has_date(date: re.Match[str], written: str, target: str) -> bool:
    day, month = int(date["day"]), month_in(target, date["month"])
    if target == "fr":
        return re.search(rf"(?<!\d){day}(?:er)? {month}\b", written, re.IGNORECASE) is not None
    forms = f"{month}|{_chinese_number(int(month[:-1]))}月"
    return re.search(rf"(?<![\d十])(?:{forms})\s?(?:{day}|{_chinese_number(day)})[日号]", written) is not None


def _has_measure(measure: re.Match[str], written: str, target: str) -> bool:
    number, unit = measure["number"], measure["unit"]
    forms = _FORMS.get(unit, (re.escape(unit),) * 2)[target == "zh"]
    digits, text = (_BETWEEN_DIGITS.sub("", some) for some in (number, written))
    if re.search(rf"(?<!\d){digits}\s?(?:{forms})(?![A-Za-z/])", text, re.IGNORECASE):
        return True
    if unit == "%" and re.search(rf"百分之{digits}(?!\d)", text):
        return True
    # The number may be in words, or the unit before it.
    return not re.search(rf"(?<!\d){digits}(?!\d)", text) and re.search(forms, text) is not None


def _chinese_number(number: int) -> str:
    """Return a number up to 31 in Chinese.

    >>> _chinese_number(10), _chinese_number(12), _chinese_number(30)
    ('十', '十二', '三十')
    """
    tens, ones = divmod(number, 10)
    ten = "" if not tens else "十" if tens == 1 else f"{_CHINESE_DIGITS[tens - 1]}十"
    return ten + (_CHINESE_DIGITS[ones - 1] if ones else "")


def with_months_in_digits(text: TracedText) -> TracedText:
    """Return a Chinese text in which a month before a day in digits is in digits too.

    >>> with_months_in_digits(TracedText("十二月3日和三月")).text
    '12月3日和三月'
    """
    numbers = {_chinese_number(month): str(month) for month in range(1, 13)}
    return text.replaced(_CHINESE_MONTH, lambda match: f"{numbers[match.group()[:-1]]}月", whole=True)
