"""Source texts without the tabs and the endless words that no model has seen in training."""

from __future__ import annotations

import re
from collections.abc import Iterator

from regard.text._words import HAN_RANGES

__all__ = ["LONGEST_WORD", "is_endless", "spaced", "split_at_endless_words"]

# Characters of a word that is still translated. Longer ones are data (base64, a key, one letter held down), and
# decoding them piece by piece would take minutes.
LONGEST_WORD = 1000

_SPACES = str.maketrans(dict.fromkeys("\t\n\v\f\r\x1c\x1d\x1e\x1f\x85\u2028\u2029", " "))
_WORD = re.compile(rf"[^\s{HAN_RANGES}]+")  # Han characters are written without spaces: each is a word


def spaced(text: str) -> str:
    """The text with a space in place of each tab or line separator, which no model has seen in training.

    Every character keeps its place.

    >>> spaced("Good morning.\\tThe cat sleeps.")
    'Good morning. The cat sleeps.'
    """
    return text.translate(_SPACES)


def is_endless(text: str) -> bool:
    """Whether a text is one word of more than :data:`LONGEST_WORD` characters."""
    return len(text) > LONGEST_WORD and _WORD.fullmatch(text) is not None


def split_at_endless_words(text: str) -> Iterator[str]:
    """Split a text so that each word of more than :data:`LONGEST_WORD` characters is a part of its own.

    >>> [len(part) for part in split_at_endless_words("see " + "x" * 2000 + " below")]
    [3, 2000, 5]
    """
    begin = 0
    for word in _WORD.finditer(text) if len(text) > LONGEST_WORD else ():
        if word.end() - word.start() > LONGEST_WORD:
            if before := text[begin : word.start()].strip():
                yield before
            yield word.group()
            begin = word.end()
    rest = text[begin:] if not begin else text[begin:].strip()
    if rest or not begin:
        yield rest
