"""The confidence below which a reader says that it found no answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from regard.metrics import answer_f1
from regard.tasks.answer.reader import Answer
from regard.text.questions import Question

__all__ = ["MOST_OTHERS", "calibrated_threshold", "other_contexts"]

# Questions that are asked of a context without the answer.
MOST_OTHERS = 400


def other_contexts(questions: Sequence[Question], most: int = MOST_OTHERS) -> list[Question]:
    """Return questions with another context of the same questions that does not contain an answer.

    The context is of the same article where there is one. If some of the questions have no answer, nothing is
    returned, because these show what the model does without an answer.
    """
    if any(not question.answers for question in questions):
        return []
    by_article: dict[str, list[str]] = {}
    for question in questions:
        contexts = by_article.setdefault(question.article, [])
        if question.context not in contexts:
            contexts.append(question.context)
    found = []
    for place, question in enumerate(questions):
        contexts = by_article[question.article]
        own = contexts.index(question.context)
        for step in range(1, len(contexts)):
            context = contexts[(own + 1 + (place + step) % (len(contexts) - 1)) % len(contexts)]
            if not any(text.lower() in context.lower() for text in question.texts):
                found.append(replace(question, context=context, answers=()))
                break
        if len(found) == most:
            break
    return found


def calibrated_threshold(
    questions: Sequence[Question], answers: Sequence[Answer], others: Sequence[Answer]
) -> tuple[float, float]:
    """Return the threshold with the highest F1, and that F1 in percent.

    ``answers`` are those to ``questions``, and ``others`` those to questions that their context does not answer. An
    answer below the threshold counts as none, which is right where there is none. Questions with and without an answer
    have the same weight in total.

    >>> from regard.tasks.answer.reader import Candidate
    >>> from regard.text.questions import ReferenceAnswer
    >>> questions = [Question("Who?", "Ann sat.", (ReferenceAnswer("Ann", 0),))]
    >>> answers = [Answer("Who?", "Ann sat.", (Candidate("Ann", 0, 3, 0.8),))]
    >>> others = [Answer("Who?", "It rained.", (Candidate("It", 0, 2, 0.4),))]
    >>> calibrated_threshold(questions, answers, others)
    (0.6, 100.0)
    """
    # Confidence, F1 of the answer, whether there is an answer.
    rows: list[tuple[float, float, bool]] = []
    for question, answer in zip(questions, answers, strict=True):
        text = answer.candidates[0].text if answer.candidates else ""
        rows.append((answer.confidence, answer_f1(text, question.texts), bool(question.answers)))
    rows += [(answer.confidence, 0.0, False) for answer in others]
    answerable = sum(has for _, _, has in rows)
    weights = {True: 1 / max(1, answerable), False: 1 / max(1, len(rows) - answerable)}
    sides = min(1, answerable) + min(1, len(rows) - answerable)
    if sides < 2:
        return 0.0, 100 * sum(f1 for _, f1, _ in rows) / max(1, len(rows))
    rows.sort()
    value = sum(weights[True] * f1 for _, f1, has in rows if has)  # at a threshold of 0 all are answered
    best, threshold = value, 0.0
    for place, (confidence, f1, has) in enumerate(rows):
        value += -weights[True] * f1 if has else weights[False]
        above = rows[place + 1][0] if place + 1 < len(rows) else 1.0
        if value > best + 1e-12 and above > confidence:
            best, threshold = value, (confidence + above) / 2
    return round(threshold, 6), 100 * best / 2
