"""Texts as pieces of limited length, encoded and batched for an encoder.

>>> from regard.text.vocabularies import ByteVocabulary
>>> data = TextPieces.in_memory(["abcde", "f"], ByteVocabulary(), max_tokens=4)
>>> data.batch([0, 1]).tokens
tensor([[100, 101, 102,   2],
        [103, 104,   2,   0]])
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from regard.errors import ArgumentError, FileError
from regard.text.cache import TokenStore, check_identified, fingerprint_of, open_stores, write_stores
from regard.text.framing import Framing
from regard.text.readers import Skipped
from regard.text.vocabularies import Vocabulary

__all__ = ["PieceBatch", "TextPieces"]

# The number of texts encoded at once, enough for the tokenizer to use all cores.
_CHUNK = 4096


@dataclass(frozen=True)
class PieceBatch:
    """A batch of ``b`` pieces as padded int64 tensors."""

    tokens: Tensor  # (b, n), with the special tokens, padded
    lengths: Tensor  # (b,), with the special tokens
    indices: Tensor  # (b,), the indices of the pieces in the data

    def __len__(self) -> int:
        return len(self.indices)


class TextPieces:
    """Encoded pieces of texts, in memory or memory-mapped from disk.

    A text with more than ``max_tokens`` tokens, special tokens included, is cut into several pieces, which do not
    overlap. An empty text has no piece.
    """

    def __init__(self, store: TokenStore, framing: Framing, manifest: dict[str, Any] | None = None):
        self.store, self.framing, self.manifest = store, framing, manifest or {}

    @classmethod
    def in_memory(cls, texts: Iterable[str], vocabulary: Vocabulary, *, max_tokens: int) -> Self:
        """Encode texts in memory, without a cache.

        A ``max_tokens`` without room for a token raises ArgumentError.
        """
        pieces = itertools.chain.from_iterable(_encoded(texts, vocabulary, max_tokens))
        return cls(TokenStore.from_lists(pieces), vocabulary.framing)

    @classmethod
    def build_or_open(
        cls,
        texts: Callable[[], Iterable[str]],
        vocabulary: Vocabulary,
        folder: str | os.PathLike,
        *,
        max_tokens: int,
        files: Sequence[str | os.PathLike] = (),
        identity: object = None,
        skipped: Skipped | None = None,
    ) -> Self:
        """Open the cache in ``folder`` if it is intact and matches the data and the vocabulary, or build it.

        ``texts`` is called only to build the cache, and is read as a stream. The data is identified by the contents of
        ``files`` and by ``identity``, any JSON value. At least one of the two is required. ``skipped`` counts the texts
        that the caller leaves out while ``texts`` is read. These counts are stored in the cache.
        """
        check_identified(files, identity)
        _room(vocabulary, max_tokens)
        fingerprint = fingerprint_of(identity, vocabulary.fingerprint, max_tokens, files=files)
        try:
            stores, manifest = open_stores(folder, verify=True)
            if manifest.get("fingerprint") == fingerprint and set(stores) == {"text"}:
                return cls(stores["text"], vocabulary.framing, manifest)
        except FileError:
            # The cache is missing, truncated or modified, so it is built.
            pass
        counted = skipped if skipped is not None else Skipped()

        def fill(writers: dict[str, Any]) -> dict[str, Any]:
            for pieces in _encoded(texts(), vocabulary, max_tokens):
                writers["text"].append(pieces)
            return {"fingerprint": fingerprint, "skipped": counted.to_json()}

        stores, manifest = write_stores(folder, {"text": len(vocabulary)}, fill)
        return cls(stores["text"], vocabulary.framing, manifest)

    @property
    def skipped(self) -> Skipped:
        """The counts of the texts that were left out when the data was encoded."""
        return Skipped(**self.manifest.get("skipped", {}))

    def __len__(self) -> int:
        return len(self.store)

    def lengths(self) -> np.ndarray:
        """Return the numbers of tokens of the pieces, (n, 1), with the special tokens as in a batch."""
        return self.store.lengths()[:, None].astype(np.int32) + self.framing.added()

    def counts(self, size: int) -> np.ndarray:
        """Return how often each id from 0 to ``size - 1`` occurs in the pieces, (size,), without special tokens.

        ``size`` is the size of the vocabulary.
        """
        total = np.zeros(size, dtype=np.int64)
        for start in range(0, len(self.store.ids), 2**22):
            total += np.bincount(self.store.ids[start : start + 2**22], minlength=size)
        return total

    def batch(self, indices: Sequence[int] | np.ndarray) -> PieceBatch:
        """Return the pieces of texts at these indices as a padded batch, with the special tokens."""
        indices = np.array(indices, dtype=np.int64)  # (b,)
        frame = self.framing
        tokens, lengths = self.store.padded(indices, start=frame.start, end=frame.end, pad=frame.pad)
        return PieceBatch(*map(torch.from_numpy, (tokens, lengths, indices)))


def _encoded(texts: Iterable[str], vocabulary: Vocabulary, max_tokens: int) -> Iterator[list[list[int]]]:
    """Yield the ids of the pieces of texts, without special tokens, for 4096 texts at a time."""
    room = _room(vocabulary, max_tokens)
    stream = iter(texts)
    while chunk := list(itertools.islice(stream, _CHUNK)):
        pieces: list[list[int]] = []
        for ids in vocabulary.encode_batch(chunk):
            pieces += [ids[start : start + room] for start in range(0, len(ids), room)]
        yield pieces


def _room(vocabulary: Vocabulary, max_tokens: int) -> int:
    """Return the number of tokens of a piece without special tokens, or raise ArgumentError if it is not above 0."""
    added = vocabulary.framing.added()
    if max_tokens <= added:
        told = f"expected more than the {added} special tokens of a piece, got {max_tokens}"
        raise ArgumentError("max_tokens", told)
    return max_tokens - added
