"""Names and numbers of a sentence that its translation lost.

A model that copies may leave out a number, or write other digits. Such a sentence is translated once more with a number
or a name in its place that the model knows, which the translation then gives back.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from regard.tasks.translate.paragraphs import Inner, Part
from regard.text.verbatim import NAME

__all__ = ["lost_particulars"]

# A phone number, a code with capital letters before its number, a code in parts such as "EX-5507-W", or another word of
# digits and capital letters. A word such as "1990s" or "3rd" is none, because languages write it in different ways.
_WITH_DIGITS = re.compile(
    r"(?<![\w.,:/+'’-])(?:\+?\(?\d[\d().-]*+(?: [\d().-]*\d)+(?![\w:/%])|[A-Z]{1,3} \d++(?![\w.,:/-]*\w)"
    r"|(?=[A-Z/-]*\d)[A-Z0-9]++(?:[/-][A-Z0-9]++)+(?!\w)"
    r"|\+?[A-Z]*\d[A-Z0-9]*+(?:[.,/-][A-Z]*\d[A-Z0-9]*+)*(?!\w))"
)
_TIME = re.compile(r"\d{1,2}:\d\d|\d{1,2} ?[ap]\.?m", re.IGNORECASE)
_LATIN_WORD = re.compile(r"[A-Za-zÀ-ɏ]+(?:['’-][A-Za-zÀ-ɏ]+)*")
_CAPITALISED = re.compile(
    r"(?<![\w'’-])(?!(?:Mr|Mrs|Ms|Dr|Prof|St)\.)[A-ZÀ-Þ][A-Za-zÀ-ɏ]+(?:['’-][A-Za-zÀ-ɏ]+)*"
    r"(?:(?: [A-Z]\.)? [A-ZÀ-Þ][A-Za-zÀ-ɏ]+(?:['’-][A-Za-zÀ-ɏ]+)*)*"
)
# Parts of a name that a translation may leave out, although it has the others.
_SMALL_PARTS = re.compile(r"\b(?:[A-Z]\.|(?:Van|Von|De|Da|Di|Du|Le|La|El|Al|Ben|Bin)\b)")
# Signs between the digits of a number, which languages write in different ways.
_BETWEEN_DIGITS = re.compile(r"(?<=\d)[ .,\u00a0\u202f'’-](?=\d)")
# Words for numbers, which may stand for one or two digits.
_NUMBER_WORDS = {
    "fr": re.compile(r"\b(?:une?|deux|trois|quatre|cinq|six|sept|huit|neuf|dix|onze|douze|treize|quatorze|quinze|seize"
                     r"|vingts?|trente|quarante|cinquante|soixante|cent)\b"),
    "zh": re.compile("[一二两三四五六七八九十百]"),
}  # fmt: skip


def lost_particulars(
    part: Part, read: str, written: str, target: str, is_rare: Callable[[str], bool] = lambda word: False
) -> tuple[Inner, ...]:
    """Return the words with digits of a part that its translation lacks, and the names that it has in a wrong form.

    ``read`` is the sentence that the model read, ``written`` the translation that the user gets, and ``target`` the
    language of the translation. Names are checked only in Chinese. There, a word of Latin letters that is not in the
    sentence shows that a name is wrong. A name with a word for which ``is_rare`` is true must be in the translation,
    because a model knows no Chinese form of it.

    >>> from regard.tasks.translate.paragraphs import split_text
    >>> part = split_text("Flight XT7014 leaves from gate 36.", "en", "fr").parts[0]
    >>> [one.text for one in lost_particulars(part, part.core.text, "Le vol XT714 part de la porte 36.", "fr")]
    ['XT7014']
    """
    text = part.core.text
    spans = [
        match.span()
        for match in _WITH_DIGITS.finditer(text)
        if match.group() in read
        and not _TIME.match(text, match.start())
        and _is_lost(match.group(), written, target)
    ]
    if target == "zh":
        wrong = set(_LATIN_WORD.findall(written)) - set(_LATIN_WORD.findall(text))
        # In a sentence in capitals, the model read other words.
        names = [
            match
            for match in _CAPITALISED.finditer(text)
            if match.group() in read and not _has_name(written, match.group())
        ]
        spans += [
            match.span()
            for match in names
            if _is_wrong_name(match, written, wrong) or _is_left_out(match, written, is_rare)
        ]
    found = []
    for start, end in spans:
        first, last = part.core.span(start, end)
        if not any(first < inner.end and inner.start < last for inner in (*part.inner, *found)):
            found.append(Inner(first, last, NAME, part.source[first - part.start : last - part.start]))
    return tuple(sorted(found, key=lambda inner: inner.start))


def _is_lost(word: str, written: str, target: str) -> bool:
    """Return whether a translation lacks a word with digits, however its digits are grouped."""
    plain, among = (_BETWEEN_DIGITS.sub("", text) for text in (word, written))
    if re.search(rf"(?<![0-9]){re.escape(plain)}(?![0-9])", among):
        return False
    is_short = plain.isdigit() and len(plain) <= 2
    words = _NUMBER_WORDS.get(target)
    return not (is_short and (words is None or words.search(written.lower())))


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
