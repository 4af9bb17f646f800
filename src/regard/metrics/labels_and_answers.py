"""Measures of classifiers (confusion, macro F1, calibration) and of answers (exact match and F1)."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

from regard.errors import ArgumentError

__all__ = [
    "answer_f1",
    "calibration_error",
    "confusion",
    "exact_match",
    "macro_f1",
    "normalized_answer",
]


def confusion(expected: Sequence[int], predicted: Sequence[int], classes: int) -> list[list[int]]:
    """Return the number of examples with each pair of classes, as rows of expected and columns of predicted classes.

    The classes are numbers from 0 to ``classes - 1``.

    >>> confusion([0, 0, 1], [0, 1, 1], classes=2)
    [[1, 1], [0, 1]]
    """
    if len(expected) != len(predicted):
        raise ArgumentError("predicted", f"{len(predicted)} predictions for {len(expected)} examples")
    counts = [[0] * classes for _ in range(classes)]
    for row, column in zip(expected, predicted, strict=True):
        counts[row][column] += 1
    return counts


def macro_f1(counts: Sequence[Sequence[int]]) -> float:
    """Return the mean F1 of the classes of a :func:`confusion`, each with the same weight, from 0 to 1.

    A class that is neither expected nor predicted does not count. Without examples the result is 0.

    >>> macro_f1([[1, 1], [0, 1]])
    0.6666666666666666
    """
    scores = []
    for place, row in enumerate(counts):
        total = sum(row) + sum(other[place] for other in counts)
        if total:
            scores.append(2 * row[place] / total)
    return sum(scores) / max(1, len(scores))


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = frozenset(string.punctuation)


def normalized_answer(text: str) -> str:
    """Return an answer as SQuAD's script compares it, in lower case, without punctuation, articles and extra spaces.

    >>> normalized_answer("The  U.S. Army!")
    'us army'
    """
    letters = "".join(letter for letter in text.lower() if letter not in _PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", letters).split())


def exact_match(prediction: str, answers: Sequence[str]) -> float:
    """Return 1.0 if a prediction equals one of the answers after :func:`normalized_answer`, and otherwise 0.0.

    Without answers, the right prediction is an empty text.

    >>> exact_match("the army", ["Army", "the navy"]), exact_match("", []), exact_match("army", [])
    (1.0, 1.0, 0.0)
    """
    found = normalized_answer(prediction)
    return float(any(normalized_answer(answer) == found for answer in answers or [""]))


def answer_f1(prediction: str, answers: Sequence[str]) -> float:
    """Return the F1 of the words of a prediction and of an answer, the highest over the answers, from 0 to 1.

    Words are those of :func:`normalized_answer`. Without answers, the right prediction is an empty text.

    >>> answer_f1("the blue army", ["a blue army of men", "navy"])
    0.6666666666666666
    """
    found = normalized_answer(prediction).split()
    if not answers:
        return float(not found)
    return max(_word_f1(found, normalized_answer(answer).split()) for answer in answers)


def _word_f1(found: list[str], expected: list[str]) -> float:
    common = sum((Counter(found) & Counter(expected)).values())
    if not common:
        return 0.0
    precision, recall = common / len(found), common / len(expected)
    return 2 * precision * recall / (precision + recall)


def calibration_error(probabilities: Sequence[float], right: Sequence[bool], bins: int = 15) -> float:
    """Return the expected calibration error, from 0 to 1 (Naeini et al. 2015).

    ``probabilities`` are those of the predicted classes, and ``right`` says which predictions are right. The
    predictions are sorted by probability into ``bins`` intervals of equal width. The error is the absolute difference
    between the mean probability and the share of right predictions of each interval, averaged over the predictions.

    >>> round(calibration_error([0.9, 0.9, 0.6], [True, False, True]), 4)
    0.4
    """
    if len(probabilities) != len(right) or not len(right):
        problem = f"expected one for each of {len(right)} predictions, at least one, got {len(probabilities)}"
        raise ArgumentError("probabilities", problem)
    # For each bin, the sum of the probabilities and the number of right predictions.
    totals = [[0.0, 0] for _ in range(bins)]
    for probability, is_right in zip(probabilities, right, strict=True):
        total = totals[min(int(probability * bins), bins - 1)]
        total[0] += probability
        total[1] += bool(is_right)
    return sum(abs(expected - found) for expected, found in totals) / len(right)
