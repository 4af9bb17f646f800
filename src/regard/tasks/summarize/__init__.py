"""Summaries of texts, such as the title of an abstract.

The names are imported on first use, so the command line lists its options without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard._lazy import lazily

if TYPE_CHECKING:
    from regard.tasks.summarize.evaluation import SummaryReport, SummaryScores, scores_of
    from regard.tasks.summarize.origins import SummaryWeights, WordOrigin
    from regard.tasks.summarize.settings import SummarySettings
    from regard.tasks.summarize.summarizer import Summarizer, Summary

__all__ = [
    "Summarizer",
    "Summary",
    "SummaryReport",
    "SummaryScores",
    "SummarySettings",
    "SummaryWeights",
    "WordOrigin",
    "scores_of",
]

__getattr__ = lazily(
    __name__,
    {
        "evaluation": ["SummaryReport", "SummaryScores", "scores_of"],
        "origins": ["SummaryWeights", "WordOrigin"],
        "settings": ["SummarySettings"],
        "summarizer": ["Summarizer", "Summary"],
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
