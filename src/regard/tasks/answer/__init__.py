"""Question answering, which finds the span of a context that answers a question.

The names are imported on first use, so the command line lists its options without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard._lazy import lazily

if TYPE_CHECKING:
    from regard.tasks.answer.reader import Answer, Reader
    from regard.tasks.answer.settings import AnswerSettings

__all__ = ["Answer", "AnswerSettings", "Reader"]

__getattr__ = lazily(__name__, {"reader": ["Answer", "Reader"], "settings": ["AnswerSettings"]})


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
