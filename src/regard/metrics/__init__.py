"""Measures of translations, summaries, classifiers and answers."""

from __future__ import annotations

from regard.metrics.labels_and_answers import (
    answer_f1,
    calibration_error,
    confusion,
    exact_match,
    macro_f1,
    normalized_answer,
)
from regard.metrics.rouge import RougeScore, mean_rouge, rouge, rouge_words
from regard.metrics.translations import (
    MetricScore,
    alignment_error_rate,
    bleu,
    by_length,
    chrf,
    is_chinese,
)

__all__ = [
    "MetricScore",
    "RougeScore",
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
    "mean_rouge",
    "normalized_answer",
    "rouge",
    "rouge_words",
]
