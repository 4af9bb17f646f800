"""The text that tokens stand for, and the labels that are made of it.

Captures, word pieces, plots, the terminal and the viewer use this module, so that a token reads alike in all of them.
"""

from __future__ import annotations

import codecs
import functools
import itertools
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence

__all__ = [
    "SPECIAL",
    "byte_of_letters",
    "byte_texts",
    "columns_of",
    "graphemes",
    "label_of",
    "shortened",
    "token_texts",
    "visible",
]

SPECIAL = re.compile(r"\[[A-Za-z][^\[\]]*\]|<(?!0x)[^<>\s]+>|<\|.*\|>")
"""Matches special tokens, such as [CLS], </s> and <|endoftext|>. tokens.js has the same rule."""

# The letters of byte-level BPE for white space, and the sign of SentencePiece for a space.
_BYTE_MARKS = {"\u0120": " ", "\u010a": "\n", "\u0109": "\t", "\u010d": "\r"}
_TRANSLATED = str.maketrans(_BYTE_MARKS)
_LETTERS_OF_MARKS = "".join(_BYTE_MARKS)
_SENTENCE_PIECE = "\u2581"
# A byte of a character that a SentencePiece vocabulary does not have.
_BYTE = re.compile("<0x([0-9A-Fa-f]{2})>")
# A token that is only a part of a character.
_PART = "\ufffd"
# The bytes of a character after its first.
_CONTINUATIONS = bytes(range(0x80, 0xC0))
# Words have fewer tokens than this on average, or else they are whole words, in which a mark is a letter.
_MOST_PIECES = 4

_SPACE_SIGN = "\u2423"
_SIGNS = {"\n": "\u23ce", "\t": "\u21e5"}
_SPACES = re.compile(r"(?<!\S) | (?!\S)")
_ELLIPSIS = "\u2026"
# The longest label of a drawing, in columns of a terminal.
LONGEST_LABEL = 40
# Unicode's stream-safe text has at most 30 marks after a character.
_MOST_MARKS = 31
_JOINER, _NON_JOINER = "\u200d", "\u200c"


def token_texts(tokens: Iterable[str]) -> list[str]:
    r"""Return the text that each token of a sequence stands for, with spaces, line breaks and whole characters.

    The marks of byte-level BPE (``Ġcat``, ``Ċ``, ``ä½ł``) and of SentencePiece (``▁cat``, ``<0x0A>``) are replaced by
    what they stand for. Whether a Ġ is a mark or a letter is decided from the whole sequence. A character that stands
    in several tokens is the text of the last of them, and the others are U+FFFD. Other tokens stay as they are.

    >>> token_texts(["The", "Ġcat", "Ċ"]), token_texts(["▁The", "▁cat", "<0x0A>"])
    (['The', ' cat', '\n'], [' The', ' cat', '\n'])
    >>> token_texts(["Fuq", "il-", "bandiera", "Ġgant", "huwa", "kbir"])[3]
    'Ġgant'
    """
    found = list(tokens)
    plain = [token for token in found if not SPECIAL.fullmatch(token)]
    # No tokenizer with marks has spaces in its tokens.
    if any(" " in token for token in plain):
        return found
    text = _text_of_bytes(plain)
    if _has_byte_marks(found, text):
        if text is not None:
            return byte_texts(found)
        return [token if SPECIAL.fullmatch(token) else token.translate(_TRANSLATED) for token in found]
    if any(token.startswith(_SENTENCE_PIECE) for token in plain):
        found = [
            token if SPECIAL.fullmatch(token) else token.replace(_SENTENCE_PIECE, " ") for token in found
        ]
    return _joined_bytes(found, _named_byte)


def byte_texts(tokens: Iterable[str]) -> list[str]:
    r"""Decode the tokens of a byte-level tokenizer, in which a part of a character becomes U+FFFD.

    A character that stands in several tokens is shown with the last of them.

    >>> byte_texts(["ä½ł", "ĠcafÃ©", "ä½", "ł"])
    ['你', ' café', '\ufffd', '你']
    """
    return _joined_bytes(tokens, _bytes_of)


@functools.cache
def byte_of_letters() -> dict[str, int]:
    """Return a dict from each of the 256 characters in tokens of byte-level BPE to the byte that it stands for.

    >>> byte_of_letters()["Ġ"], byte_of_letters()["a"]
    (32, 97)
    """
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [value for value in range(256) if value not in visible]
    return {chr(value): value for value in visible} | {chr(256 + n): value for n, value in enumerate(hidden)}


def _bytes_of(token: str) -> bytes | None:
    """Return the bytes of a token of byte-level BPE, or None for a special token that is already text."""
    letters = byte_of_letters()
    return bytes(letters[letter] for letter in token) if all(map(letters.__contains__, token)) else None


def _named_byte(token: str) -> bytes | None:
    found = _BYTE.fullmatch(token)
    return None if found is None else bytes([int(found[1], 16)])


def _joined_bytes(tokens: Iterable[str], bytes_of: Callable[[str], bytes | None]) -> list[str]:
    """Return the text of tokens that stand for bytes. ``bytes_of`` returns None for a token that is text."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    found = []
    for token in tokens:
        data = bytes_of(token)
        if data is None:
            decoder.reset()
            found.append(token)
        else:
            text = decoder.decode(data)
            found.append(text + _PART if decoder.getstate()[0] else text)
    return found


def _text_of_bytes(tokens: Sequence[str]) -> str | None:
    """Return the text of tokens of byte-level BPE, or None if their letters are not the bytes of a text.

    The first and the last character may be incomplete.
    """
    parts = [_bytes_of(token) for token in tokens]
    if None in parts:
        return None
    data = b"".join(part for part in parts if part is not None).lstrip(_CONTINUATIONS)
    try:
        text = codecs.getincrementaldecoder("utf-8")("strict").decode(data)
    except UnicodeDecodeError:
        return None
    return None if any(unicodedata.category(c) == "Cc" and c not in "\t\n\r" for c in text) else text


def _has_byte_marks(tokens: Sequence[str], text: str | None) -> bool:
    """Return whether tokens are spelled in the letters of byte-level BPE.

    ``text`` is what their bytes would mean. Ġ and Ċ are letters of Maltese too. They are marks if a token has nothing
    else, if bytes join to characters beyond ASCII, or if enough of the places where words may meet are marked. Without
    ``text``, as of tokens that were decoded but for their marks, these are most of the places.
    """
    beyond_ascii = sum(not c.isascii() for c in text or "")
    marks = sum(token.count(mark) for token in tokens for mark in _BYTE_MARKS)
    if not marks and beyond_ascii < 2:
        return False
    if beyond_ascii or any(token and not token.strip(_LETTERS_OF_MARKS) for token in tokens):
        return True
    marked = unmarked = 0
    for before, after in itertools.pairwise(tokens):
        end, start = before.rstrip(_LETTERS_OF_MARKS), after.lstrip(_LETTERS_OF_MARKS)
        if _is_of_word(end[-1:]) and _is_of_word(start[:1]):
            has_mark = end != before or start != after
            marked, unmarked = marked + has_mark, unmarked + (not has_mark)
    most = 1 if text is None else _MOST_PIECES - 1
    return not unmarked or marked * most > unmarked


def _is_of_word(letter: str) -> bool:
    """Return whether a character is a digit or a letter of a script that has two cases, which all have spaces."""
    return letter.isdigit() or letter.lower() != letter.upper()


def visible(text: str) -> str:
    r"""Return a text with signs for spaces that are not between two words, line breaks and invisible characters.

    text.js has the same rule.

    >>> visible(" the cat"), visible("\tif  a\n"), visible(""), visible("a\x1b")
    ('␣the cat', '⇥if␣␣a⏎', '∅', 'a\\x1b')
    """
    if not text:
        return "\u2205"
    spaced = _SPACES.sub(_SPACE_SIGN, text)
    return spaced if spaced.isprintable() else "".join(_shown(cluster) for cluster in graphemes(spaced))


def _shown(cluster: str) -> str:
    joined = _joins(cluster)
    return "".join(
        _SIGNS.get(c) or (c if c.isprintable() or (joined and n) else c.encode("unicode_escape").decode())
        for n, c in enumerate(cluster)
    )


def _joins(cluster: str) -> bool:
    """Return whether the invisible characters after the first of a cluster change how it looks."""
    return not cluster[0].isascii() and cluster[0].isprintable() and not cluster.endswith(_JOINER)


def graphemes(text: str) -> Iterator[str]:
    """Yield the characters of a text as people see them, with all code points that make one of them.

    Combining marks, joined emoji, flags, skin tones and Korean letters stay together.

    >>> [len(cluster) for cluster in graphemes("e\u0301👨\u200d👩\u200d👧🇫🇷👍🏽a")]
    [2, 5, 2, 2, 1]
    """
    start = 0
    for place in range(1, len(text) + 1):
        if place == len(text) or _begins(text, start, place):
            yield text[start:place]
            start = place


def _begins(text: str, start: int, place: int) -> bool:
    """Return whether a new character begins at ``place``, after one that began at ``start``."""
    sign, before = text[place], text[place - 1]
    if sign.isascii():
        return not (before == "\r" and sign == "\n")
    code = ord(sign)
    if 0x1F1E6 <= code <= 0x1F1FF:  # two of these letters are a flag
        return not (place - start == 1 and 0x1F1E6 <= ord(before) <= 0x1F1FF)
    if before == _JOINER and place - start > 1:
        return False
    extends = (
        unicodedata.category(sign).startswith("M")
        or sign in (_JOINER, _NON_JOINER)
        or 0x1F3FB <= code <= 0x1F3FF  # skin tones
        or 0xE0020 <= code <= 0xE007F  # tags of flags such as that of Scotland
        or 0x1160 <= code <= 0x11FF  # vowels and final consonants of Korean
    )
    return not extends or place - start >= _MOST_MARKS


def columns_of(text: str) -> int:
    """Return the number of columns of a text in a terminal, where East Asian characters and emoji take two.

    >>> columns_of("cat"), columns_of("猫"), columns_of("👨\u200d👩\u200d👧")
    (3, 2, 2)
    """
    if text.isascii():
        return len(text)
    return sum(_columns(cluster) for cluster in graphemes(text))


def _columns(cluster: str) -> int:
    if "\ufe0f" in cluster or any(unicodedata.east_asian_width(c) in "WF" for c in cluster):
        return 2
    return 2 if len(cluster) > 1 and 0x1F1E6 <= ord(cluster[0]) <= 0x1F1FF else 1


def shortened(text: str, columns: int, end: str = _ELLIPSIS) -> str:
    """Return a text of at most so many columns, which ends in ``end`` if it was cut.

    >>> shortened("a long label", 7), shortened("👍🏽👍🏽👍🏽", 5)
    ('a long…', '👍🏽👍🏽…')
    """
    kept: list[tuple[str, int]] = []
    used = 0
    for cluster in graphemes(text):
        wide = _columns(cluster)
        if used + wide > columns:
            while kept and used > columns - len(end):
                used -= kept.pop()[1]
            return "".join(part for part, _ in kept).rstrip() + end
        kept.append((cluster, wide))
        used += wide
    return text


def label_of(text: str) -> str:
    """Return the label of a drawing for a text, visible and at most LONGEST_LABEL columns long."""
    # A label needs no more of a very long text, each of whose columns has at most _MOST_MARKS characters.
    return shortened(visible(text[: LONGEST_LABEL * _MOST_MARKS]), LONGEST_LABEL)
