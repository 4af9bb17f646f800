"""The attention of a translator as records, with the tokens of both sides as labels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from regard.capture import Recording, capture
from regard.errors import ArgumentError
from regard.maps import Record
from regard.tasks.translate.long_texts import is_endless, spaced
from regard.tasks.translate.translator import Translation, Translator

__all__ = ["recorded"]


def recorded(translator: Translator, translation: Translation) -> Recording:
    """Return all attention of the model while it reads a source and writes its translation."""
    if translation.parts or is_endless(translation.source):
        raise ArgumentError("text", "too long to be translated in one piece", "look at one sentence")
    text = spaced(translation.source)
    source = [text[a:b] for a, b in translator.source.spans(text)]
    ids = translation.source_ids
    source = [*source, "</s>"] if len(source) == len(ids) else [str(number) for number in ids]
    pieces = [translator.target.decode([number]) for number in translation.target_ids]
    read, written = ["<s>", *pieces], [*pieces, "</s>"]  # by a row of the decoder
    sides = {"self": (source, source), "causal": (read, read), "cross": (written, source)}
    return Recording([_labelled(record, *sides[record.kind]) for record in _records(translator, translation)])


def _labelled(record: Record, queries: list[str], keys: list[str]) -> Record:
    _, _, q, k = record.map.shape
    return replace(
        record,
        query_tokens=[queries[:q]] if len(queries) >= q else None,
        key_tokens=[keys[:k]] if len(keys) >= k else None,
    )


def _records(translator: Translator, translation: Translation) -> Iterable[Record]:
    """Return the records of each attention, with queries and keys where its scores are their products."""
    pair = ([translation.source_ids], [translation.target_ids])
    if translator.model.config.kind != "transformer":
        return translator.forced(*pair, ended=False)
    with capture(translator.model) as seen:
        whole = translator.forced(*pair, ended=False)
    # A model names its own records. Those of capture keep queries and keys instead of weights.
    return [replace(one, map=record.map) for one, record in zip(whole, seen, strict=True)]
