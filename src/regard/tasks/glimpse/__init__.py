"""Classification of pictures in a few small glimpses, whose places the model chooses itself.

The names are imported on first use, so the command line lists its options without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard._lazy import lazily

if TYPE_CHECKING:
    from regard.tasks.glimpse.canvas import Canvas
    from regard.tasks.glimpse.classifier import GlimpseClassifier, PictureGlimpses
    from regard.tasks.glimpse.settings import GlimpseSettings

__all__ = ["Canvas", "GlimpseClassifier", "GlimpseSettings", "PictureGlimpses"]

__getattr__ = lazily(
    __name__,
    {
        "canvas": ["Canvas"],
        "classifier": ["GlimpseClassifier", "PictureGlimpses"],
        "settings": ["GlimpseSettings"],
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
