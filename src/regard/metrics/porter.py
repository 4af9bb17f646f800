"""The stemmer of Porter (1980), with the changes of NLTK that ``rouge-score`` uses.

A stemmer cuts the endings off English words, so that "summaries" and "summary" are equal. Each step replaces at most
one ending, if the stem before the ending is long enough. The measure of a stem is its number of changes from vowels to
consonants.
"""

from __future__ import annotations

import functools
import itertools

__all__ = ["stem"]

# Words with a stem that the steps do not give, after the stem.
_FORMS = (
    "sky sky skies, die dying, lie lying, tie tying, news news, inning inning innings, outing outing outings"
)
_FORMS += ", canning canning cannings, howe howe, proceed proceed, exceed exceed, succeed succeed"
_IRREGULAR = {form: words[0] for words in map(str.split, _FORMS.split(",")) for form in words[1:]}

# The endings of a step in the order in which they are tried. The first that a word has decides.
_STEP_2 = (
    *(("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize")),
    *(("bli", "ble"), ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous")),
    *(("ization", "ize"), ("ation", "ate"), ("ator", "ate"), ("alism", "al"), ("iveness", "ive")),
    *(("fulness", "ful"), ("ousness", "ous"), ("aliti", "al"), ("iviti", "ive"), ("biliti", "ble")),
    ("fulli", "ful"),
)
_STEP_3 = (
    *(("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic")),
    *(("ful", ""), ("ness", "")),
)
_STEP_4 = (
    *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou"),
    *("ism", "ate", "iti", "ous", "ive", "ize"),
)


@functools.lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """Return the stem of a word in lower case.

    >>> [stem(word) for word in ("summaries", "attention", "hopping", "relational", "sky")]
    ['summari', 'attent', 'hop', 'relat', 'sky']
    """
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) <= 2:
        return word
    word = _past_and_progressive(_plural(word))
    if word.endswith("y") and len(word) > 2 and _is_consonant(word, len(word) - 2):
        word = word[:-1] + "i"
    word = _replaced(_double_suffix(word), _STEP_3)
    return _without_final_letter(_without_suffix(word))


def _is_consonant(word: str, place: int) -> bool:
    """Return whether a letter is a consonant. A "y" is one at the start and after a vowel."""
    if word[place] == "y":
        return place == 0 or not _is_consonant(word, place - 1)
    return word[place] not in "aeiou"


def _kinds(word: str) -> list[bool]:
    """Return for each letter whether it is a consonant."""
    found: list[bool] = []
    for letter in word:
        found.append(not (found and found[-1]) if letter == "y" else letter not in "aeiou")
    return found


def _measure(word: str) -> int:
    """Return the number of vowels before a consonant."""
    kinds = _kinds(word)
    return sum(not first and second for first, second in itertools.pairwise(kinds))


def _ends_short(word: str) -> bool:
    """Return whether a word ends in consonant, vowel and consonant (not w, x, y), or is a vowel and a consonant."""
    kinds = _kinds(word)
    if len(word) == 2:
        return kinds == [False, True]
    return kinds[-3:] == [True, False, True] and word[-1] not in "wxy"


def _plural(word: str) -> str:
    if word.endswith("ies"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("sses"):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _past_and_progressive(word: str) -> str:
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for suffix in ("ed", "ing"):
        start = word.removesuffix(suffix)
        if start != word and not all(_kinds(start)):
            return _completed(start)
    return word


def _completed(start: str) -> str:
    """Return what is left of a word without "ed" or "ing", with the letters that it had before them."""
    if start.endswith(("at", "bl", "iz")):
        return start + "e"
    if len(start) > 1 and start[-1] == start[-2] and _is_consonant(start, len(start) - 1):
        return start if start[-1] in "lsz" else start[:-1]
    return start + "e" if _measure(start) == 1 and _ends_short(start) else start


def _double_suffix(word: str) -> str:
    if word.endswith("alli") and _measure(word[:-4]) > 0:
        return _double_suffix(word[:-2])
    if word.endswith("logi"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    return _replaced(word, _STEP_2)


def _replaced(word: str, endings: tuple[tuple[str, str], ...]) -> str:
    """Replace the first of the endings that a word has, if the stem before it has a measure above 0."""
    for old, new in endings:
        if word.endswith(old):
            start = word[: len(word) - len(old)]
            return start + new if _measure(start) > 0 else word
    return word


def _without_suffix(word: str) -> str:
    for suffix in _STEP_4:
        if word.endswith(suffix):
            start = word[: len(word) - len(suffix)]
            kept = _measure(start) <= 1 or (suffix == "ion" and start[-1] not in "st")
            return word if kept else start
    return word


def _without_final_letter(word: str) -> str:
    if word.endswith("e"):
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _ends_short(word[:-1])):
            word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word
