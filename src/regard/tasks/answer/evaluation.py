"""Exact match and F1 of readers, and of a baseline without training."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from regard.errors import ArgumentError, FileError, option, renamed
from regard.files import check_writable, write_atomically
from regard.metrics import answer_f1, exact_match
from regard.tasks.answer.baseline import SlidingWindow
from regard.tasks.answer.data import embedded_questions
from regard.tasks.answer.reader import Answer, Reader
from regard.tasks.answer.settings import AnswerEvaluationSettings
from regard.tasks.measuring import scores_as_json
from regard.tasks.sampling import sample
from regard.text import Skipped
from regard.text.questions import Question, read_questions

__all__ = ["AnswerReport", "AnswerScores", "evaluate_readers", "scores_of"]

# Questions of the embedded corpus that are measured on if no limit is given.
EMBEDDED_TEST = 500
BASELINE = "sliding window"


@dataclass(frozen=True)
class AnswerScores:
    """The scores of one reader, in percent.

    ``answered`` is the share of the questions that were given an answer. ``calibrated_share`` is the share whose answer
    has a confidence of at least the model's own threshold, and ``answered_f1`` the F1 of these answers. Both are None
    if the measurement used this threshold.
    """

    questions: int
    exact: float
    f1: float
    answered: float
    threshold: float
    seconds: float
    answered_f1: float | None = None
    calibrated_share: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as a JSON object."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class AnswerReport:
    """The scores of one reader, or of several on the same questions."""

    measured_on: str
    scores: dict[str, AnswerScores]
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the numbers of the first model, with those of the others under ``compared``."""
        return {"measured_on": self.measured_on, **scores_as_json(self.scores)}

    def __str__(self) -> str:
        wide = max(len(name) for name in self.scores)
        lines = [f"measured on {self.measured_on}", f"{'':{wide}}  exact match     F1   answered"]
        for name, one in self.scores.items():
            lines.append(f"{name:{wide}}  {one.exact:11.2f} {one.f1:6.2f} {one.answered:8.1f} %")
        for name, one in self.scores.items():
            if one.answered_f1 is not None:
                share = f"{one.calibrated_share:.1f} % of the questions"
                lines.append(
                    f"{name}: with its own threshold it answers {share}, with an F1 of {one.answered_f1:.2f}"
                )
        return "\n".join(lines)


def evaluate_readers(readers: Mapping[str, Reader], options: AnswerEvaluationSettings) -> AnswerReport:
    """Measure readers by name on the same questions."""
    if options.out is not None:
        with renamed(path="out"):
            check_writable(options.out)
    skipped = Skipped()
    questions, where = _questions(options, skipped)
    if options.out is not None:
        _check_ids(questions)
    scores: dict[str, AnswerScores] = {}
    first: list[Answer] = []
    for name, reader in readers.items():
        scores[name], answers = scores_of(reader, questions, threshold=_threshold(reader, questions, options))
        first = first or answers
    if options.baseline:
        scores[BASELINE], _ = scores_of(SlidingWindow(), questions, threshold=0.0)
    if options.out is not None:
        _write(options.out, questions, first)
    notes = [f"not measured: {skipped}"] if skipped.total else []
    return AnswerReport(f"{len(questions):,} questions of {where}", scores, notes)


def _threshold(reader: Reader, questions: Sequence[Question], options: AnswerEvaluationSettings) -> float:
    """Return the threshold to measure with, which is 0 if every question has an answer."""
    if options.threshold is not None:
        return options.threshold
    return reader.threshold if any(not one.answers for one in questions) else 0.0


def scores_of(
    reader: Reader | SlidingWindow, questions: Sequence[Question], *, threshold: float
) -> tuple[AnswerScores, list[Answer]]:
    """Return the scores of a reader and its answers. Answers below ``threshold`` count as none."""
    if not questions:
        raise ArgumentError("data", "there is nothing to measure on")
    began = time.perf_counter()
    answers = reader.answer(questions, threshold=threshold)
    seconds = time.perf_counter() - began
    rows = [
        (exact_match(answer.text, one.texts), answer_f1(answer.text, one.texts))
        for one, answer in zip(questions, answers, strict=True)
    ]
    count = len(rows)
    exact, f1 = (100 * sum(row[side] for row in rows) / count for side in (0, 1))
    answered = 100 * sum(answer.found for answer in answers) / count
    sure: dict[str, float] = {}
    if isinstance(reader, Reader) and reader.threshold > threshold == 0:
        above = [row[1] for row, one in zip(rows, answers, strict=True) if one.confidence >= reader.threshold]
        sure["calibrated_share"] = 100 * len(above) / count
        sure["answered_f1"] = 100 * sum(above) / max(1, len(above))
    return AnswerScores(count, exact, f1, answered, threshold, seconds, **sure), answers


def _questions(options: AnswerEvaluationSettings, skipped: Skipped) -> tuple[list[Question], str]:
    if options.data is None:
        rows = list(embedded_questions(0, "test", max(options.limit, EMBEDDED_TEST)))
        where = "the test part of the embedded corpus"
    else:
        reading = options.reader_settings()
        with renamed(source="data"):
            rows = list(
                read_questions(
                    options.data,
                    format=reading.get("format"),
                    split=reading["split"],
                    config=reading.get("dataset_config"),
                    skip_bad_rows=options.skip_bad_rows,
                    skipped=skipped,
                )
            )
        where = options.data
    return sample(rows, options.limit, options.seed or 0, key=lambda row: f"{row.id} {row.question}"), where


def _ids(questions: Sequence[Question]) -> list[str]:
    """Return the id of each question, or its place if it has none."""
    return [one.id or str(place) for place, one in enumerate(questions)]


def _check_ids(questions: Sequence[Question]) -> None:
    """Raise FileError if two questions have one id, since a file of answers holds one answer for each id."""
    for name, number in Counter(_ids(questions)).most_common(1):
        if number > 1:
            problem = f"{number:,} questions have the id {name!r:.60}, and {option('out')} holds one answer for each id"
            raise FileError(f"{problem}: give each question an id of its own", argument="data")


def _write(path: str, questions: Sequence[Question], answers: Sequence[Answer]) -> None:
    """Write the answers by the ids of the questions, as SQuAD's script reads them."""
    values = {name: answer.text for name, answer in zip(_ids(questions), answers, strict=True)}
    text = json.dumps(values, ensure_ascii=False, indent=1) + "\n"
    write_atomically(path, lambda part: part.write_text(text, encoding="utf-8"))
