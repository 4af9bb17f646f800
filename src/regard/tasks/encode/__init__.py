"""Encoders of texts, which are trained on masked words and give vectors of sentences.

The names are imported on first use, so the command line lists its options without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard._lazy import lazily

if TYPE_CHECKING:
    from regard.tasks.encode.sentence_encoder import SentenceEncoder
    from regard.tasks.encode.settings import EncodingSettings
    from regard.tasks.encode.vectors import SentenceVector, SimilarText

__all__ = ["EncodingSettings", "SentenceEncoder", "SentenceVector", "SimilarText"]

__getattr__ = lazily(
    __name__,
    {
        "sentence_encoder": ["SentenceEncoder"],
        "settings": ["EncodingSettings"],
        "vectors": ["SentenceVector", "SimilarText"],
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
