"""Classification, which gives a text one of several labels.

The names are imported on first use, so the command line lists its options without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard._lazy import lazily

if TYPE_CHECKING:
    from regard.tasks.classify.classifier import Classification, Classifier
    from regard.tasks.classify.settings import ClassificationSettings

__all__ = ["Classification", "ClassificationSettings", "Classifier"]

__getattr__ = lazily(
    __name__,
    {"classifier": ["Classification", "Classifier"], "settings": ["ClassificationSettings"]},
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
