"""The places in a translation of tags, quotes, emoji and other parts that the model did not read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.analysis import join_words, word_spans
from regard.tasks.translate.paragraphs import Inner, matching_parts
from regard.text.traced import Span, TracedText
from regard.text.verbatim import CLOSING, OPENING

__all__ = ["TokenWeights", "in_order", "places_of"]

# A smaller weight on a word says nothing about its place in the translation.
_LEAST_WEIGHT = 0.1
# The most other words between two words of the translation of a tag's content, such as "de" in "guide de voyage".
_LARGEST_GAP = 1


@dataclass(frozen=True)
class TokenWeights:
    """The weights between the tokens of a translation and of its source, with the places of both."""

    weights: np.ndarray  # (t,s)
    source: Sequence[Span]  # in the text of the user
    target: Sequence[Span]  # in the text that the model wrote

    def word_scores(self, words: Sequence[Span], anchor: Span) -> list[float]:
        """Return the weight of each word of the translation on one word of the source."""
        columns = [i for i, span in enumerate(self.source) if _overlap(span, anchor)]
        on_anchor = self.weights[:, columns].sum(axis=1)  # (t,)
        rows = [[i for i, span in enumerate(self.target) if _overlap(span, word)] for word in words]
        return [float(on_anchor[some].mean()) if some else 0.0 for some in rows]

    def links(self, words: Sequence[Span], anchors: Sequence[Span]) -> list[int]:
        """Return the place of the word of the source that each word of the translation attends to most."""
        scores = np.array([self.word_scores(words, anchor) for anchor in anchors])  # (source words, words)
        return [int(place) for place in scores.argmax(axis=0)]


class _Sentence:
    """The words of a translation and of its source."""

    def __init__(self, text: str, weights: TokenWeights | None, read: TracedText):
        self.text, self.weights = text, weights
        self.words = word_spans(text[: _end_of_words(text)])
        if weights is not None:
            # A token of Chinese text may have several characters, and is not split.
            self.words = join_words(self.words, weights.target)
        theirs = word_spans(read.text[: _end_of_words(read.text)])
        places = [(word, span) for word, span in zip(theirs, read.originals(theirs), strict=True)]
        self.source_words = [read.text[slice(*word)] for word, (start, end) in places if start < end]
        self.anchors = [span for _, span in places if span[0] < span[1]]
        # The source word of each word of the translation.
        is_linked = weights is not None and self.words and self.anchors
        self.links = weights.links(self.words, self.anchors) if weights and is_linked else []

    def scores(self, anchor: Span) -> list[float]:
        """Return the weight of each word of the translation on a span of the source."""
        if self.weights is None:
            return [0.0] * len(self.words)
        return self.weights.word_scores(self.words, anchor)


def places_of(parts: Sequence[Inner], text: str, weights: TokenWeights | None, read: TracedText) -> list[int]:
    """Return the places in a translation where the parts that the model did not read belong.

    Parts that open and close something enclose the words that attend to the words between them. Any other part is
    beside the word that attends most to its neighbour.
    """
    sentence = _Sentence(text, weights, read)
    pairs = matching_parts(parts)
    found: dict[Inner, int] = {}
    for one in parts:
        if one.kind == OPENING and one in pairs and (span := _enclosed(one.end, pairs[one].start, sentence)):
            found[one], found[pairs[one]] = span
    return [found[one] if one in found else _place_of(one, sentence) for one in parts]


def in_order(edits: Sequence[tuple[int, int, Inner, str]]) -> list[tuple[int, int, Inner, str]]:
    """Return replacements of spans by verbatim parts in the order of a translation.

    At one place, a part that closes something comes before one that opens something else.
    """
    opened = {edit[2]: edit[0] for edit in edits}
    pairs = matching_parts([edit[2] for edit in sorted(edits, key=lambda edit: edit[2].start)])

    def key(edit: tuple[int, int, Inner, str]) -> tuple[int, int, bool]:
        start, end, inner, _ = edit
        closes = inner.kind == CLOSING and inner in pairs and opened[pairs[inner]] < start
        return start, end, not closes

    return sorted(edits, key=key)


def _enclosed(start: int, end: int, sentence: _Sentence) -> Span | None:
    """Return the span of a translation for the words between two places of the source, if it has any."""
    anchors, words = sentence.anchors, sentence.words
    content = [i for i, (a, b) in enumerate(anchors) if start <= a and b <= end]
    if not content or not words:
        return None
    if len(content) == 1 and (copied := _copied(sentence.source_words[content[0]], sentence.text)):
        return copied
    scores = sentence.scores((anchors[content[0]][0], anchors[content[-1]][1]))
    first = last = int(np.argmax(scores))
    if scores[first] < _LEAST_WEIGHT:
        # As many words from the start, in proportion.
        share = len(words) / len(anchors)
        first = min(round(content[0] * share), len(words) - 1)
        last = max(first, round((content[-1] + 1) * share) - 1)
        return words[first][0], words[min(last, len(words) - 1)][1]
    outside = [sentence.scores(anchor) for i, anchor in enumerate(anchors) if i not in content]
    most = np.max(outside, axis=0) if outside else np.zeros(len(words))
    inside = [
        place for place in range(len(words)) if scores[place] > most[place] and _is_word(place, sentence)
    ]
    gap = 1 + _LARGEST_GAP * (len(content) > 1)
    for place in inside:
        if 0 < place - last <= gap:
            last = place
    for place in reversed(inside):
        if 0 < first - place <= gap:
            first = place
    return words[first][0], words[last][1]


def _is_word(place: int, sentence: _Sentence) -> bool:
    return sentence.text[sentence.words[place][0]].isalnum()


def _copied(word: str, text: str) -> Span | None:
    """Return the span of a word in a translation, if it was copied there once."""
    pattern = rf"(?<![A-Za-z0-9À-ɏ]){re.escape(word)}(?![A-Za-z0-9À-ɏ])"
    spans = [match.span() for match in re.finditer(pattern, text)]
    return spans[0] if len(spans) == 1 and len(word) > 2 else None


def _place_of(inner: Inner, sentence: _Sentence) -> int:
    """Return the place in a translation of a part beside the word that attends most to its neighbour."""
    words, anchors, opens = sentence.words, sentence.anchors, inner.kind == OPENING
    before = sum(end <= inner.start for _, end in anchors)
    if not words or not anchors:
        return 0 if opens else len(sentence.text)
    anchor = anchors[min(before, len(anchors) - 1)] if opens else anchors[max(0, before - 1)]
    scores = sentence.scores(anchor)
    best = int(np.argmax(scores))
    if scores[best] < _LEAST_WEIGHT:
        # As many words from the start, in proportion.
        best = round(before * len(words) / len(anchors)) - (0 if opens else 1)
        best = min(max(0, best), len(words) - 1)
    else:
        step, last = (-1, 0) if opens else (1, len(words) - 1)
        # Its neighbours may be part of the translation of that word. Marks are not.
        while best != last and scores[best + step] >= 0.3 * max(scores) and _is_word(best + step, sentence):
            best += step
    return _beside_han_word(best if opens else best + 1, before, sentence, opens)


def _beside_han_word(place: int, before: int, sentence: _Sentence, opens: bool) -> int:
    """Return the place in a text before a word, or beside the Chinese word that it would split.

    Characters of one word attend to the same word of the source. ``before`` source words are before the place.
    """
    words, links = sentence.words, sentence.links
    first = last = place
    if 0 < place < len(links):
        while 0 < first < len(words) and _is_split(first, sentence):
            first -= 1
        while 0 < last < len(words) and _is_split(last, sentence):
            last += 1
        place = first if links[place] >= before else last
    if opens:
        return words[place][0] if place < len(words) else words[-1][1]
    return words[place - 1][1] if place else words[0][0]


def _is_split(place: int, sentence: _Sentence) -> bool:
    """Return whether the words before and after a place are Chinese characters for the same word of the source."""
    (_, end), (start, _) = sentence.words[place - 1], sentence.words[place]
    text, links = sentence.text, sentence.links
    are_chinese = end == start and ord(text[end - 1]) > 0x2E80 and ord(text[start]) > 0x2E80
    return are_chinese and text[start].isalnum() and links[place - 1] == links[place]


def _end_of_words(text: str) -> int:
    """Return the place before the final marks of a sentence."""
    return len(re.sub(r"\s?[.!?…。！？]+[\"'”’»)]*$", "", text))


def _overlap(one: Span, other: Span) -> bool:
    return max(one[0], other[0]) < min(one[1], other[1])
