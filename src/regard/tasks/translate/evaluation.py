"""Evaluation of translators by BLEU, chrF, BLEU by length and the alignment error rate."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.decoding import DecodingOptions
from regard.errors import ArgumentError, renamed
from regard.metrics import MetricScore, bleu, by_length, chrf
from regard.tasks.measuring import check_out, rows_to_measure, write_predictions
from regard.tasks.sampling import sample
from regard.tasks.translate.alignment import choose_alignment_head, error_rates
from regard.tasks.translate.alignment_head import alignment_head_of
from regard.tasks.translate.data import embedded_pairs
from regard.tasks.translate.gold import diagonal_error_rate, embedded_aligned, read_aligned
from regard.tasks.translate.particulars import ParticularsScore, measure_particulars
from regard.tasks.translate.settings import (
    TranslationEvaluationSettings,
    TranslationSettings,
    check_embedded_languages,
)
from regard.tasks.translate.translator import Translation, Translator
from regard.text import Skipped, count_words

__all__ = ["Evaluation", "TranslationReport", "evaluate", "evaluate_translators", "group_references"]

# Sentences of the embedded corpus that are measured on, if no limit is given.
EMBEDDED = 1000
LIMITS = (5, 10, 15, 20, 25, 30, 40, 50)


@dataclass(frozen=True)
class Evaluation:
    """The scores of one translator on one set of sentences."""

    sentences: int
    bleu: MetricScore
    chrf: MetricScore
    by_length: list[tuple[str, int, float]]  # words of the source, sentences, BLEU
    seconds: float
    translations: list[Translation] = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as a JSON object, without the translations."""
        return {
            "sentences": self.sentences,
            "bleu": {"score": self.bleu.score, "signature": self.bleu.signature},
            "chrf": {"score": self.chrf.score, "signature": self.chrf.signature},
            "bleu_by_length": [
                {"words": name, "sentences": count, "bleu": score} for name, count, score in self.by_length
            ],
            "seconds": self.seconds,
            "sentences_per_second": self.sentences / self.seconds,
        }


def evaluate(
    translator: Translator,
    pairs: Iterable[tuple[str, str]],
    options: DecodingOptions | None = None,
    *,
    lowercase: bool | None = None,
    normalize: bool = True,
) -> Evaluation:
    """Translate the source of each pair, and compare the translations with the targets.

    Pairs with the same source are references of one sentence. ``lowercase`` compares without regard to case, by
    default if the vocabulary of the model has no capital letters. With ``normalize=False`` the model reads the
    sources as they are.
    """
    sources, references = group_references(pairs)
    lowercase = translator.target.lowercase if lowercase is None else lowercase
    began = time.perf_counter()
    translations = translator.translate(sources, options, normalize=normalize)
    seconds = time.perf_counter() - began
    outputs = [one.text for one in translations]
    language = translator.target_language
    lengths = [count_words(source) for source in sources]
    return Evaluation(
        len(sources),
        bleu(outputs, references, lowercase=lowercase, language=language),
        chrf(outputs, references, lowercase=lowercase),
        by_length(outputs, references, lengths, LIMITS, lowercase=lowercase, language=language),
        seconds,
        translations,
    )


def group_references(pairs: Iterable[tuple[str, str]]) -> tuple[list[str], list[Sequence[str | None]]]:
    """Return the sources without repetition, and their references in the form of sacrebleu.

    The first list has the first reference of each source, the second list the second one or None, and so on.

    >>> group_references([("a", "x"), ("b", "y"), ("a", "z")])
    (['a', 'b'], [['x', 'y'], ['z', None]])
    """
    found: dict[str, list[str]] = {}
    for source, target in pairs:
        found.setdefault(source, []).append(target)
    if not found:
        raise ArgumentError("pairs", "there is nothing to evaluate on")
    most = max(len(several) for several in found.values())
    sides: list[Sequence[str | None]] = [
        [several[i] if i < len(several) else None for several in found.values()] for i in range(most)
    ]
    return list(found), sides


@dataclass(frozen=True)
class TranslationReport:
    """The scores of one translator, or of several on the same sentences."""

    measured_on: str
    scores: dict[str, Evaluation] = field(default_factory=dict)  # by model
    alignment: dict[str, Any] | None = None
    left_out: int = 0
    notes: list[str] = field(default_factory=list)
    particulars: dict[str, ParticularsScore] = field(default_factory=dict)  # by model

    def to_json(self) -> dict[str, Any]:
        """Return the numbers of the first model, with those of the others under ``compared``."""
        values: dict[str, Any] = {"measured_on": self.measured_on}
        scores = self.scores or self.particulars
        if scores:
            (name, first), *others = scores.items()
            values |= {"model": name, **first.to_json()}
            if others:
                values["compared"] = {name: one.to_json() for name, one in others}
            values["left_out"] = self.left_out
        return values if self.alignment is None else {**values, "alignment": self.alignment}

    def __str__(self) -> str:
        lines = [f"measured on {self.measured_on}"]
        first = next(iter(self.scores.values()), None)
        for name, one in self.scores.items():
            lines += [f"{name}:"] if len(self.scores) > 1 else []
            lines += _score_lines(one, None if one is first else first)
        for name, kept in self.particulars.items():
            lines += [f"{name}:"] if len(self.particulars) > 1 else []
            lines += kept.lines()
        if self.alignment is not None:
            rate, a = self.alignment["error_rate"], self.alignment
            shown = "the model has no attention"
            if rate is not None:
                shown = f"{100 * rate:6.2f} %  ({a['sentences']} sentences; {a['reading']})"
            lines += [f"AER   {shown}", f"      {100 * a['diagonal']:6.2f} %  by the diagonal"]
        return "\n".join(lines)


def _score_lines(found: Evaluation, minus: Evaluation | None) -> list[str]:
    """Return the scores of a model as text, with the difference to another model for each length."""
    lines = [f"{found.sentences} sentences, {found.sentences / found.seconds:.1f} a second"]
    for title, score in (("BLEU", found.bleu), ("chrF", found.chrf)):
        lines.append(f"{title:5} {score.score:6.2f}  {score.signature}")
    lines.append("BLEU by words of the source:")
    for place, (words, sentences, score) in enumerate(found.by_length):
        line = f"  {words:>6} {score:6.2f}  ({sentences} sentences)"
        lines.append(line if minus is None else f"{line}  {score - minus.by_length[place][2]:+.2f}")
    return lines


def evaluate_translators(
    translators: Mapping[str, Translator], options: TranslationEvaluationSettings
) -> TranslationReport:
    """Measure translators by name on the same pairs, and the alignments of the first one."""
    check_out(options, "out", "save_lengths")
    first = next(iter(translators.values()))
    _check_same_languages(translators)
    scores, skipped, where = {}, Skipped(), options.links or ""
    search = ("beams", "length_penalty", "coverage_penalty", "no_repeat")
    given = {name: getattr(options, name) for name in search if getattr(options, name) is not None}
    decoding = DecodingOptions(**{"beams": 5, **given})
    if options.particulars is not None:
        return _particulars(translators, options, decoding)
    if options.links is None or options.data is not None:
        pairs, where = _pairs(first, options, skipped)
        for name, one in translators.items():
            scores[name] = evaluate(
                one, pairs, decoding, lowercase=options.lowercase, normalize=options.normalize is not False
            )
        _write_results(scores, pairs, options)
    alignment = None
    if options.links is not None or options.data is None:
        alignment = _alignment(first, options)
    notes = [f"not measured: {skipped}"] if skipped.total else []
    return TranslationReport(where, scores, alignment, skipped.total, notes)


def _particulars(
    translators: Mapping[str, Translator], options: TranslationEvaluationSettings, decoding: DecodingOptions
) -> TranslationReport:
    """Measure the names and numbers that arrive unchanged in generated sentences."""
    count = options.particulars or 0
    found = {name: measure_particulars(one, count, decoding) for name, one in translators.items()}
    write_predictions(options, next(iter(found.values())).outputs)
    where = f"{count:,} generated sentences with names and numbers that are never trained on"
    return TranslationReport(where, particulars=found)


def _check_same_languages(translators: Mapping[str, Translator]) -> None:
    first, *others = ((name, one.source_language, one.target_language) for name, one in translators.items())
    for name, source, target in others:
        if (source, target) != first[1:]:
            problem = (
                f"{name} translates {source} to {target}, {first[0]} translates {first[1]} to {first[2]}"
            )
            raise ArgumentError("compare", problem)


def _pairs(
    translator: Translator, options: TranslationEvaluationSettings, skipped: Skipped
) -> tuple[list[tuple[str, str]], str]:
    """Return the pairs to measure on, with all references of a sentence, and a description of them."""
    languages = (translator.source_language, translator.target_language)
    where = options.data or "the test part of the embedded corpus"
    if options.data is None:
        check_embedded_languages(list(languages), "data", "name pairs to measure on")

    def embedded() -> Iterable[tuple[str, str]]:
        settings = TranslationSettings(source_language=languages[0], target_language=languages[1])
        return embedded_pairs(settings, "test", max(options.limit, EMBEDDED))

    named = (languages[0] or "source", languages[1] or "target")
    pairs = rows_to_measure(options, skipped, embedded=embedded, languages=named)
    return pairs, f"{len(pairs):,} pairs of {where}"


def _write_results(
    scores: Mapping[str, Evaluation], pairs: list[tuple[str, str]], options: TranslationEvaluationSettings
) -> None:
    if options.out is not None:
        first = next(iter(scores.values()))
        texts = {one.source: one.text for one in first.translations}
        write_predictions(options, (texts[source] for source, _ in pairs))
    if options.save_lengths is not None:
        from regard.plots import plot_by_length

        # The name of a folder, if that is unambiguous.
        short = [Path(name).name for name in scores]
        names = short if len(set(short)) == len(short) else list(scores)
        rows = [one.by_length for one in scores.values()]
        plot_by_length(dict(zip(names, rows, strict=True)), path=options.save_lengths)


def _alignment(translator: Translator, options: TranslationEvaluationSettings) -> dict[str, Any]:
    """Return the alignment error rate beside that of the diagonal."""
    with renamed(path="links"):
        gold = (
            read_aligned(Path(options.links))
            if options.links
            else embedded_aligned(translator, "test", max(options.limit, EMBEDDED))
        )
    gold = [gold[place] for place in sample(range(len(gold)), options.limit, options.seed or 0)]
    values: dict[str, Any] = {"diagonal": diagonal_error_rate(gold), "sentences": len(gold)}
    values["error_rate"] = None
    if not translator.attends:
        return values
    head = alignment_head_of(translator)
    if options.choose_links:
        with renamed(path="choose_links"):
            head = choose_alignment_head(translator, read_aligned(Path(options.choose_links)))[0]
    (rate,) = error_rates(translator, gold, [head])
    return {**values, "error_rate": rate, "reading": str(head)}
