"""Translation from text in one language to text in another.

The names are imported on first use, so the command line lists its options without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard._lazy import lazily

if TYPE_CHECKING:
    from regard.tasks.run import settings_of_run
    from regard.tasks.translate.alignment import WordAlignment, align
    from regard.tasks.translate.evaluation import Evaluation, evaluate
    from regard.tasks.translate.names import (
        find_translator,
        installed_models,
        resume_translator,
        train_translator,
    )
    from regard.tasks.translate.settings import DEFAULTS, TranslationSettings, with_defaults
    from regard.tasks.translate.translator import Translation, Translator

__all__ = [
    "DEFAULTS",
    "Evaluation",
    "Translation",
    "TranslationSettings",
    "Translator",
    "WordAlignment",
    "align",
    "evaluate",
    "find_translator",
    "installed_models",
    "resume_translator",
    "settings_of_run",
    "train_translator",
    "with_defaults",
]

__getattr__ = lazily(
    __name__,
    {
        "alignment": ["WordAlignment", "align"],
        "evaluation": ["Evaluation", "evaluate"],
        "names": [
            "find_translator",
            "installed_models",
            "resume_translator",
            "settings_of_run",
            "train_translator",
        ],
        "settings": ["DEFAULTS", "TranslationSettings", "with_defaults"],
        "translator": ["Translation", "Translator"],
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
