"""Cutting of long texts into pieces that a model can translate."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator

from regard.text import Vocabulary
from regard.text.words_and_characters import HAN_RANGES

__all__ = ["LONGEST_WORD", "cut_spans", "cut_text", "is_endless", "spaced", "split_at_endless_words"]

# The most characters of a word that is translated. Longer words are data (base64, a key), and decoding them piece by
# piece would take minutes.
LONGEST_WORD = 1000

_SPACES = str.maketrans(dict.fromkeys("\t\n\v\f\r\x1c\x1d\x1e\x1f\x85\u2028\u2029", " "))
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])")
# Han characters are written without spaces: each is a word.
_WORD = re.compile(rf"[^\s{HAN_RANGES}]+")


def spaced(text: str) -> str:
    """Return the text with a space in place of each tab or line separator, which are not in the training data.

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


def cut_text(text: str, vocabulary: Vocabulary, longest: int, space: str) -> list[str]:
    """Cut a text into pieces of at most ``longest`` tokens, between sentences where that is enough.

    ``space`` is written between two sentences. A word of more than :data:`LONGEST_WORD` characters is a piece of its
    own.
    """
    parts = split_at_endless_words(text)
    return [piece for part in parts for piece in _cut_words(part, vocabulary, longest, space)]


def _cut_words(text: str, vocabulary: Vocabulary, longest: int, space: str) -> list[str]:
    if is_endless(text):
        return [text]
    # No vocabulary makes more tokens than there are bytes, so most texts need not be encoded.
    if len(text.encode()) <= longest or len(vocabulary.spans(text)) <= longest:
        return [text]
    pieces, piece = [], ""
    for sentence in _SENTENCE_END.split(text):
        for part in _cut_sentence(sentence, vocabulary, longest):
            longer = f"{piece}{space}{part}".strip()
            if piece and len(vocabulary.spans(longer)) > longest:
                pieces.append(piece)
                longer = part
            piece = longer
    return [*pieces, piece]


def _cut_sentence(sentence: str, vocabulary: Vocabulary, longest: int) -> list[str]:
    """Cut a sentence that is too long by itself between words."""
    return [sentence[start:end].strip() for start, end in cut_spans(sentence, vocabulary, longest)]


def cut_spans(sentence: str, vocabulary: Vocabulary, longest: int) -> list[tuple[int, int]]:
    """Return the spans of pieces of a sentence that have at most ``longest`` tokens, cut between words."""
    if len(sentence.encode()) <= longest:
        return [(0, len(sentence))]
    starts = [start for start, _ in vocabulary.spans(sentence)]
    spans, begin, token = [], 0, 0
    while len(starts) - token > longest:
        cut = starts[token + longest]
        space = sentence.rfind(" ", begin, cut)
        cut = space if space > begin else cut
        spans.append((begin, cut))
        begin, token = cut, max(token + 1, bisect_left(starts, cut))
    return [*spans, (begin, len(sentence))]
