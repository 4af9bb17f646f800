"""The correction of rare words that a model with a copy mechanism copied with a wrong token.

A name that the model has never seen is copied token by token. The model may repeat a token of it, or leave one out.
Such a word consists of copied tokens only, but is not a word of the source. It is replaced by the word of the source
that most of its tokens were copied from.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from regard.decoding import Hypothesis
from regard.tasks.copied_tokens import TokenOrigin, token_origins
from regard.tasks.text_generation import ShownText, Span, TextGenerator
from regard.text.traced import TracedText, joined

__all__ = ["is_name_or_number", "with_whole_words"]

# Letters and digits, with marks between them, but not Chinese characters, which have no spaces around them.
_LETTER = r"[^\W\u3400-\u9fff]"
_WORD = re.compile(rf"{_LETTER}+(?:['’.,:/-]{_LETTER}+)*")
# Letters before an apostrophe, as in "d'Ottawa", and the ending of "Ana's".
_ELISION, _POSSESSIVE = re.compile(r"(?:[cdjlmnst]|qu)['’]", re.IGNORECASE), re.compile(r"['’]s$")
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th)$")
# A token is copied if at least this share of its probability came from copying.
_COPIED = 0.5
# The least similarity of a word and the word that replaces it, between 0 and 1. Numbers are alike more often.
_ALIKE, _ALIKE_NUMBERS = 0.65, 0.7


class _Word(NamedTuple):
    text: str
    span: Span
    tokens: range


def is_name_or_number(word: str) -> bool:
    """Return whether a word has a capital or a digit.

    >>> is_name_or_number("Ana"), is_name_or_number("B12"), is_name_or_number("cat")
    (True, True, False)
    """
    return any(one.isupper() or one.isdigit() for one in word)


def with_whole_words(
    generator: TextGenerator,
    sources: Sequence[tuple[str, list[int]]],
    found: list[list[Hypothesis]],
    shown: list[list[ShownText]],
    is_rare: Callable[[str], bool] = is_name_or_number,
) -> list[list[ShownText]]:
    """Return the texts of the hypotheses for each source, with their copied words corrected.

    A source is a text with the token ids that were read. The tokens of a hypothesis stay those that the model wrote.
    ``is_rare`` tells which words may be corrected. Other words may be forms of a word of the source.
    """
    pairs = [(i, j) for i, several in enumerate(found) for j in range(len(several))]
    pairs = [(i, j) for i, j in pairs if _has_strange_word(sources[i][0], shown[i][j].written, is_rare)]
    if not pairs:
        return shown
    read, written = [sources[i][1] for i, _ in pairs], [found[i][j].tokens for i, j in pairs]
    origins = token_origins(generator.model, generator.target, read, written)
    corrected = [list(several) for several in shown]
    for (i, j), tokens_of in zip(pairs, origins, strict=True):
        spans = shown[i][j].tokens or generator.spans_of(shown[i][j].written, found[i][j].tokens)
        edits = _corrections(generator, *sources[i], shown[i][j].written, spans, tokens_of, is_rare)
        corrected[i][j] = shown[i][j]._replace(text=_with_edits(shown[i][j].text, edits))
    return corrected


def _has_strange_word(source: str, written: str, is_rare: Callable[[str], bool]) -> bool:
    """Return whether a text has a rare word that is like a word of the source, but not equal to one."""
    theirs = {word for word, _ in _words(source, is_rare)}
    ours = {word for word, _ in _words(written, is_rare)}
    return any(_are_alike(one, other) for one in ours - theirs for other in theirs - ours)


def _are_alike(word: str, other: str) -> bool:
    least = _ALIKE_NUMBERS if any(one.isdigit() for one in word) else _ALIKE
    return SequenceMatcher(None, word, other, autojunk=False).ratio() >= least


def _words(text: str, is_rare: Callable[[str], bool]) -> list[tuple[str, Span]]:
    """Return the rare words of a text, without elisions and possessive endings."""
    found = []
    for match in _WORD.finditer(text):
        start, end = match.span()
        elision = _ELISION.match(text, start, end)
        # "L'Oréal" is one word and "d'Ottawa" are two, which the case of the first letter tells.
        start = elision.end() if elision and text[start].islower() else start
        word = _POSSESSIVE.sub("", text[start:end])
        if is_rare(word):
            found.append((word, (start, start + len(word))))
    return found


def _corrections(
    generator: TextGenerator,
    source: str,
    read: list[int],
    written: str,
    tokens: Sequence[Span],
    origins: list[TokenOrigin],
    is_rare: Callable[[str], bool],
) -> list[tuple[Span, str]]:
    """Return the spans of a written text that were copied wrong, each with the word that replaces it."""
    # The end of a long source may not have been read.
    spans = generator.source.spans(source)[: len(read)]
    end = spans[-1][1] if spans else 0
    theirs = _with_tokens(_words(source, is_rare), spans)
    ours = _with_tokens(_words(written, is_rare), tokens)
    known, present = {word.text for word in theirs}, {word.text for word in ours}
    edits = []
    for word in ours:
        right = None if word.text in known else _copied_from(word, theirs, origins)
        if right is None or right.text in present or _follows_a_number(written, word):
            continue
        if right.span[1] <= end:
            edits.append((word.span, right.text))
    return edits


def _with_edits(text: TracedText, edits: Sequence[tuple[Span, str]]) -> TracedText:
    pieces, last = [], 0
    for (start, end), word in edits:
        pieces += [text.cut(last, start), TracedText(word, [(start, end)] * len(word))]
        last = end
    return joined([*pieces, text.cut(last)])


def _with_tokens(words: list[tuple[str, Span]], spans: Sequence[Span]) -> list[_Word]:
    """Return words with the tokens that have a character of them."""
    found = []
    for word, (start, end) in words:
        inside = [i for i, (first, last) in enumerate(spans) if first < end and last > start]
        if inside:
            found.append(_Word(word, (start, end), range(inside[0], inside[-1] + 1)))
    return found


def _copied_from(word: _Word, theirs: list[_Word], origins: list[TokenOrigin]) -> _Word | None:
    """Return the source word that most tokens of a word were copied from, if all of its tokens were copied."""
    tokens = [origins[i] for i in word.tokens]
    if any(one.copied < _COPIED for one in tokens):
        return None
    votes = Counter(i for one in tokens for i, other in enumerate(theirs) if one.position in other.tokens)
    if not votes:
        return None
    place, count = votes.most_common(1)[0]
    right = theirs[place]
    most = 2 * count > len(tokens) and _are_alike(word.text, right.text)
    return right if most and not _ORDINAL.match(right.text) else None


def _follows_a_number(text: str, word: _Word) -> bool:
    """Return whether a word is part of a number that is written with spaces, such as 1 299,99."""
    before = text[: word.span[0]].rstrip()
    return word.text[0].isdigit() and before[-1:].isdigit()
