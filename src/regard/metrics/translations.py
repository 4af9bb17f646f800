"""Measures of translations (BLEU and chrF of sacrebleu) and of word alignments (AER)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from regard.errors import ArgumentError, MissingExtraError

__all__ = ["MetricScore", "alignment_error_rate", "bleu", "by_length", "chrf", "is_chinese"]

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
