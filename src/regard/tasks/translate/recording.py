"""The attention of a translator as records, with the tokens of both sides as labels."""

from __future__ import annotations

from regard.capture import Recording
from regard.errors import ArgumentError
from regard.tasks.translate.long_texts import is_endless, spaced
from regard.tasks.translate.translator import Translation, Translator

__all__ = ["recorded"]


def recorded(translator: Translator, translation: Translation) -> Recording:
    """Return all attention of the model while it reads a source and writes its translation."""
    if translation.parts or is_endless(translation.source):
        raise ArgumentError("text", "too long to be translated in one piece", "look at one sentence")
    text = spaced(translation.source)
    source = [text[a:b] for a, b in translator.source.spans(text)]
    return translator.recording(source, translation.source_ids, translation.target_ids)
