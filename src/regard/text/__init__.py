"""Vocabularies, readers of data files, and batches of sentences of similar length.

The names are imported on first use, so importing this package loads neither torch nor ``tokenizers``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard._lazy import lazily

if TYPE_CHECKING:
    from regard.text.bad_rows import BadRowError, BadRows, Skipped
    from regard.text.base_vocabulary import UNKNOWN_SIGN
    from regard.text.batches import Batch, BucketedBatches, PairData, pad_sequences
    from regard.text.cache import TokenStore
    from regard.text.framing import Framed, Framing
    from regard.text.labelled import LABEL_FIELDS, ClassLabels, LabelledBatch, LabelledData
    from regard.text.pair_hashes import deduplicate
    from regard.text.pieces import PieceBatch, TextPieces
    from regard.text.readers import count_words, read_lines, read_pairs
    from regard.text.sentences import split_sentences
    from regard.text.vocabularies import (
        BytePairVocabulary,
        ByteVocabulary,
        CharacterVocabulary,
        PretrainedVocabulary,
        Vocabulary,
        WordVocabulary,
        load_vocabulary,
        train_vocabulary,
    )

_HOMES: dict[str, list[str]] = {
    "base_vocabulary": ["UNKNOWN_SIGN"],
    "batches": ["Batch", "BucketedBatches", "PairData", "pad_sequences"],
    "cache": ["TokenStore"],
    "framing": ["Framed", "Framing"],
    "labelled": ["LABEL_FIELDS", "LabelledBatch", "LabelledData", "ClassLabels"],
    "bad_rows": ["BadRowError", "BadRows", "Skipped"],
    "pieces": ["PieceBatch", "TextPieces"],
    "pair_hashes": ["deduplicate"],
    "readers": ["count_words", "read_lines", "read_pairs"],
    "sentences": ["split_sentences"],
    "vocabularies": [
        "BytePairVocabulary",
        "ByteVocabulary",
        "CharacterVocabulary",
        "PretrainedVocabulary",
        "Vocabulary",
        "WordVocabulary",
        "load_vocabulary",
        "train_vocabulary",
    ],
}

__all__ = [
    "LABEL_FIELDS",
    "UNKNOWN_SIGN",
    "BadRowError",
    "BadRows",
    "Batch",
    "BucketedBatches",
    "BytePairVocabulary",
    "ByteVocabulary",
    "CharacterVocabulary",
    "ClassLabels",
    "Framed",
    "Framing",
    "LabelledBatch",
    "LabelledData",
    "PairData",
    "PieceBatch",
    "PretrainedVocabulary",
    "Skipped",
    "TextPieces",
    "TokenStore",
    "Vocabulary",
    "WordVocabulary",
    "count_words",
    "deduplicate",
    "load_vocabulary",
    "pad_sequences",
    "read_lines",
    "read_pairs",
    "split_sentences",
    "train_vocabulary",
]

__getattr__ = lazily(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
