"""Features of a token's spelling, and of its occurrence in another text.

The tokens of a question are compared with its context, and those of a context with the question. The form of a token
is a number. Its lowest 12 bits are yes/no features, and the bits above are a hash of the token's last three letters,
from 0 to 1023.
"""

from __future__ import annotations

import itertools
import re
import zlib
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["ENDINGS", "FLAGS", "FORMS", "Words", "token_forms"]

FLAGS = 12  # yes/no features
# The number of hash values for the last letters of a token.
ENDINGS = 1024
FORMS = ENDINGS << FLAGS

# The number of tokens on each side in which words of the other text are counted.
_NEAR = 12
# Question words and other English words that say little about where an answer is.
_FUNCTION_WORDS = (
    "a an the of in on at to by for from with as and or but not no is are was were be been being am do does did has "
    "have had will would can could may might must shall should it its they them their he him his she her we us our "
    "you your i my me this that these those there here what which who whom whose when where why how many much long "
    "if than then so such also into about over after before during between s"
)
_SAYS_LITTLE = frozenset(_FUNCTION_WORDS.split())
_LETTERS_AND_DIGITS = re.compile(r"[^\W_]")


class Words(NamedTuple):
    """The words of a text that the tokens of another one are compared with, in lower case.

    ``all`` are all its words, ``stems`` the stems of those that are not function words, and ``pairs`` its pairs of
    neighbouring words.
    """

    all: frozenset[str]
    stems: frozenset[str]
    pairs: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, tokens: Sequence[str]) -> Words:
        """Return the words of a text that is given as its tokens."""
        words = [token.strip().lower() for token in tokens]
        stems = frozenset(stem_of(word) for word in words if is_content(word))
        return cls(frozenset(words), stems, frozenset(itertools.pairwise(words)))


def token_forms(tokens: Sequence[str], others: Words) -> list[int]:
    """Return the form of each token of a text, where ``others`` are the words of the text that it is compared with.

    The features are, from the lowest bit on, whether the word is in the other text, is there and is no function word,
    has its stem there, is there beside the same neighbour, begins with a capital, is in capitals, has a digit, is a
    number of four digits, has neither letters nor digits, and whether 1, 2 or 4 stems of the other text are near.

    >>> others = Words.of(["Who", "painted", "houses", "?"])
    >>> [form & 7 for form in token_forms(["Ann", "paints", "houses", "."], others)]
    [0, 4, 7, 0]
    """
    texts = [token.strip() for token in tokens]
    words = [text.lower() for text in texts]
    stems = [stem_of(word) if is_content(word) else "" for word in words]
    matched = [stem if stem in others.stems else "" for stem in stems]
    forms = []
    for place, (text, word) in enumerate(zip(texts, words, strict=True)):
        near = len({stem for stem in matched[max(0, place - _NEAR) : place + _NEAR + 1] if stem})
        before = words[place - 1] if place else ""
        after = words[place + 1] if place + 1 < len(words) else ""
        flags = (
            word in others.all,
            word in others.all and bool(stems[place]),
            bool(matched[place]),
            (before, word) in others.pairs or (word, after) in others.pairs,
            text[:1].isupper(),
            len(text) > 1 and text.isupper(),
            any(letter.isdigit() for letter in text),
            len(text) == 4 and text.isdigit(),
            _LETTERS_AND_DIGITS.search(text) is None,
            near >= 1,
            near >= 2,
            near >= 4,
        )
        bits = sum(flag << bit for bit, flag in enumerate(flags))
        forms.append(bits | _ending(word) << FLAGS)
    return forms


def is_content(word: str) -> bool:
    """Return whether a word in lower case has letters or digits and is not a function word of English."""
    return word not in _SAYS_LITTLE and _LETTERS_AND_DIGITS.search(word) is not None


def stem_of(word: str) -> str:
    """Return a word in lower case without one ending of English inflection, if three letters or more are left.

    >>> [stem_of(word) for word in ("painted", "paints", "painting", "cities", "is")]
    ['paint', 'paint', 'paint', 'citi', 'is']
    """
    for ending in ("ing", "ies", "ed", "es", "s", "ly"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: len(word) - len(ending)] + ("i" if ending == "ies" else "")
    return word


def _ending(word: str) -> int:
    """Return a hash from 1 to 1023 of the last three letters of a word, or 0 if it has no letters."""
    if not any(letter.isalpha() for letter in word):
        return 0
    return zlib.crc32(word[-3:].encode(errors="replace")) % (ENDINGS - 1) + 1
