"""Classification of pictures.

The names are imported on first use, so the command line lists its options without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard._lazy import lazily

if TYPE_CHECKING:
    from regard.tasks.images.classifier import ImageClassification, ImageClassifier
    from regard.tasks.images.settings import ImageSettings

__all__ = ["ImageClassification", "ImageClassifier", "ImageSettings"]

__getattr__ = lazily(
    __name__,
    {"classifier": ["ImageClassification", "ImageClassifier"], "settings": ["ImageSettings"]},
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
