"""Measures of translations (BLEU and chrF of sacrebleu), alignments (AER), classifiers (F1) and answers (EM, F1)."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from regard.errors import ArgumentError, MissingExtraError

__all__ = [
    "MetricScore",
    "alignment_error_rate",
    "answer_f1",
    "bleu",
    "by_length",
    "calibration_error",
    "chrf",
    "confusion",
    "exact_match",
    "is_chinese",
    "macro_f1",
    "normalized_answer",
]

Link = tuple[int, int]


@dataclass(frozen=True)
class MetricScore:
    """A score with the signature of sacrebleu, which names the version and the options it was computed with."""

    score: float
    signature: str


def bleu(
    outputs: Sequence[str],
    references: Sequence[Sequence[str | None]],
    *,
    lowercase: bool = False,
    language: str = "",
) -> MetricScore:
    """Return the BLEU of sacrebleu for a corpus, from 0 to 100.

    ``references`` holds one list for each set of references. A list has one reference for each output, or None for an
    output that has none in this set. ``lowercase`` ignores case. ``language`` is the code of the target language, which
    selects the tokenizer for Chinese.

    >>> round(bleu(["the cat sat on the mat"], [["the cat sat on the mat"]]).score)
    100
    """
    metric = _sacrebleu().BLEU(lowercase=lowercase, tokenize="zh" if is_chinese(language) else "13a")
    return _scored(metric, outputs, references)


def chrf(
    outputs: Sequence[str], references: Sequence[Sequence[str | None]], *, lowercase: bool = False
) -> MetricScore:
    """Return the chrF of sacrebleu for a corpus, a score on character n-grams from 0 to 100.

    The arguments are those of :func:`bleu`.

    >>> chrf(["le chat"], [["le chat"]]).score
    100.0
    """
    return _scored(_sacrebleu().CHRF(lowercase=lowercase), outputs, references)


def is_chinese(language: str) -> bool:
    """Return whether a language code, in any case and with any region, is one of Chinese.

    >>> is_chinese("zh-CN"), is_chinese("cmn"), is_chinese("fr")
    (True, True, False)
    """
    return language.lower().replace("_", "-").partition("-")[0] in ("zh", "cmn", "yue", "zho", "chi")


def by_length(
    outputs: Sequence[str],
    references: Sequence[Sequence[str | None]],
    lengths: Sequence[int],
    limits: Sequence[int],
    score: Callable[..., MetricScore] = bleu,
    **options: Any,
) -> list[tuple[str, int, float]]:
    """Score the sentences by ranges of length, and return ``(range, number of sentences, score)`` for each range.

    ``lengths`` has the length of each sentence, such as the number of words of its source. ``limits`` are the largest
    lengths of the ranges in ascending order, and longer sentences form a last range. Ranges without sentences are left
    out, and so are sentences of length 0. ``score`` is :func:`bleu` or a function with the same first two arguments,
    and ``options`` are its further arguments.

    >>> rows = by_length(["a b c d", "x"], [["a b c d", "y"]], lengths=[4, 1], limits=[2, 5])
    >>> [(words, sentences, round(score)) for words, sentences, score in rows]
    [('1-2', 1, 0), ('3-5', 1, 100)]
    """
    found = []
    low = 0
    for high in [*limits, max([*lengths, *limits]) + 1]:
        places = [i for i, length in enumerate(lengths) if low < length <= high]
        if places:
            sides = [[side[i] for i in places] for side in references]
            name = f"{low + 1}-{high}" if high in limits else f"{low + 1}-"
            found.append((name, len(places), score([outputs[i] for i in places], sides, **options).score))
        low = high
    return found


def alignment_error_rate(
    found: Iterable[Iterable[Link]], sure: Iterable[Iterable[Link]], possible: Iterable[Iterable[Link]]
) -> float:
    """Return the alignment error rate of a corpus (AER, Och and Ney 2003), from 0 to 1, where 0 is perfect.

    Each argument holds the links of every sentence, as pairs of indices (source word, target word). ``possible`` may
    include the sure links or leave them out. Raises ArgumentError if there are no links at all.

    >>> alignment_error_rate([{(0, 0), (1, 2)}], [{(0, 0), (1, 1)}], [{(1, 2)}])
    0.25
    """
    right_sure = right_possible = count_found = count_sure = 0
    for links, must, may in zip(found, sure, possible, strict=True):
        links, must = set(links), set(must)
        right_sure += len(links & must)
        right_possible += len(links & (must | set(may)))
        count_found += len(links)
        count_sure += len(must)
    if count_found + count_sure == 0:
        raise ArgumentError(
            "found", "there are no links to compare", "give the links of at least one sentence"
        )
    return 1 - (right_sure + right_possible) / (count_found + count_sure)


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


def _scored(metric: Any, outputs: Sequence[str], references: Sequence[Sequence[str | None]]) -> MetricScore:
    if not outputs:
        raise ArgumentError("outputs", "expected at least one sentence, got none")
    for one in references:
        if len(one) != len(outputs):
            raise ArgumentError("references", f"{len(one)} references for {len(outputs)} outputs")
    value = metric.corpus_score(list(outputs), [list(one) for one in references])
    return MetricScore(value.score, str(metric.get_signature()))


def _sacrebleu() -> Any:
    try:
        from sacrebleu import metrics
    except ImportError:
        raise MissingExtraError("sacrebleu", "text", "BLEU and chrF") from None
    return metrics
