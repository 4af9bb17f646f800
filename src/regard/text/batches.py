"""Encoded (source, target) pairs of texts, and batches of pairs of similar length.

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
from typing import Any, Protocol, Self

import numpy as np
import torch
from torch import Tensor

from regard.errors import ArgumentError, FileError
from regard.text.bad_rows import Skipped
from regard.text.buckets import Buckets
from regard.text.cache import TokenStore, check_identified, fingerprint_of, open_stores, write_stores
from regard.text.pair_hashes import deduplicate as without_duplicates
from regard.text.vocabularies import Vocabulary

__all__ = ["Batch", "BatchData", "BucketedBatches", "PairData", "pad_sequences"]

# The number of pairs encoded at once, enough for the tokenizer to use all cores.
_CHUNK = 4096


@dataclass(frozen=True)
class Batch:
    """A batch of ``b`` pairs as padded int64 tensors, for an encoder and a decoder."""

    source: Tensor  # (b, s), ids, eos, padding
    source_lengths: Tensor  # (b,), with eos
    target_input: Tensor  # (b, t), bos, ids, padding
    target_output: Tensor  # (b, t), ids, eos, padding
    target_lengths: Tensor  # (b,), with eos, which is also the length of target_input with bos
    indices: Tensor  # (b,), the indices of the pairs in the data

    @property
    def tokens(self) -> int:
        """The number of target tokens with eos and without padding, over which the loss is averaged."""
        return int(self.target_lengths.sum())

    def __len__(self) -> int:
        return len(self.indices)

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Batch:
        """Return the batch with its tensors on a device.

        ``non_blocking`` is that of ``Tensor.to``.
        """
        fields = [getattr(self, field.name) for field in dataclasses.fields(self)]
        return Batch(*[tensor.to(device, non_blocking=non_blocking) for tensor in fields])


class PairData:
    """Encoded (source, target) pairs, in memory or memory-mapped from disk.

    ``source`` and ``target`` hold the ids without special tokens, which :meth:`batch` adds. ``manifest`` holds the
    metadata of a cache, such as the fingerprint and the counts of skipped pairs.
    """

    def __init__(self, source: TokenStore, target: TokenStore, manifest: dict[str, Any] | None = None):
        if len(source) != len(target):
            raise ArgumentError(
                "target", f"expected as many sequences as in source, {len(source)}, got {len(target)}"
            )
        self.source = source
        self.target = target
        self.manifest = manifest or {}

    @classmethod
    def in_memory(
        cls,
        pairs: Iterable[tuple[str, str]],
        source: Vocabulary,
        # A Vocabulary, or ClassLabels for LabelledData.
        target: Any,
        *,
        max_tokens: int = 256,
        max_target_tokens: int | None = None,
        deduplicate: bool = True,
        skipped: Skipped | None = None,
    ) -> Self:
        """Encode pairs of texts in memory, without a cache.

        The arguments are those of :meth:`build`.
        """
        counted = skipped or Skipped()
        limits = _limits(max_tokens, max_target_tokens)
        rows = list(_encoded(pairs, source, target, limits, deduplicate, counted))
        sources, targets = (
            TokenStore.from_lists(ids for row in rows for ids in row[side]) for side in (0, 1)
        )
        return cls(sources, targets, {"skipped": counted.to_json(), "framing": _framing_of(source)})

    @classmethod
    def build(
        cls,
        pairs: Iterable[tuple[str, str]],
        source: Vocabulary,
        target: Vocabulary,
        folder: str | os.PathLike,
        *,
        max_tokens: int = 256,
        max_target_tokens: int | None = None,
        deduplicate: bool = True,
        skipped: Skipped | None = None,
        fingerprint: str = "",
    ) -> Self:
        """Encode a stream of pairs into a cache in ``folder``, without holding all of them in memory.

        A pair is left out and counted in ``skipped`` if source or target is empty or has more than ``max_tokens``
        tokens, without special tokens. ``max_target_tokens`` is a limit of its own for the target. With
        ``deduplicate``, repeated pairs are left out too, which takes 12 to 24 bytes of memory for each pair.
        ``fingerprint`` is stored in the cache to identify the data. An existing cache is replaced. A folder with other
        files raises FileError.
        """
        counted = skipped or Skipped()

        def fill(writers: dict[str, Any]) -> dict[str, Any]:
            limits = _limits(max_tokens, max_target_tokens)
            for sources, targets in _encoded(pairs, source, target, limits, deduplicate, counted):
                writers["source"].append(sources)
                writers["target"].append(targets)
            vocabularies = {"source": source.fingerprint, "target": target.fingerprint}
            known = {"fingerprint": fingerprint, "vocabularies": vocabularies}
            return {**known, "framing": _framing_of(source), "skipped": counted.to_json()}

        stores, manifest = write_stores(folder, {"source": len(source), "target": len(target)}, fill)
        return cls(stores["source"], stores["target"], manifest)

    @classmethod
    def open(cls, folder: str | os.PathLike, *, verify: bool = False) -> Self:
        """Open a cache written by :meth:`build`, or raise FileError if it is missing, incomplete or of another kind.

        ``verify`` also checks the hash of every file.
        """
        stores, manifest = open_stores(folder, verify=verify)
        if set(stores) != {"source", "target"}:
            raise FileError(f"{folder} does not hold pairs, but {', '.join(stores)}", argument="folder")
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
        max_target_tokens: int | None = None,
        deduplicate: bool = True,
        skipped: Skipped | None = None,
    ) -> Self:
        """Open the cache in ``folder`` if it is intact and matches the data and vocabularies, and otherwise build it.

        ``pairs`` is called only to build the cache. The data is identified by the contents of ``files`` and by
        ``identity``, any JSON value such as the name of a data set, its columns and limits. At least one of the two is
        required. The other arguments are those of :meth:`build`.
        """
        check_identified(files, identity)
        vocabularies = [source.fingerprint, target.fingerprint]
        limits = [max_tokens] if max_target_tokens is None else [max_tokens, max_target_tokens]
        fingerprint = fingerprint_of(identity, vocabularies, *limits, deduplicate, files=files)
        try:
            data = cls.open(folder, verify=True)
            if data.manifest.get("fingerprint") == fingerprint:
                return data
        except FileError:
            # The cache is missing, truncated or modified, so it is built.
            pass
        return cls.build(
            pairs(),
            source,
            target,
            folder,
            max_tokens=max_tokens,
            max_target_tokens=max_target_tokens,
            deduplicate=deduplicate,
            skipped=skipped,
            fingerprint=fingerprint,
        )

    @property
    def skipped(self) -> Skipped:
        """The counts of the pairs that were left out when the data was encoded."""
        return Skipped(**self.manifest.get("skipped", {}))

    def __len__(self) -> int:
        return len(self.source)

    def lengths(self) -> np.ndarray:
        """Return the numbers of tokens of source and target, (n, 2), each with eos as in a batch."""
        return np.stack([self.source.lengths(), self.target.lengths()], axis=1).astype(np.int32) + 1

    def pair(self, place: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of source and target of the pair with the index ``place``, without special tokens."""
        return self.source[place], self.target[place]

    def batch(self, indices: Sequence[int] | np.ndarray) -> Batch:
        """Return the pairs at these indices as a padded batch."""
        indices = np.array(indices, dtype=np.int64)  # (b,)
        eos, bos = Vocabulary.eos, Vocabulary.bos
        source, source_lengths = self.source.padded(indices, end=eos)  # (b, s), (b,)
        output, target_lengths = self.target.padded(indices, end=eos)  # (b, t), (b,)
        target_input, _ = self.target.padded(indices, start=bos)  # (b, t)
        arrays = (source, source_lengths, target_input, output, target_lengths, indices)
        return Batch(*[torch.from_numpy(array) for array in arrays])


class BatchData(Protocol):
    """Encoded sequences that :class:`BucketedBatches` divides into batches, such as :class:`PairData`."""

    def __len__(self) -> int:
        """Return the number of sequences."""
        ...

    def lengths(self) -> np.ndarray:
        """Return the number of tokens of each sequence as it is in a batch, ``(n, sides)``.

        Special tokens count. A pair has two sides, source and target. Other data has one side.
        """
        ...

    def batch(self, indices: Sequence[int] | np.ndarray) -> Any:
        """Return the sequences at these indices as a padded batch."""
        ...


class BucketedBatches:
    """Batches of pairs of similar length, which need little padding, shuffled in each epoch unless ``shuffle=False``.

    A batch of b pairs has ``b * (s + t) / 2 <= tokens`` with padding, and at most ``max_sentences`` pairs. Single texts
    of up to s tokens have ``b * s <= tokens``. A batch of very long pairs may exceed ``tokens``, because every batch
    has at least ``min_sentences`` pairs (unless the data has fewer). The share of padding falls with the number of
    batches, for example from 12 % with 77 batches to 2 % with 387.

    In distributed training, process ``rank`` of ``world`` takes every ``world``-th pair of each batch. All processes
    together see the batches of a single process, because the plan depends only on the lengths, the seed and the
    epoch. If ``world`` exceeds ``min_sentences``, that minimum is raised to ``world``, so that no share is empty.

    >>> from regard.text.vocabularies import ByteVocabulary
    >>> pairs = [("x" * n, "y" * n) for n in range(1, 7)]
    >>> data = PairData.in_memory(pairs, ByteVocabulary(), ByteVocabulary())
    >>> batches = BucketedBatches(data, tokens=12, shuffle=False, min_sentences=1)
    >>> [indices.tolist() for indices in batches.plan(0)]
    [[0, 1, 2], [3, 4], [5]]
    """

    def __init__(
        self,
        data: BatchData,
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
        self._lengths = data.lengths()  # (n, sides)
        smallest = max(min_sentences, world)
        self._buckets = Buckets(self._lengths, tokens=tokens, smallest=smallest, largest=max_sentences)

    def __len__(self) -> int:
        """Return the number of batches in an epoch, which is the same for every epoch and rank."""
        return len(self._buckets)

    def plan(self, number: int) -> list[np.ndarray]:
        """Return the batches of epoch ``number`` for all ranks together, as arrays of indices into the data."""
        if number < 0:
            raise ArgumentError("number", f"expected an epoch from 0 on, got {number}")
        if not self.shuffle:
            return self._buckets.in_order()
        return self._buckets.shuffled(np.random.default_rng([self.seed, number]))

    def epoch(self, number: int, start: int = 0) -> Iterator[Any]:
        """Yield this rank's share of each batch of epoch ``number``, from batch ``start`` on.

        Earlier batches are not read.
        """
        if start < 0:
            raise ArgumentError("start", f"expected 0 or more, got {start}")
        for indices in self.plan(number)[start:]:
            yield self.data.batch(indices[self.rank :: self.world])

    def padding(self, number: int = 0) -> float:
        """Return the share of padding among all tokens of the batches of epoch ``number``, from 0 to 1."""
        plan = self.plan(number)
        padded = sum(len(indices) * int(self._lengths[indices].max(axis=0).sum()) for indices in plan)
        return 1 - float(self._lengths.sum()) / padded


def pad_sequences(
    sequences: Sequence[Sequence[int]], *, start: int | None = None, end: int | None = None
) -> tuple[Tensor, Tensor]:
    """Return lists of ids as one int64 tensor (b, longest), padded with 0 at the end, and their lengths (b,).

    ``start`` and ``end`` are ids added before and after each list. They count in the lengths.

    >>> pad_sequences([[7, 8], [9]], end=2)
    (tensor([[7, 8, 2],
             [9, 2, 0]]), tensor([3, 2]))
    """
    ids, lengths = TokenStore.from_lists(sequences).padded(np.arange(len(sequences)), start=start, end=end)
    return torch.from_numpy(ids), torch.from_numpy(lengths)


def _framing_of(vocabulary: Vocabulary) -> list[int | None]:
    """Return the ids of the start, end and padding tokens of a vocabulary, as a list for the manifest.

    The start is None if no token is put before a text.
    """
    framing = vocabulary.framing
    return [framing.start, framing.end, framing.pad]


def _limits(source: int, target: int | None) -> tuple[int, int]:
    """Return the largest numbers of tokens of source and target, which are equal by default."""
    return source, source if target is None else target


def _encoded(
    pairs: Iterable[tuple[str, str]],
    source: Vocabulary,
    target: Vocabulary,
    limits: tuple[int, int],
    deduplicate: bool,
    skipped: Skipped,
) -> Iterator[tuple[list[list[int]], list[list[int]]]]:
    """Yield the lists of source ids and of target ids of the pairs that are kept, for 4096 pairs at a time.

    ``limits`` are the largest numbers of tokens of source and target. The others are counted in ``skipped``. ``target``
    may be :class:`ClassLabels`.
    """
    for name, limit in zip(("max_tokens", "max_target_tokens"), limits, strict=True):
        if limit < 1:
            raise ArgumentError(name, f"expected 1 or more, got {limit}")
    stream = iter(without_duplicates(pairs, skipped) if deduplicate else pairs)
    while chunk := list(itertools.islice(stream, _CHUNK)):
        sources = source.encode_batch([pair[0] for pair in chunk])
        targets = target.encode_batch([pair[1] for pair in chunk])
        kept: tuple[list[list[int]], list[list[int]]] = ([], [])
        for ids, others in zip(sources, targets, strict=True):
            if not ids or not others:
                skipped.empty += 1
            elif len(ids) > limits[0] or len(others) > limits[1]:
                skipped.too_long += 1
            else:
                kept[0].append(ids)
                kept[1].append(others)
        yield kept
