"""A baseline without training, which takes the words beside those that context and question share."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from regard.analysis import word_spans
from regard.tasks.answer.reader import Answer, Candidate
from regard.text.forms import is_content, stem_of
from regard.text.questions import Question

__all__ = ["SlidingWindow"]

WINDOW = 10  # words on each side of a candidate
LONGEST = 3  # words of a candidate


class SlidingWindow:
    """Chooses the span whose surroundings share the most words with the question.

    Each span of one to three words that has no word of the question, no function word at its ends and no punctuation
    is a candidate. Its score is the sum of the weights of the words of the question within ten words of it. The weight
    of a word is ``log(1 + 1 / count)``, with its count in the context (Richardson et al. 2013), divided by
    ``1 + d / 10`` at a distance of d words. Of equal candidates the longest and then the first is chosen.

    >>> SlidingWindow().answer([Question("Who painted the old house?", "The old house was painted by Ann.")])[0].text
    'Ann'
    """

    def answer(self, questions: Iterable[Question], *, threshold: float = 0.0) -> list[Answer]:
        """Answer questions. Every answer has a confidence of 1."""
        return [self._answer(question, threshold) for question in questions]

    def _answer(self, question: Question, threshold: float) -> Answer:
        spans = word_spans(question.context)
        words = [question.context[a:b].lower() for a, b in spans]
        asked = {stem_of(word) for word in _words(question.question) if is_content(word)}
        counts = Counter(stem_of(word) for word in words)
        gains = [
            math.log(1 + 1 / counts[stem]) if (stem := stem_of(word)) in asked else 0.0 for word in words
        ]
        best, chosen = -1.0, (0, 0)
        for first in range(len(words)):
            for last in range(first, min(first + LONGEST, len(words))):
                inside = words[first : last + 1]
                if not is_content(inside[0]) or not is_content(inside[-1]):
                    continue
                if any(gains[first : last + 1]) or not all(any(map(str.isalnum, word)) for word in inside):
                    continue
                score = _surroundings(gains, first, last) + 1e-6 * len(inside)
                if score > best:
                    best, chosen = score, (first, last)
        if best < 0:
            return Answer(question.question, question.context, (), threshold, id=question.id)
        start, end = spans[chosen[0]][0], spans[chosen[1]][1]
        found = Candidate(question.context[start:end], start, end, 1.0)
        return Answer(question.question, question.context, (found,), threshold, id=question.id)


def _words(text: str) -> list[str]:
    return [text[a:b].lower() for a, b in word_spans(text)]


def _surroundings(gains: Sequence[float], first: int, last: int) -> float:
    """Return the weights of the words of the question around a span, divided by their distance."""
    total = 0.0
    for distance in range(1, WINDOW + 1):
        for place in (first - distance, last + distance):
            if 0 <= place < len(gains):
                total += gains[place] / (1 + distance / WINDOW)
    return total
