"""Text: vocabularies, readers of data files, and batches of sentences of like length.

The names are imported when they are first used, so that this loads neither torch nor ``tokenizers``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.text.batches import Batch, BucketedBatches, PairData, pad_sequences
    from regard.text.cache import TokenStore
    from regard.text.readers import Skipped, deduplicate, read_lines, read_pairs
    from regard.text.vocabularies import (
        BytePairVocabulary,
        ByteVocabulary,
        CharacterVocabulary,
        Vocabulary,
        WordVocabulary,
        load_vocabulary,
        train_vocabulary,
    )

_HOMES: dict[str, list[str]] = {
    "batches": ["Batch", "BucketedBatches", "PairData", "pad_sequences"],
    "cache": ["TokenStore"],
    "readers": ["Skipped", "deduplicate", "read_lines", "read_pairs"],
    "vocabularies": [
        "BytePairVocabulary",
        "ByteVocabulary",
        "CharacterVocabulary",
        "Vocabulary",
        "WordVocabulary",
        "load_vocabulary",
        "train_vocabulary",
    ],
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Batch",
    "BucketedBatches",
    "BytePairVocabulary",
    "ByteVocabulary",
    "CharacterVocabulary",
    "PairData",
    "Skipped",
    "TokenStore",
    "Vocabulary",
    "WordVocabulary",
    "deduplicate",
    "load_vocabulary",
    "pad_sequences",
    "read_lines",
    "read_pairs",
    "train_vocabulary",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'regard.text' has no attribute {name!r}", name=name, obj=None)
    value = getattr(importlib.import_module(f"regard.text.{_HOME_OF[name]}"), name)
    globals()[name] = value  # next time the name is found without coming here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
