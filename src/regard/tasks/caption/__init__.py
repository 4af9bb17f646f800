"""Captions, which describe a picture in words.

The names are imported on first use, so the command line lists its options without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard._lazy import lazily

if TYPE_CHECKING:
    from regard.tasks.caption.captioner import Caption, Captioner, CaptionWeights
    from regard.tasks.caption.settings import CaptionSettings

__all__ = ["Caption", "CaptionSettings", "CaptionWeights", "Captioner"]

__getattr__ = lazily(
    __name__,
    {"captioner": ["Caption", "CaptionWeights", "Captioner"], "settings": ["CaptionSettings"]},
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
