"""Small writers with random weights, for tests of writing."""

from __future__ import annotations

from typing import Any

import torch

from regard.models import LanguageModel, LanguageModelConfig
from regard.tasks.write import Writer
from regard.text import CharacterVocabulary, Vocabulary

LETTERS = "abcdefgh .\n"


def vocabulary() -> CharacterVocabulary:
    return CharacterVocabulary.train([LETTERS], 50)


def writer(tokens: Vocabulary | None = None, *, context: int = 16, seed: int = 0, **values: Any) -> Writer:
    """A writer of one layer, whose scores differ enough that its texts are varied."""
    tokens = tokens or vocabulary()
    torch.manual_seed(seed)
    config = {"vocabulary_size": len(tokens), "width": 16, "heads": 2, "layers": 2, "feed_forward": 16}
    model = LanguageModel(LanguageModelConfig(**config, positions="rotary", tied_output=False, max_length=64))
    torch.nn.init.normal_(model.output.weight, std=1.0)
    return Writer(model.eval(), tokens, **{"context": context, "start": tokens.bos, **values})
