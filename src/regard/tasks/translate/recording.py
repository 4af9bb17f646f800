"""The attention of a translator as records, with the tokens of both sides as labels."""

from __future__ import annotations

from dataclasses import replace

from regard.capture import Recording
from regard.errors import ArgumentError
from regard.tasks.translate.translator import Translation, Translator

__all__ = ["recorded"]

MOST_SENTENCES = 50  # whose attention is recorded together


def recorded(translator: Translator, translation: Translation) -> Recording:
    """Return all attention of the model while it reads a source and writes its translation.

    The records of a text of several sentences are those of each sentence, with its number in their names.
    """
    parts = [part for part in translation.written_parts if part.target_ids]
    if not parts:
        raise ArgumentError("text", "the model translated nothing of it", "look at a sentence with words")
    if len(parts) > MOST_SENTENCES:
        problem = f"{len(parts)} sentences or pieces, but at most {MOST_SENTENCES} are recorded together"
        raise ArgumentError("text", problem, "look at some of them")
    found = [_sentence(translator, part) for part in parts]
    if len(found) == 1:
        return found[0]
    return Recording(
        [
            replace(record, name=f"sentence {number}: {record.name}")
            for number, some in enumerate(found, start=1)
            for record in some
        ]
    )


def _sentence(translator: Translator, translation: Translation) -> Recording:
    text = translation.read
    source = [text[a:b] for a, b in translator.source.spans(text)]
    seen = translator.recording(source, translation.source_ids, translation.target_ids)
    notes = translation.notes
    if put_in := [row.text for row in translator.rows(translation) if row.mark]:
        notes.append(f"copied or put in place of what it wrote, without weights: {' '.join(put_in)}")
    return Recording([replace(record, note="; ".join(notes)) for record in seen]) if notes else seen
