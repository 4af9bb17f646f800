"""Translation: from text in one language to text in another.

The names are imported when they are first used: the command line lists its options without loading torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard._lazy import lazily

if TYPE_CHECKING:
    from regard.tasks.translate.alignment import WordAlignment, align
    from regard.tasks.translate.evaluation import Evaluation, evaluate
    from regard.tasks.translate.installed import find_translator, installed_models
    from regard.tasks.translate.settings import DEFAULTS, TranslationSettings, with_defaults
    from regard.tasks.translate.training import resume_translator, settings_of_run, train_translator
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
        "installed": ["find_translator", "installed_models"],
        "settings": ["DEFAULTS", "TranslationSettings", "with_defaults"],
        "training": ["resume_translator", "settings_of_run", "train_translator"],
        "translator": ["Translation", "Translator"],
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
