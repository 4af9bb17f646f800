"""English numbers such as "3 million", as a model reads them and as French and Chinese write them.

Small models copy "3", but often lose the word after it. Chinese counts in units of 10,000 and 100,000,000, so that the
digits change too. Therefore a number of two digits stands for the whole, and is replaced in the translation.
"""

from __future__ import annotations

import re
from decimal import Decimal

from regard.text.traced import TracedText

__all__ = ["read_amounts", "with_linked_nouns"]

_POWERS = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_FRENCH = {"million": "million", "billion": "milliard", "trillion": "billion"}
# A sign before an amount, with the words for it, which the translation may have in place of the sign.
_CURRENCIES = {
    "$": ("dollars", r"\$|dollars?", "美元", r"\$|美元|美金|块钱?|元"),
    "€": ("euros", r"€|euros?", "欧元", "€|欧元|元"),
    "£": ("livres", r"£|livres?(?: sterling)?", "英镑", "£|英镑|镑"),
}
_AMOUNT = re.compile(
    r"(?<![\w.,:/+-])(?P<sign>[$€£])?(?P<number>\d+(?:,\d{3})*(?:\.\d+)?)"
    r"(?:[ -](?P<power>thousand|million|billion|trillion)(?![\w-]))?"
    r"(?P<words> (?P<currency>euro|franc|peso|pound|ruble|rupee|yuan)s?(?![\w-]))?",
    re.IGNORECASE,
)
_VOWELS = "aeiouyhàâéèêîôû"
# Words for currencies that models do not know beside a number. Dollars stand for them.
_CURRENCY_WORDS = {
    "fr": {"franc": "francs", "peso": "pesos", "ruble": "roubles", "rupee": "roupies"},
    "zh": {
        "euro": "欧元",
        "franc": "法郎",
        "peso": "比索",
        "pound": "英镑",
        "ruble": "卢布",
        "rupee": "卢比",
        "yuan": "元",
    },
}
_DOLLARS = {"fr": r"(?:\$|dollars?)(?![A-Za-z])", "zh": "(?:美元|美金|元|块钱?)"}
# A sentence without such a word is about pounds of weight.
_OF_MONEY = re.compile(
    r"\b(?:buy|bought|charge[sd]?|costs?|earn(?:s|ed)?|money|owes?d?|paid|pays?|prices?|sells?|sold|spen[dt]|worth)\b",
    re.IGNORECASE,
)
# Numbers that stand for amounts. The models were trained on many of two digits.
_NUMBERS = ("46", "57", "83", "39", "74", "68")
_EDGES = r"(?<![A-Za-z0-9.,:/-]){}(?![A-Za-z0-9:/-]|[.,]\d)"
# Words that can follow a French amount and are no nouns.
_NO_NOUNS = (
    "a ai après au aux avant avec ces cet cette chez contre dans de depuis des du elle en est et hier il ils la le les "
    "lors moins ne on ont ou par plus pour que qui sans se sont sur à étaient était"
).replace(" ", "|")
# A French amount before a noun, which is linked by "de".
_BEFORE_NOUN = re.compile(
    rf"(?P<amount>\b\d[\d,]* (?:million|milliard|billion)s?) "
    rf"(?:(?P<years>ans)\b|(?!(?:{_NO_NOUNS})\b|[dl]')(?:(?P<vowel>(?=[{_VOWELS}]))|(?=[^\W\d])))",
    re.IGNORECASE,
)


def read_amounts(text: TracedText, language: str) -> tuple[TracedText, list[tuple[str, str]]]:
    """Return a sentence with numbers for its amounts, and patterns of these with the amounts of a translation.

    ``language`` is that of the translation, "fr" or "zh".

    >>> text, amounts = read_amounts(TracedText("It cost $3 million."), "zh")
    >>> text.text, [amount for _, amount in amounts]
    ('It cost $46.', ['300万美元'])
    """
    free = [number for number in _NUMBERS if number not in text.text]
    found: list[tuple[str, str]] = []

    def replaced(match: re.Match[str]) -> str:
        currency = _currency_name(match, language)
        if not (match["power"] or currency) or (match["power"] and not free):
            return match.group()
        number, sign = free.pop(0) if match["power"] else match["number"], match["sign"] or ""
        pattern, amount = _pattern_and_amount(number, sign, currency, match, language)
        if dict(found).get(pattern, amount) != amount:  # the same number of two currencies
            return match.group()
        found.append((pattern, amount))
        return f"{sign}{number}{' dollars' if currency else match['words'] or ''}"

    return text.replaced(_AMOUNT, replaced, whole=True), found


def _currency_name(match: re.Match[str], language: str) -> str:
    """Return the name of a currency for which dollars stand, or an empty text."""
    name = _CURRENCY_WORDS[language].get((match["currency"] or "").lower(), "")
    is_weight = name == "英镑" and not _OF_MONEY.search(match.string)
    return "" if match["sign"] or is_weight else name


def _pattern_and_amount(
    number: str, sign: str, currency: str, match: re.Match[str], language: str
) -> tuple[str, str]:
    digits, power = match["number"].replace(",", ""), (match["power"] or "").lower()
    amount = number if not power else _chinese(digits, power) if language == "zh" else _french(digits, power)
    pattern, name = _EDGES.format(re.escape(number)), currency
    if currency:
        pattern += rf"\s?{_DOLLARS[language]}"
        name = name if language == "zh" or Decimal(digits) >= 2 or power else name.removesuffix("s")
    elif not sign:
        return pattern, amount
    else:
        french, french_forms, chinese, chinese_forms = _CURRENCIES[sign]
        name, forms = (chinese, chinese_forms) if language == "zh" else (french, french_forms)
        pattern = rf"(?:{re.escape(sign)}\s?)?{pattern}(?:\s?(?:{forms})(?![A-Za-z]))?"
    link = "" if language == "zh" else " " if power in ("", "thousand") else _linking(name)
    return pattern, f"{amount}{link}{name}"


def _linking(noun: str) -> str:
    return " d'" if noun[0] in _VOWELS else " de "


def _french(digits: str, power: str) -> str:
    """Return an amount in French.

    >>> _french("2.5", "billion"), _french("1.5", "million"), _french("20", "thousand")
    ('2,5 milliards', '1,5 million', '20 000')
    """
    value = Decimal(digits)
    if power == "thousand":
        return f"{value * 1000:,f}".removesuffix(".0").replace(",", " ")
    return f"{digits.replace('.', ',')} {_FRENCH[power]}{'s' if value >= 2 else ''}"


def _chinese(digits: str, power: str) -> str:
    """Return an amount in Chinese.

    >>> _chinese("2.5", "billion"), _chinese("1.5", "million"), _chinese("3", "thousand"), _chinese("2", "trillion")
    ('25亿', '150万', '3000', '2万亿')
    """
    value = Decimal(digits).scaleb(_POWERS[power])
    for unit, least in (("万亿", 12), ("亿", 8), ("万", 4)):
        if value >= Decimal(10) ** least:
            return f"{value.scaleb(-least).normalize():f}{unit}"
    return f"{value.normalize():f}"


def with_linked_nouns(text: TracedText) -> TracedText:
    """Return a French text with "de" between an amount and its noun.

    >>> with_linked_nouns(TracedText("3 millions habitants il y a 65 millions ans, 2 millions en tout")).text
    "3 millions d'habitants il y a 65 millions d'années, 2 millions en tout"
    """

    def linked(match: re.Match[str]) -> str:
        noun = "d'années" if match["years"] else "de " if match["vowel"] is None else "d'"
        return f"{match['amount']} {noun}"

    return text.replaced(_BEFORE_NOUN, linked, whole=True)
