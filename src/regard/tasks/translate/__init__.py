"""Translation: from text in one language to text in another."""

from regard.tasks.translate.settings import TranslationSettings
from regard.tasks.translate.training import train_translator
from regard.tasks.translate.translator import Translation, Translator

__all__ = ["Translation", "TranslationSettings", "Translator", "train_translator"]
