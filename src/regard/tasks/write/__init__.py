"""Language models that write, trained on any text.

The names are imported on first use, so the command line lists its options without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard._lazy import lazily

if TYPE_CHECKING:
    from regard.tasks.write.settings import WritingSettings
    from regard.tasks.write.text_stream import TextStream
    from regard.tasks.write.writer import ChatTemplate, Writer
    from regard.tasks.write.writing import TextScore, Writing

__all__ = ["ChatTemplate", "TextScore", "TextStream", "Writer", "Writing", "WritingSettings"]

__getattr__ = lazily(
    __name__,
    {
        "settings": ["WritingSettings"],
        "text_stream": ["TextStream"],
        "writer": ["ChatTemplate", "Writer"],
        "writing": ["TextScore", "Writing"],
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
