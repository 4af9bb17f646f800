"""Replacement of names and numbers in training pairs, so that a model learns to copy them.

A name or number is replaced on both sides if it stands identically on both, or if it is a frequent name with its
Chinese form. French sentences stay grammatical, because "de" and "que" are elided before a vowel, and a name with an
article or an ordinal number is left unchanged.
"""

from __future__ import annotations

import re
from random import Random

from regard.corpus.particulars import elided, names, numbers

__all__ = ["varied"]

# Frequent names of Tatoeba with their gender and their Chinese forms.
_KNOWN: dict[str, tuple[str | None, tuple[str, ...]]] = {
    "Tom": ("m", ("汤姆", "湯姆")),
    "Mary": ("f", ("Marie", "玛丽", "瑪麗", "玛莉")),
    "John": ("m", ("约翰", "約翰")),
    "Mike": ("m", ("迈克", "麦克")),
    "Bob": ("m", ("鲍勃",)),
    "Bill": ("m", ("比尔",)),
    "Jack": ("m", ("杰克",)),
    "Jim": ("m", ("吉姆",)),
    "Ken": ("m", ("肯",)),
    "Jane": ("f", ("珍", "简")),
    "Nancy": ("f", ("南希",)),
    "Lucy": ("f", ("露西",)),
    "Emily": ("f", ("艾米丽", "埃米莉")),
    "Alice": ("f", ("爱丽丝",)),
    "Boston": (None, ("波士顿",)),
}
_NAME = re.compile(r"(?<![\w'’-])[A-Z][a-zà-ÿ]+(?![\w-])")
_NUMBER = re.compile(r"(?<![\w.,:/-])\d+(?:[.,:]\d+)*(?![\w/-])")
# A word before a French name. Before an article a name is that of a country, a thing or a family.
_BEFORE = re.compile(r"([\w-]+)(['’]?)\s*$")
_ARTICLES = frozenset(
    ["le", "la", "les", "l", "au", "aux", "en", "du", "des", "un", "une", "ce", "cette", "cet"]
)
_ELIDED = frozenset(["de", "que", "lorsque", "puisque", "quoique", "jusque", "parce"])
_TWO_SENTENCES = re.compile(r"[.!?]\s+\S")


def varied(random: Random, source: str, target: str, *, french: bool = False) -> tuple[str, str] | None:
    """Return a pair with new names and numbers, or None if there is nothing to replace.

    ``french`` is whether the target is French.

    >>> varied(Random(1), "I am sure that Tom is 30.", "Je suis sûr que Tom a 30 ans.", french=True)
    ('I am sure that Olabasola is 63.', "Je suis sûr qu'Olabasola a 63 ans.")
    """
    changed = False
    for old in _names_of(source):
        gender, forms = _KNOWN.get(old, (None, ()))
        same = next((form for form in (old, *forms) if _once(target, form)), None)
        if same is None or source.count(old) != 1:
            continue
        new = _new_name(random, gender)
        replaced = _in_target(target, same, new, french=french)
        if replaced is not None:
            source, target, changed = _replace(source, old, new), replaced, True
    for old in _NUMBER.findall(source):
        # Before 0 and 1 a noun is singular.
        if old in ("0", "1") or len(_NUMBER.findall(source)) != len(set(_NUMBER.findall(source))):
            continue
        if _NUMBER.findall(target).count(old) == 1 and source.count(old) == target.count(old) == 1:
            new = _new_number(random, old)
            source, target, changed = source.replace(old, new), target.replace(old, new), True
    return (source, target) if changed else None


def _names_of(text: str) -> list[str]:
    """Return the frequent names of a source, and its capitalised words that do not begin a sentence."""
    starts = {0, *(match.end() - 1 for match in _TWO_SENTENCES.finditer(text))}
    found = []
    for match in _NAME.finditer(text):
        begins = match.start() in starts or text[match.start() - 1] in '"“«('
        if not begins or match.group() in _KNOWN:
            found.append(match.group())
    return found


def _once(text: str, name: str) -> bool:
    if text.count(name) != 1:
        return False
    return not name.isascii() or re.search(rf"(?<![\w-]){name}(?![\w-])", text) is not None


def _new_name(random: Random, gender: str | None) -> str:
    draw = random.random()
    if gender is None and draw < 0.5:
        return names.place_name(random, "train")
    if draw < 0.8:
        return names.first_name(random, "train", gender)
    return names.full_name(random, "train", gender)


def _new_number(random: Random, old: str) -> str:
    """Return another number that is written in the same form."""
    if re.fullmatch(r"\d{1,2}:\d\d", old):
        return numbers.value(random, "time", "train")
    if re.fullmatch(r"1[4-9]\d\d|20\d\d", old):
        return numbers.value(random, "year", "train")
    new = numbers.number_like(random, old, "train")
    while new in ("0", "1"):
        new = numbers.number_like(random, old, "train")
    return new


def _replace(text: str, old: str, new: str) -> str:
    return re.sub(rf"(?<![\w-]){old}(?![\w-])", lambda _: new, text, count=1)


def _in_target(text: str, old: str, new: str, *, french: bool) -> str | None:
    """Return the target with the new name, or None where the grammar might become wrong."""
    if not old.isascii():
        return text.replace(old, new)
    place = re.search(rf"(?<![\w-]){old}(?![\w-])", text)
    if place is None:
        return None
    before, after = text[: place.start()], text[place.end() :]
    word = _BEFORE.search(before) if french else None
    if word is None:
        return before + new + after
    said, apostrophe = word.group(1), word.group(2)
    full = {"d": "de", "qu": "que"}.get(said.lower(), "") if apostrophe else said.lower()
    if said.lower() in _ARTICLES or (apostrophe and not full):
        return None
    if full in _ELIDED:
        start = said if not apostrophe else said + "e"
        before = before[: word.start()] + elided(start, new)
    return before + new + after
