"""Pairs of encoded texts, and batches of pairs of like length.

>>> from regard.text.vocabularies import ByteVocabulary
>>> pairs = [("a", "bb"), ("ccc", "d"), ("ee", "ff")]
>>> data = PairData.in_memory(pairs, ByteVocabulary(), ByteVocabulary())
>>> batch = data.batch([0, 2])
>>> batch.source
tensor([[100,   2,   0],
        [104, 104,   2]])
>>> batch.target_input
tensor([[  1, 101, 101],
        [  1, 105, 105]])
>>> batch.target_output
tensor([[101, 101,   2],
        [105, 105,   2]])
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from regard.errors import ArgumentError, FileError
from regard.text.buckets import Buckets
from regard.text.cache import TokenStore, fingerprint_of, open_stores, write_stores
from regard.text.readers import Skipped
from regard.text.readers import deduplicate as without_duplicates
from regard.text.vocabularies import Vocabulary

__all__ = ["Batch", "BucketedBatches", "PairData", "pad_sequences"]

_CHUNK = 4096  # pairs that are encoded at a time: enough for the tokenizer to use all cores


@dataclass(frozen=True)
class Batch:
    """Some pairs as int64 tensors, ready for an encoder and a decoder; ``b`` pairs, ``s`` and ``t`` tokens."""

    source: Tensor  # (b, s): ids, eos, padding
    source_lengths: Tensor  # (b,): eos counts
    target_input: Tensor  # (b, t): bos, ids, padding
    target_output: Tensor  # (b, t): ids, eos, padding
    target_lengths: Tensor  # (b,): eos counts, and so does bos in its place
    indices: Tensor  # (b,): which pairs of the data

    @property
    def tokens(self) -> int:
        """The target tokens that are not padding: what a loss is averaged over."""
        return int(self.target_lengths.sum())

    def __len__(self) -> int:
        return len(self.indices)

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Batch:
        """The same batch on a device."""
        fields = [getattr(self, field.name) for field in dataclasses.fields(self)]
        return Batch(*[tensor.to(device, non_blocking=non_blocking) for tensor in fields])


class PairData:
    """Encoded pairs, in memory or mapped from the disk."""

    def __init__(self, source: TokenStore, target: TokenStore, manifest: dict[str, Any] | None = None):
        if len(source) != len(target):
            raise ArgumentError(
                "target", f"expected as many sequences as in source, {len(source)}: {len(target)}"
            )
        self.source = source
        self.target = target
        self.manifest = manifest or {}

    @classmethod
    def in_memory(
        cls,
        pairs: Iterable[tuple[str, str]],
        source: Vocabulary,
        target: Vocabulary,
        *,
        max_tokens: int = 256,
        deduplicate: bool = True,
        skipped: Skipped | None = None,
    ) -> Self:
        """Encode a small number of pairs, without files."""
        counted = skipped or Skipped()
        rows = list(_encoded(pairs, source, target, max_tokens, deduplicate, counted))
        sources, targets = (
            TokenStore.from_lists(ids for row in rows for ids in row[side]) for side in (0, 1)
        )
        return cls(sources, targets, {"skipped": counted.to_json()})

    @classmethod
    def build(
        cls,
        pairs: Iterable[tuple[str, str]],
        source: Vocabulary,
        target: Vocabulary,
        folder: str | os.PathLike,
        *,
        max_tokens: int = 256,
        deduplicate: bool = True,
        skipped: Skipped | None = None,
        fingerprint: str = "",
    ) -> Self:
        """Encode a stream of pairs into a cache in ``folder``, in a memory that does not depend on their number.

        Pairs with a side of more than ``max_tokens`` tokens, or of none, are left out and counted in
        ``skipped``; so are pairs that came before (this alone takes memory, 12 to 24 bytes a pair).
        """
        counted = skipped or Skipped()

        def fill(writers: dict[str, Any]) -> dict[str, Any]:
            for sources, targets in _encoded(pairs, source, target, max_tokens, deduplicate, counted):
                writers["source"].append(sources)
                writers["target"].append(targets)
            vocabularies = {"source": source.fingerprint, "target": target.fingerprint}
            return {"fingerprint": fingerprint, "vocabularies": vocabularies, "skipped": counted.to_json()}

        stores, manifest = write_stores(folder, {"source": len(source), "target": len(target)}, fill)
        return cls(stores["source"], stores["target"], manifest)

    @classmethod
    def open(cls, folder: str | os.PathLike, *, verify: bool = False) -> Self:
        """The pairs of a cache; with ``verify`` every byte is checked."""
        stores, manifest = open_stores(folder, verify=verify)
        if set(stores) != {"source", "target"}:
            raise FileError(f"folder: {folder} does not hold pairs, but {', '.join(stores)}")
        return cls(stores["source"], stores["target"], manifest)

    @classmethod
    def build_or_open(
        cls,
        pairs: Callable[[], Iterable[tuple[str, str]]],
        source: Vocabulary,
        target: Vocabulary,
        folder: str | os.PathLike,
        *,
        files: Sequence[str | os.PathLike] = (),
        identity: object = None,
        max_tokens: int = 256,
        deduplicate: bool = True,
        skipped: Skipped | None = None,
    ) -> Self:
        """Open the cache if it was made from the same data by the same vocabularies and is whole; else build it.

        ``pairs`` is called only to build. The data is known by the contents of ``files`` and by ``identity``,
        any JSON value: name of a data set, columns, limits.
        """
        if not files and identity is None:
            raise ArgumentError("files", "none given, nor an identity", "say what the pairs are read from")
        both = [source.fingerprint, target.fingerprint]
        wanted = fingerprint_of(identity, both, max_tokens, deduplicate, files=files)
        try:
            data = cls.open(folder, verify=True)
            if data.manifest.get("fingerprint") == wanted:
                return data
        except FileError:
            pass  # not there, cut short, altered: build it
        return cls.build(
            pairs(),
            source,
            target,
            folder,
            max_tokens=max_tokens,
            deduplicate=deduplicate,
            skipped=skipped,
            fingerprint=wanted,
        )

    @property
    def skipped(self) -> Skipped:
        """What was left out when the data was made."""
        return Skipped(**self.manifest.get("skipped", {}))

    def __len__(self) -> int:
        return len(self.source)

    def lengths(self) -> np.ndarray:
        """Tokens of source and target, (n, 2), as in a batch: with eos (in the input of the target, bos)."""
        return np.stack([self.source.lengths(), self.target.lengths()], axis=1).astype(np.int32) + 1

    def pair(self, place: int) -> tuple[np.ndarray, np.ndarray]:
        """The ids of one pair, without specials."""
        return self.source[place], self.target[place]

    def batch(self, indices: Sequence[int] | np.ndarray) -> Batch:
        """Some pairs as a batch."""
        indices = np.array(indices, dtype=np.int64)  # (b,)
        eos, bos = Vocabulary.eos, Vocabulary.bos
        source, source_lengths = self.source.padded(indices, end=eos)  # (b, s), (b,)
        output, target_lengths = self.target.padded(indices, end=eos)  # (b, t), (b,)
        entered, _ = self.target.padded(indices, start=bos)  # (b, t)
        arrays = (source, source_lengths, entered, output, target_lengths, indices)
        return Batch(*[torch.from_numpy(array) for array in arrays])


class BucketedBatches:
    """Batches of pairs of like length, so that little is padding; each epoch in another order.

    A batch of b pairs takes ``b * (s + t) / 2 <= tokens``, padding included; but no batch is smaller than
    ``min_sentences``, even if its pairs are so long that it takes more (or if there are too few pairs). How
    much is padding depends on how many batches there are to choose from: 2 % of 387, 12 % of 77.

    Of ``world`` processes each takes its share of every batch, each ``world``-th pair. Together they see what one
    process sees, since the plan depends on the lengths, the seed and the number of the epoch alone. This
    holds for a world of up to ``min_sentences``; for a larger one that minimum is raised to ``world``, so that no
    share is empty.

    >>> from regard.text.vocabularies import ByteVocabulary
    >>> pairs = [("x" * n, "y" * n) for n in range(1, 7)]
    >>> data = PairData.in_memory(pairs, ByteVocabulary(), ByteVocabulary())
    >>> batches = BucketedBatches(data, tokens=12, shuffle=False, min_sentences=1)
    >>> [indices.tolist() for indices in batches.plan(0)]
    [[0, 1, 2], [3, 4], [5]]
    """

    def __init__(
        self,
        data: PairData,
        *,
        tokens: int = 4096,
        seed: int = 0,
        shuffle: bool = True,
        rank: int = 0,
        world: int = 1,
        min_sentences: int = 4,
        max_sentences: int | None = None,
    ):
        if not 0 <= rank < world:
            raise ArgumentError("rank", f"expected 0 to {world - 1} in a world of {world}, got {rank}")
        if seed < 0:
            raise ArgumentError("seed", f"expected 0 or more, got {seed}")
        if len(data) < world:
            raise ArgumentError(
                "data", f"expected at least a pair for each of {world} processes, got {len(data)}"
            )
        self.data = data
        self.seed = seed
        self.shuffle = shuffle
        self.rank = rank
        self.world = world
        self._lengths = data.lengths()  # (n, 2)
        smallest = max(min_sentences, world)
        self._buckets = Buckets(self._lengths, tokens=tokens, smallest=smallest, largest=max_sentences)

    def __len__(self) -> int:
        """Batches in an epoch: the same for every epoch and every rank."""
        return len(self._buckets)

    def plan(self, number: int) -> list[np.ndarray]:
        """The batches of an epoch as places in the data, for all ranks together; nothing is read."""
        if number < 0:
            raise ArgumentError("number", f"expected an epoch from 0 on, got {number}")
        if not self.shuffle:
            return self._buckets.in_order()
        return self._buckets.shuffled(np.random.default_rng([self.seed, number]))

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, of this rank; from batch ``start`` on, without reading those before."""
        if start < 0:
            raise ArgumentError("start", f"expected 0 or more, got {start}")
        for indices in self.plan(number)[start:]:
            yield self.data.batch(indices[self.rank :: self.world])

    def padding(self, number: int = 0) -> float:
        """How much of an epoch's batches is padding, from 0 to 1."""
        plan = self.plan(number)
        padded = sum(len(indices) * int(self._lengths[indices].max(axis=0).sum()) for indices in plan)
        return 1 - float(self._lengths.sum()) / padded


def pad_sequences(
    sequences: Sequence[Sequence[int]], *, start: int | None = None, end: int | None = None
) -> tuple[Tensor, Tensor]:
    """Lists of ids as one int64 tensor (b, longest) and their lengths (b,), with ``start`` and ``end`` put around.

    >>> pad_sequences([[7, 8], [9]], end=2)
    (tensor([[7, 8, 2],
             [9, 2, 0]]), tensor([3, 2]))
    """
    ids, lengths = TokenStore.from_lists(sequences).padded(np.arange(len(sequences)), start=start, end=end)
    return torch.from_numpy(ids), torch.from_numpy(lengths)


def _encoded(
    pairs: Iterable[tuple[str, str]],
    source: Vocabulary,
    target: Vocabulary,
    max_tokens: int,
    deduplicate: bool,
    skipped: Skipped,
) -> Iterator[tuple[list[list[int]], list[list[int]]]]:
    """The ids of the pairs that are kept, some thousands at a time."""
    if max_tokens < 1:
        raise ArgumentError("max_tokens", f"expected 1 or more, got {max_tokens}")
    stream = iter(without_duplicates(pairs, skipped) if deduplicate else pairs)
    while chunk := list(itertools.islice(stream, _CHUNK)):
        sources = source.encode_batch([pair[0] for pair in chunk])
        targets = target.encode_batch([pair[1] for pair in chunk])
        kept: tuple[list[list[int]], list[list[int]]] = ([], [])
        for ids, others in zip(sources, targets, strict=True):
            if not ids or not others:
                skipped.empty += 1
            elif max(len(ids), len(others)) > max_tokens:
                skipped.too_long += 1
            else:
                kept[0].append(ids)
                kept[1].append(others)
        yield kept
