"""A reader with a part of its vocabulary, for small files."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import nn

from regard.errors import ArgumentError
from regard.tasks.answer.reader import Reader
from regard.text import PretrainedVocabulary

__all__ = ["shortened"]


def shortened(reader: Reader, size: int) -> Reader:
    """Return a reader with the ``size`` most frequent pieces of its vocabulary, which was started from a BERT.

    Rare words are cut into smaller pieces. The rest of the model is the same.
    """
    if not isinstance(reader.vocabulary, PretrainedVocabulary):
        told = f"expected the vocabulary of a pretrained encoder, got one of {reader.vocabulary.kind}"
        raise ArgumentError("reader", told)
    vocabulary, kept = reader.vocabulary.shortened(size)
    config = replace(reader.model.config, vocabulary_size=len(kept))
    if getattr(config, "base", None) is not None:
        framing = vocabulary.framing
        base = replace(config.base, vocabulary_size=len(kept))
        config = replace(config, base=base, base_start=framing.start, base_end=framing.end)
    model: Any = type(reader.model)(config)
    state = {
        name: value[kept] if name.endswith("embedding.tokens.weight") else value
        for name, value in reader.model.state_dict().items()
    }
    model.load_state_dict(state)
    assert isinstance(model, nn.Module)
    return Reader(model.eval(), vocabulary, dict(reader.extra))
