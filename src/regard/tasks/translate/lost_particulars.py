"""Names and numbers of a sentence that its translation lost.

A model that copies may leave out a number, or write other digits. Such a sentence is translated once more with a number
or a name in its place that the model knows, which the translation then gives back.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from difflib import SequenceMatcher

from regard.tasks.translate.countries import COUNTRIES
from regard.tasks.translate.paragraphs import Inner, Part
from regard.text.traced import Span, TracedText
from regard.text.verbatim import NAME

__all__ = ["lost_particulars"]

# A phone number, a code with capital letters before its number, a code in parts such as "EX-5507-W", or another word of
# digits and capital letters. A word such as "1990s" or "3rd" is none, because languages write it in different ways.
_WITH_DIGITS = re.compile(
    r"(?<![\w.,:/+'’-])(?:\+?\(?\d[\d().-]*+(?: [\d().-]*\d)+(?![\w:/%])|[A-Z]{1,3} \d++(?![\w.,:/-]*\w)"
    r"|(?=[A-Z/-]*\d)[A-Z0-9]++(?:[/-][A-Z0-9]++)+(?!\w)"
    r"|\+?[A-Z]*\d[A-Z0-9]*+(?:[.,/-][A-Z]*\d[A-Z0-9]*+)*(?!\w))"
)
# A time with a half of the day, which languages write in different ways.
_HALF_OF_DAY = re.compile(r"\d{1,2}(?::\d\d)? ?[ap]\.?m", re.IGNORECASE)
_TIME = re.compile(r"(?<![\w.,:/+-])(?P<hour>[01]?\d|2[0-4]):(?P<minutes>[0-5]\d)(?![\w:]|[.,]\d)")
# The signs of currencies, with the forms that they may have beside a number in a translation.
_CURRENCIES = {"$": r"\$|dollars?|美元|美金|块|元", "€": "€|euros?|欧元|元", "£": "£|livres?|英镑|镑"}
_LATIN_WORD = re.compile(r"[A-Za-zÀ-ɏ]+(?:['’-][A-Za-zÀ-ɏ]+)*")
_ACCENT = re.compile("[\u0300-\u036f]")
_CAPITALISED = re.compile(
    r"(?<![\w'’-])(?!(?:Mr|Mrs|Ms|Dr|Prof|St)\.)[A-ZÀ-Þ][A-Za-zÀ-ɏ]+(?:['’-][A-Za-zÀ-ɏ]+)*"
    r"(?:(?: [A-Z]\.)? [A-ZÀ-Þ][A-Za-zÀ-ɏ]+(?:['’-][A-Za-zÀ-ɏ]+)*)*"
)
# Parts of a name that a translation may leave out, although it has the others.
_SMALL_PARTS = re.compile(r"\b(?:[A-Z]\.|(?:Van|Von|De|Da|Di|Du|Le|La|El|Al|Ben|Bin)\b)")
# Signs between the digits of a number, which languages write in different ways.
_BETWEEN_DIGITS = re.compile(r"(?<=\d)[ .,\u00a0\u202f'’-](?=\d)")
# The target languages in which names are checked.
_NAME_LANGUAGES = ("fr", "zh")
# Acronyms that have another form in French or Chinese.
_TRANSLATED_TEXT = (
    "AIDS ATM CEO COVID DNA DVD FAQ FYI GDP GMT GPS HIV HTML IMF LED MBA NATO NGO PDF PIN RNA SMS SUV UFO USA USB USSR "
    "VAT VIP WHO WTO"
)
_TRANSLATED_ACRONYMS = frozenset(_TRANSLATED_TEXT.split())
# Names that are unlike their French forms.
_UNLIKE_FRENCH_TEXT = (
    "Beijing Christmas Easter England Germany Grandma Grandpa Halloween Lent Mom Mum Netherlands Scotland Switzerland "
    "Thanksgiving Wales Warsaw Xmas"
)
_UNLIKE_FRENCH = frozenset(_UNLIKE_FRENCH_TEXT.split())
# The ends of words for nationalities and languages, which are translated.
_NATIONALITY = re.compile(r"(?:an|ese|ish|ic|ch)s?$")
# The share of equal letters from which a word of a translation may be a form of a name.
_SIMILAR = 0.55
# Words for numbers, which may stand for one or two digits.
_NUMBER_WORDS = {
    "fr": re.compile(r"\b(?:une?|deux|trois|quatre|cinq|six|sept|huit|neuf|dix|onze|douze|treize|quatorze|quinze|seize"
                     r"|vingts?|trente|quarante|cinquante|soixante|cent)\b"),
    "zh": re.compile("[一二两三四五六七八九十百]"),
}  # fmt: skip


def lost_particulars(
    part: Part,
    read: TracedText,
    written: str,
    target: str,
    is_rare: Callable[[str], bool] = lambda word: False,
) -> tuple[Inner, ...]:
    """Return the words with digits of a part that its translation lacks, and the names that it has in a wrong form.

    ``read`` is the sentence that the model read, ``written`` the translation that the user gets, and ``target`` the
    language of the translation. Names are checked in French and Chinese. In Chinese, a word of Latin letters that is
    not in the sentence shows that a name is wrong. A name with a word for which ``is_rare`` is true must be in the
    translation, because a model knows no other form of it, and so must an acronym. The names of a sentence in capitals
    are those of the sentence that the model read.

    >>> from regard.tasks.translate.paragraphs import split_text
    >>> part = split_text("Flight XT7014 leaves from gate 36.", "en", "fr").parts[0]
    >>> [one.text for one in lost_particulars(part, part.core, "Le vol XT714 part de la porte 36.", "fr")]
    ['XT7014']
    """
    text = part.core.text
    numbers = [match for match in _WITH_DIGITS.finditer(text) if not _TIME.match(text, match.start())]
    spans = [
        match.span()
        for match in (*numbers, *_TIME.finditer(text))
        if match.group() in read.text
        and not _HALF_OF_DAY.match(text, match.start())
        and _is_lost(match, written, target)
    ]
    places = [part.core.span(*span) for span in spans]
    if target in _NAME_LANGUAGES:
        places += _lost_names(part, read, written, target, is_rare)
    found = []
    for first, last in places:
        if not any(first < inner.end and inner.start < last for inner in (*part.inner, *found)):
            words = part.source[first - part.start : last - part.start]
            found.append(Inner(first, last, NAME, COUNTRIES.get(words, words) if target == "zh" else words))
    return tuple(sorted(found, key=lambda inner: inner.start))


def _lost_names(
    part: Part, read: TracedText, written: str, target: str, is_rare: Callable[[str], bool]
) -> list[Span]:
    """Return the spans of the names in the text of the user that a translation lacks or has in a wrong form."""
    text, own = part.core, read.text
    if text.text.isupper() and not read.text.isupper():
        text, own = read, part.core.text
        usual = {word.upper(): word for word in _LATIN_WORD.findall(read.text)}
        written = _LATIN_WORD.sub(lambda match: usual.get(match.group(), match.group()), written)
    # Words that are not in the sentence show that a name is wrong.
    known = {*_LATIN_WORD.findall(text.text), *map(str.title, _LATIN_WORD.findall(part.core.text))}
    wrong = set(_LATIN_WORD.findall(written)) - known
    names = [match for match in _CAPITALISED.finditer(text.text) if _form_in(own, match.group())]
    lost = [match for match in names if _is_lost_name(match, written, target, is_rare, wrong)]
    return [text.span(*match.span()) for match in lost]


def _form_in(text: str, name: str) -> bool:
    """Return whether a text has a name. Names that stand for others are not in the text of the user."""
    return name in text or (text.isupper() and name.upper() in text)


def _is_lost(match: re.Match[str], written: str, target: str) -> bool:
    """Return whether a translation lacks a time or another word with digits, however its digits are grouped."""
    if match.re is _TIME:
        return _is_lost_time(match, written, target)
    plain, among = (_BETWEEN_DIGITS.sub("", text) for text in (match.group(), written))
    number = rf"(?<![0-9]){re.escape(plain)}(?![0-9])"
    forms = _CURRENCIES.get(match.string[: match.start()][-1:])
    if forms is not None and plain.isdigit():
        # A number in words has no digits beside which its currency could be found.
        is_kept = re.search(rf"(?:{forms})\s?{number}|{number}\s?(?:{forms})", among)
        return not is_kept and (
            re.search(number, among) is not None or not _has_number_words(plain, written, target)
        )
    return not re.search(number, among) and not _has_number_words(plain, written, target)


def _has_number_words(plain: str, written: str, target: str) -> bool:
    """Return whether a translation may have a number of one or two digits in words."""
    words = _NUMBER_WORDS.get(target)
    return (
        plain.isdigit() and len(plain) <= 2 and (words is None or words.search(written.lower()) is not None)
    )


def _is_lost_time(match: re.Match[str], written: str, target: str) -> bool:
    """Return whether a translation has neither the digits of a time, in 12 or 24 hours, nor words for them."""
    hour, minutes = int(match["hour"]), match["minutes"]
    hours = f"0?{hour}|{hour + 12}" if hour < 12 else str(hour)
    between = r"\s?(?::|h|heures?|点|时)\s?"
    ending = f"(?:{minutes})?" if minutes == "00" else minutes
    if re.search(rf"(?<![\d:])(?:{hours}){between}{ending}(?!\d)", written, re.IGNORECASE):
        return False
    return not _has_number_words(str(hour), written, target)


def _is_lost_name(
    match: re.Match[str], written: str, target: str, is_rare: Callable[[str], bool], wrong: set[str]
) -> bool:
    """Return whether a translation lacks a name that it must have. ``wrong`` are words that the sentence has not."""
    name = match.group()
    if _has_name(written, name) or (target == "zh" and COUNTRIES.get(name, written + name) in written):
        return False
    if re.fullmatch(r"[A-Z]{3,}", name) and name not in _TRANSLATED_ACRONYMS:
        return True
    if target == "zh":
        return _is_wrong_name(match, written, wrong) or _is_left_out(match, written, is_rare)
    return _is_left_out(match, written, is_rare) and not _has_french_form(name, written)


def _has_french_form(name: str, written: str) -> bool:
    """Return whether a name may be translated, or a word of a translation resembles it, as "Bruxelles" does."""
    if _NATIONALITY.search(name) or name in _UNLIKE_FRENCH:
        return True
    # Decomposed, so that "Suède" resembles "Sweden".
    plain = _ACCENT.sub("", unicodedata.normalize("NFD", written))
    words = [word for word in _LATIN_WORD.findall(plain) if len(word) > 2]
    pairs = [(part.lower(), word.lower()) for part in name.split() for word in words]
    return any(SequenceMatcher(None, *pair).ratio() >= _SIMILAR for pair in pairs)


def _has_name(written: str, name: str) -> bool:
    """Return whether a name stands in a translation, and not as a part of a longer one."""
    return re.search(rf"(?<![A-Za-zÀ-ɏ]){re.escape(name)}(?![A-Za-zÀ-ɏ])", written) is not None


def _is_wrong_name(match: re.Match[str], written: str, wrong: set[str]) -> bool:
    """Return whether a translation has a name in another form. ``wrong`` are its words that the sentence has not."""
    name = match.group()
    shortened = _SMALL_PARTS.sub("", name).split()
    if len(shortened) < len(name.split()) and all(_has_name(written, part) for part in shortened):
        return True
    # The first word of a sentence may be any, so it must resemble a word of the translation.
    return bool(wrong) and (
        match.start() > 0 or any(part in name or name in part for part in wrong if len(part) > 2)
    )


def _is_left_out(match: re.Match[str], written: str, is_rare: Callable[[str], bool]) -> bool:
    """Return whether a translation has no word of a rare name. The first word of a sentence may be any."""
    words = match.group().split()
    return (
        match.start() > 0 and any(map(is_rare, words)) and not any(_has_name(written, word) for word in words)
    )
