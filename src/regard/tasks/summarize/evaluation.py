"""ROUGE, length, novel words and rare words of summarisers, beside two heuristics."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from regard.decoding import DecodingOptions
from regard.errors import ArgumentError, option
from regard.metrics import mean_rouge, rouge_words
from regard.tasks.measuring import check_out, rows_to_measure, scores_as_json, write_predictions
from regard.tasks.pairs import Pair
from regard.tasks.sampling import in_test_part, sample
from regard.tasks.summarize.data import embedded_rows, with_first_space
from regard.tasks.summarize.heuristics import HEURISTICS
from regard.tasks.summarize.settings import SummaryEvaluationSettings
from regard.tasks.summarize.summarizer import Summarizer, Summary, checked_test_part
from regard.tasks.summarize.words import RARE_BELOW, words_of
from regard.text import Skipped, Vocabulary

__all__ = ["SummaryReport", "SummaryScores", "evaluate_summarizers", "scores_of"]

# Reports of the embedded corpus that are measured on, if no limit is given.
EMBEDDED_TEST = 500


@dataclass(frozen=True)
class SummaryScores:
    """The scores of the summaries of some texts.

    ``rouge1``, ``rouge2`` and ``rougeL`` are mean F1 scores, from 0 to 100. ``length_ratio`` is the number of words of
    all summaries, divided by that of the references. ``novel`` is the percentage of the words of the summaries that
    are not in the text. ``rare_words`` is the number of words that a text and its reference share and that are rare in
    the training data, and ``rare_recall`` the percentage of them that are in the summary. Both are None if the common
    words of the training are not known, and the recall also if there are no rare words.
    """

    texts: int
    rouge1: float
    rouge2: float
    rougeL: float
    length_ratio: float
    novel: float
    rare_words: int | None = None
    rare_recall: float | None = None
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as a JSON object."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class SummaryReport:
    """The scores of one summariser or of several, and of the heuristics, on the same texts."""

    measured_on: str
    scores: dict[str, SummaryScores]
    heuristics: dict[str, SummaryScores]
    stemmer: bool = True
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the numbers of the first model, with those of the others and of the heuristics."""
        values = {"measured_on": self.measured_on, "stemmer": self.stemmer, **scores_as_json(self.scores)}
        return {**values, "heuristics": {name: one.to_json() for name, one in self.heuristics.items()}}

    def __str__(self) -> str:
        everything = {**self.scores, **self.heuristics}
        wide = max(map(len, everything))
        stemmed = "with" if self.stemmer else "without"
        lines = [f"measured on {self.measured_on}", f"ROUGE is the mean F1, {stemmed} the stemmer"]
        lines.append(f"{'':{wide}}  ROUGE-1 ROUGE-2 ROUGE-L  length   novel  rare words")
        for name, one in everything.items():
            scores = f"{one.rouge1:7.2f} {one.rouge2:7.2f} {one.rougeL:7.2f}"
            rare = "" if one.rare_recall is None else f"  {one.rare_recall:6.1f} %"
            lines.append(f"{name:{wide}}  {scores} {one.length_ratio:7.2f} {one.novel:5.1f} %{rare}")
        first = next(iter(self.scores.values()))
        if first.rare_recall is not None:
            kind = f"{first.rare_words:,} words of the references that are in the text and in"
            lines.append(f"rare words: the share found of {kind} fewer than {RARE_BELOW} training rows")
        return "\n".join(lines)


def evaluate_summarizers(
    summarizers: Mapping[str, Summarizer], options: SummaryEvaluationSettings
) -> SummaryReport:
    """Measure summarisers by name on the same texts, beside the heuristics.

    Rare words are those of the training data of the first one.
    """
    check_out(options)
    skipped = Skipped()
    rows, where = _rows(summarizers, options, skipped)
    search = ("beams", "length_penalty", "coverage_penalty")
    given = {name: getattr(options, name) for name in search if getattr(options, name) is not None}
    first = next(iter(summarizers.values()))
    scores: dict[str, SummaryScores] = {}
    notes = [f"not measured: {skipped}"] if skipped.total else []
    for name, summarizer in summarizers.items():
        began = time.perf_counter()
        summaries = summarizer.summarize([text for text, _ in rows], DecodingOptions(**{"beams": 5, **given}))
        seconds = time.perf_counter() - began
        texts = [summary.text for summary in summaries]
        scores[name] = scores_of(texts, rows, first.common, stemmer=options.stemmer, seconds=seconds)
        notes += _cut_note(name, summarizer, summaries)
        if summarizer is first:
            write_predictions(options, texts)
    heuristics = {
        name: scores_of(make([text for text, _ in rows]), rows, first.common, stemmer=options.stemmer)
        for name, make in HEURISTICS.items()
    }
    return SummaryReport(where, scores, heuristics, options.stemmer, notes + _uncounted_note(rows))


def scores_of(
    summaries: Sequence[str],
    rows: Sequence[Pair],
    common: Vocabulary | None = None,
    *,
    stemmer: bool = True,
    seconds: float = 0.0,
) -> SummaryScores:
    """Return the scores of summaries of the texts of some rows, each of a text and its reference.

    ``common`` are the words that are not rare.

    >>> scores = scores_of(["cats sleep"], [("The cats sleep all day.", "cats sleep well")])
    >>> round(scores.rouge1), scores.length_ratio, scores.novel
    (80, 0.6666666666666666, 0.0)
    """
    if not rows:
        raise ArgumentError("data", "there is nothing to measure on")
    references = [reference for _, reference in rows]
    written = [words_of(summary) for summary in summaries]
    known = [set(words_of(text)) for text, _ in rows]
    count = sum(map(len, written))
    expected = sum(len(words_of(reference)) for reference in references)
    novel = sum(word not in there for words, there in zip(written, known, strict=True) for word in words)
    rare: dict[str, Any] = {}
    if common is not None:
        wanted = list(_rare_words(references, known, common))
        found = sum(word in written[place] for place, word in wanted)
        rare = {"rare_words": len(wanted), "rare_recall": 100 * found / len(wanted) if wanted else None}
    return SummaryScores(
        len(rows),
        **mean_rouge(summaries, references, stemmer=stemmer),
        length_ratio=count / max(1, expected),
        novel=100 * novel / max(1, count),
        **rare,
        seconds=seconds,
    )


def _rare_words(
    references: Sequence[str], known: Sequence[set[str]], common: Vocabulary
) -> Iterator[tuple[int, str]]:
    """Yield the rare words that a reference shares with its text, each with the place of the row."""
    for place, reference in enumerate(references):
        for word in sorted(set(words_of(reference)) & known[place]):
            if common.unk in common.encode(word):
                yield place, word


def _rows(
    summarizers: Mapping[str, Summarizer], options: SummaryEvaluationSettings, skipped: Skipped
) -> tuple[list[Pair], str]:
    """Return the rows to measure on, as the model reads them, and a description of them."""

    def embedded() -> Iterator[Pair]:
        return embedded_rows(0, "test", max(options.limit, EMBEDDED_TEST))

    # The sample is taken of the test part, not of all rows.
    whole = replace(options, limit=0) if options.test_part else options
    found = rows_to_measure(whole, skipped, embedded=embedded)
    rows = [(with_first_space(text), with_first_space(summary)) for text, summary in found]
    where = options.data or "the test part of the embedded corpus"
    if options.test_part:
        share, seed = _test_part(summarizers)
        rows = [row for row in rows if in_test_part(row[0], share, seed)]
        where = f"the test part of {where}"
        if not rows:
            raise ArgumentError("test_part", f"no row of {options.data} is in it", "give more rows")
        rows = sample(rows, options.limit, options.seed or 0, key=lambda row: row[0])
    return rows, f"{len(rows):,} texts of {where}"


def _test_part(summarizers: Mapping[str, Summarizer]) -> tuple[float, int]:
    """Return the share and the seed of the test part of all models, or raise ArgumentError if they differ."""
    parts = {name: checked_test_part(one.extra) for name, one in summarizers.items()}
    (first, part), *others = parts.items()
    if not part[0]:
        fix = f"train with {option('test_share')}, or leave it out"
        raise ArgumentError("test_part", f"the training of {first} kept none", fix)
    for name, other in others:
        if other != part:
            problem = (
                f"{name} was trained with another test part (share and seed {other}) than {first} {part}"
            )
            raise ArgumentError("compare", problem)
    return part


def _cut_note(name: str, summarizer: Summarizer, summaries: Sequence[Summary]) -> list[str]:
    cut = sum(summary.cut_off for summary in summaries)
    if not cut:
        return []
    most = summarizer.encoder.most
    return [
        f"{name}: {cut:,} of {len(summaries):,} texts have more than {most} tokens: their end was not read"
    ]


def _uncounted_note(rows: Sequence[Pair]) -> list[str]:
    """Return a remark if there are references of which ROUGE counts no word."""
    empty = sum(not rouge_words(reference) for _, reference in rows)
    if not empty:
        return []
    return [f"{empty:,} references have no letter from a to z and no digit, so their ROUGE is 0"]
