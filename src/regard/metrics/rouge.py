"""ROUGE-1, ROUGE-2 and ROUGE-L of summaries (Lin 2004), with the numbers of ``rouge-score`` 0.1.2.

>>> scores = rouge("a cat sat on mats", "the cat sat on the mat", stemmer=True)
>>> {name: round(score.f1, 4) for name, score in scores.items()}
{'rouge1': 0.7273, 'rouge2': 0.4444, 'rougeL': 0.7273}
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from regard.errors import ArgumentError
from regard.metrics.porter import stem

__all__ = ["RougeScore", "mean_rouge", "rouge", "rouge_words"]

_NOT_COUNTED = re.compile(r"[^a-z0-9]+")
# Shorter words are not stemmed.
_STEMMED = 4


@dataclass(frozen=True)
class RougeScore:
    """The precision, the recall and their harmonic mean, each from 0 to 1."""

    precision: float
    recall: float
    f1: float


def rouge_words(text: str, *, stemmer: bool = False) -> list[str]:
    """Return the words that ROUGE compares, which are runs of the letters a to z and digits in lower case.

    ``stemmer`` cuts the endings of words of more than three letters off. Characters of other scripts do not count.

    >>> rouge_words("Summaries of 12 papers, naïvely", stemmer=True)
    ['summari', 'of', '12', 'paper', 'na', 'veli']
    """
    words = _NOT_COUNTED.sub(" ", text.lower()).split()
    return [stem(word) if len(word) >= _STEMMED else word for word in words] if stemmer else words


def rouge(output: str, reference: str, *, stemmer: bool = False) -> dict[str, RougeScore]:
    """Return the ``rouge1``, ``rouge2`` and ``rougeL`` of one summary.

    ROUGE-1 and ROUGE-2 count common words and common pairs of neighbouring words. ROUGE-L counts the words of the
    longest common subsequence.
    """
    found, expected = (rouge_words(text, stemmer=stemmer) for text in (output, reference))
    scores = {}
    for size in (1, 2):
        pairs = [
            Counter(zip(*(words[at:] for at in range(size)), strict=False)) for words in (found, expected)
        ]
        common = sum((pairs[0] & pairs[1]).values())
        scores[f"rouge{size}"] = _score(common, pairs[0].total(), pairs[1].total())
    scores["rougeL"] = _score(_longest_common(found, expected), len(found), len(expected))
    return scores


def mean_rouge(
    outputs: Sequence[str], references: Sequence[str], *, stemmer: bool = True
) -> dict[str, float]:
    """Return the mean F1 of each kind of ROUGE over summaries, from 0 to 100.

    >>> round(mean_rouge(["a cat", "dogs"], ["the cat", "a dog"])["rouge1"], 1)
    58.3
    """
    if len(outputs) != len(references) or not len(outputs):
        problem = f"expected one for each of {len(outputs)} outputs, at least one, got {len(references)}"
        raise ArgumentError("references", problem)
    pairs = zip(outputs, references, strict=True)
    scores = [rouge(output, reference, stemmer=stemmer) for output, reference in pairs]
    return {name: 100 * sum(one[name].f1 for one in scores) / len(scores) for name in scores[0]}


def _score(common: int, found: int, expected: int) -> RougeScore:
    precision, recall = common / max(found, 1), common / max(expected, 1)
    f1 = 2 * precision * recall / (precision + recall) if common else 0.0
    return RougeScore(precision, recall, f1)


def _longest_common(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the length of the longest common subsequence."""
    # For each number of words of ``second``, the length with the words of ``first`` so far.
    lengths = [0] * (len(second) + 1)
    for word in first:
        before = 0
        for place, other in enumerate(second, start=1):
            best = before + 1 if word == other else max(lengths[place], lengths[place - 1])
            before, lengths[place] = lengths[place], best
    return lengths[-1]
