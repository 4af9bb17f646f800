"""The case of sentences that are written in capitals, without capitals or as a heading."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence

from regard.tasks.translate.people import capitalized_name
from regard.text import Vocabulary
from regard.text.traced import TracedText

__all__ = ["CAPITALS", "LOWER_START", "Casing", "folded", "given_back", "started"]

CAPITALS, LOWER_START = "capitals", "lower start"

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_ACRONYMS_TEXT = (
    "AI AIDS AM ATM BBC BC CD CEO CIA CNN COVID CPU DIY DJ DNA DVD EU FAQ FBI GDP GMT GPS GPU HIV HTML HTTP "
    "ID IQ IT KGB LED MBA NASA NATO NBA NFL NGO NYC OK PC PDF PIN PM PS RAM RNA RSVP SMS SUV TNT TV UFO UK UN "
    "UNESCO UNICEF URL US USA USB USSR VIP WC WHO WIFI WTO WWW"
)
_ACRONYMS = frozenset(_ACRONYMS_TEXT.split())
# In a sentence of capitals these are more often words than acronyms.
_WORDS_TOO_TEXT = "AM IT US WHO OK AI PIN PS LED RAM"
_WORDS_TOO = frozenset(_WORDS_TOO_TEXT.split())
# Words that headings leave in lower case.
_SMALL_TEXT = (
    "a an the and or but nor of in on at to by for from with as is vs via de la le les du des et un une en au "
    "aux"
)
_SMALL = frozenset(_SMALL_TEXT.split())

# In a vocabulary of copyable words, the space before a capital is a token of its own. A word with a capital has the
# same token at the start of a sentence and inside, so a common word at the start looks like a name. The number of that
# token therefore counts as this many times as large. Of 782,000 words inside English sentences of Tatoeba, 0.5 % are
# then written in the wrong case.
_APART = 2.5


class Casing:
    """Finds how a word is usually written, by the tokens that a vocabulary has for it.

    Tokens were made of frequent words, and those of more frequent words have smaller numbers.
    """

    def __init__(self, vocabulary: Vocabulary):
        self.vocabulary = vocabulary
        self._cost = functools.lru_cache(maxsize=10_000)(self._cost_of)
        self._before = len(vocabulary.encode("a"))

    def _cost_of(self, word: str) -> tuple[int, int, int]:
        """Return the number of unknown tokens of a word, the number of its tokens, and the number of a single one."""
        ids = self.vocabulary.encode(f"a {word}")[self._before :]
        is_apart = len(ids) > 1 and self.vocabulary.decode(ids[:1]) == " "
        ids = ids[1:] if is_apart else ids
        unknown = (
            sum(number == self.vocabulary.unk for number in ids) if self.vocabulary.unk is not None else 0
        )
        rank = ids[0] if len(ids) == 1 else 0
        return unknown, len(ids), int(_APART * rank) if is_apart else rank

    def usual(self, word: str) -> str:
        """Return a word in lower case or with a capital, whichever the vocabulary knows better."""
        lower = word.lower()
        # Every letter is a token, whether it is a word or not.
        if len(lower) == 1:
            return lower
        return min((lower, _capitalized(lower)), key=self._cost)

    def is_common(self, word: str) -> bool:
        """Return whether a word in lower case is a token, and is usually written so."""
        return self._cost(word.lower())[:2] == (0, 1) and self.usual(word).islower()

    def is_rare(self, word: str) -> bool:
        """Return whether a word with a capital has three tokens or more, so that it was rare in training."""
        return self._cost(word)[1] > 2

    def is_unknown(self, word: str) -> bool:
        """Return whether a word is no token, neither as it is written nor in lower case or in the singular."""
        return min(self._cost(form)[1] for form in (word, word.lower(), word.removesuffix("s"))) > 1


def folded(
    text: TracedText, casing: Casing, language: str, *, fixed: Sequence[str] = ()
) -> tuple[TracedText, str]:
    """Return a sentence in the case of a normal sentence, and what its case was if that can be given back.

    A sentence in capitals, a heading with capitals and a sentence without capitals become normal ones. Acronyms, codes
    such as "AB12" and the names of ``fixed`` stay.
    """
    kept = {word for name in fixed for word in _WORD.findall(name)}
    words = [word for word in _WORD.findall(text.text) if word not in kept]
    if casing.vocabulary.lowercase or not words:
        return text, CAPITALS if _is_capitals(words, casing) else ""

    def replaced(by: Callable[[re.Match[str]], str]) -> TracedText:
        return text.replaced(_WORD, lambda m: m.group() if m.group() in kept or _is_code(m) else by(m))

    if _is_capitals(words, casing):
        return started(replaced(lambda m: _from_capitals(m, casing, language))), CAPITALS
    first = _WORD.search(text.text)
    starts_lower = first is not None and not first.start() and first.group().islower()
    if all(word == word.lower() for word in words):
        text = replaced(lambda m: _pronoun(casing.usual(m.group()), language))
    elif _is_title(text.text, words, casing):
        text = started(replaced(lambda m: _from_title(m, casing)))
    else:
        text = replaced(lambda m: _pronoun(_from_emphasis(m, casing), language))
    return (started(text), LOWER_START) if starts_lower else (text, "")


def given_back(
    text: TracedText, case: str, *, german: bool = False, casing: Casing | None = None
) -> TracedText:
    """Return a translation in the case of its source.

    ``german`` is for languages with capitals for nouns, of which only words stay in lower case that ``casing`` knows.
    """
    if case == CAPITALS:
        return text.replaced(r"[^\W\d_]+", lambda match: match.group().upper())
    if case != LOWER_START:
        return text
    first = _WORD.search(text.text)
    if first is None or (german and casing is not None and not casing.usual(first.group()).islower()):
        return text
    start = first.start()
    small = text.text[start].lower()
    if len(small) != 1:
        return text
    return TracedText(text.text[:start] + small + text.text[start + 1 :], text.spans)


def _capitalized(word: str) -> str:
    return word[:1].upper() + word[1:]


def started(text: TracedText) -> TracedText:
    """Return the text with a capital at its start, unless its first word has one inside."""
    first = _WORD.search(text.text)
    if first is None or not first.group().islower():
        return text
    start = first.start()
    large = text.text[start].upper()
    if len(large) != 1:
        return text
    return TracedText(text.text[:start] + large + text.text[start + 1 :], text.spans)


def _is_code(match: re.Match[str]) -> bool:
    """Return whether a word is joined to a digit, as in "AB12", "EX-5507" and "843-AT"."""
    text, start, end = match.string, match.start(), match.end()
    return bool(
        re.match(r"[/-]?\d", text[end : end + 2]) or re.fullmatch(r"\d[/-]", text[max(0, start - 2) : start])
    )


def _pronoun(word: str, language: str) -> str:
    return "I" + word[1:] if language == "en" and re.fullmatch(r"i(['’](m|ve|ll|d|s))?", word) else word


def _is_capitals(words: list[str], casing: Casing) -> bool:
    """Return whether a sentence is in capitals, as opposed to one of acronyms or initials."""
    letters = "".join(words)
    large = sum(letter.isupper() for letter in letters)
    if large < 2 or large < 0.8 * sum(letter.isupper() or letter.islower() for letter in letters):
        return False
    several = [word for word in words if len(word) > 1 and word.isupper()]
    if len(several) == 1:
        return several[0] not in _ACRONYMS - _WORDS_TOO and (
            len(several[0]) > 5 or casing.is_common(several[0]) or len(words) > 2
        )
    return any(word not in _ACRONYMS for word in several)


def _from_capitals(match: re.Match[str], casing: Casing, language: str) -> str:
    word = match.group()
    if word in _ACRONYMS - _WORDS_TOO or not word.isupper():
        return word
    if language == "en" and (name := capitalized_name(match, casing.is_common)):
        return name
    return _pronoun(casing.usual(word), language)


def _from_emphasis(match: re.Match[str], casing: Casing) -> str:
    """Return a word in capitals within a normal sentence in its usual case, if it is a word and no acronym or code."""
    word = match.group()
    after_digit = match.string[max(0, match.start() - 1) : match.start()].isdigit()
    # The first part of a code, as in "flight QU 4310".
    before_number = len(word) < 4 and re.match(r" \d{3}", match.string[match.end() :])
    if len(word) == 1 or not word.isupper() or after_digit or before_number:
        return word
    return word if word in _ACRONYMS or not casing.is_common(word) else word.lower()


def _is_title(text: str, words: list[str], casing: Casing) -> bool:
    """Return whether a text is a heading in which all words but small ones have capitals."""
    if len(words) < 3 or re.search(r"[.!?…,;:]", text.rstrip(".!?…")):
        return False
    large = [word for word in words if word.lower() not in _SMALL]
    if len(large) < 2 or not all(word[:1].isupper() for word in large):
        return False
    # A name such as "Cidihan Liuen" is no heading.
    return 2 * sum(casing.is_common(word) for word in large[1:]) >= len(large[1:])


def _from_title(match: re.Match[str], casing: Casing) -> str:
    word = match.group()
    if not match.start() or word.isupper() or word[1:] != word[1:].lower():
        return _from_emphasis(match, casing)
    return casing.usual(word)
