"""The state of a model between two decoding steps, with caches for hypotheses and source sentences."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor

from regard.errors import ShapeError
from regard.layers import KeyValueCache
from regard.masks.stored import StoredMask
from regard.shapes import Grid

__all__ = ["Memory", "SourcePadding", "Spare", "StepCache", "TransformerState", "as_rows", "source_padding"]

# The number of steps that memory is first allocated for. It is doubled when full.
_CAPACITY = 32


class SourcePadding(StoredMask):
    """A padding mask for states computed by Regard's own models.

    Other masks replace hidden keys and values by zeros, because they may hold NaN. The states of these models are
    always finite, so a weight of 0 is enough to mask them. This saves time in every layer and step.
    """

    def seen_keys(self, grid: Grid) -> Tensor | None:
        """Return None, so that no keys are replaced by zeros."""
        return None


def source_padding(lengths: Tensor | None, size: int) -> SourcePadding | None:
    """Make a mask that hides the positions from ``lengths (b,)`` on in sentences ``(b,s)`` of ``size`` s.

    Returns None if ``lengths`` is None.

    >>> source_padding(torch.tensor([1, 3]), 3).keep.int()[:, 0, 0]
    tensor([[1, 0, 0],
            [1, 1, 1]], dtype=torch.int32)
    """
    if lengths is None:
        return None
    keep = torch.arange(size, device=lengths.device) < lengths[:, None]  # (b,s)
    return SourcePadding(keep[:, None, None])


@dataclass
class Memory:
    """The output of the encoder, with one state for each source token.

    ``lengths`` is None if there is no padding. A recurrent decoder also uses ``keys``, the projected states, and
    ``final``, one vector for the whole sentence. A model with a copy mechanism uses ``tokens``, the ids of the source,
    and ``keys``, those of its copy attention.
    """

    states: Tensor  # (b,s,m)
    lengths: Tensor | None  # (b,)
    keys: Tensor | None = None  # (b,s,a)
    final: Tensor | None = None  # (b,m)
    tokens: Tensor | None = None  # (b,s)

    def padding(self) -> SourcePadding | None:
        """Return the mask that hides the padding, or None if there is none."""
        return source_padding(self.lengths, self.states.shape[1])

    def keep(self, sentences: Tensor) -> Memory:
        """Return a memory of the sentences with these indices only, in the order given."""
        parts = (self.states, self.lengths, self.keys, self.final, self.tokens)
        return Memory(*(None if part is None else part[sentences] for part in parts))  # type: ignore[arg-type]


class Spare:
    """A spare buffer that the caches of one state share when they are reordered.

    A cache copies its rows into the spare buffer and leaves its old buffer in ``held``, the spare for the next cache.
    """

    def __init__(self):
        self.held: Tensor | None = None

    def take(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """Return an uninitialised buffer of this shape and of the dtype of ``like``.

        It is the spare buffer if that fits, and a new one otherwise. Either way there is no spare buffer afterwards.
        """
        buffer, self.held = self.held, None
        if buffer is not None and buffer.shape == shape and buffer.dtype == like.dtype:
            return buffer
        return like.new_empty(shape)


class StepCache(KeyValueCache):
    """A key-value cache of hypotheses with memory preallocated for many steps.

    The buffers are ``(capacity,b*w,h,d)``, so a new step is written at the end without copying earlier ones. If the
    keys require a gradient, it behaves as its base class :class:`KeyValueCache`, which never writes in place.

    >>> cache = StepCache(Spare())
    >>> k, v = cache.append(torch.ones(2, 3, 1, 5), torch.ones(2, 3, 1, 5))
    >>> k, v = cache.append(torch.ones(2, 3, 1, 5), torch.ones(2, 3, 1, 5))
    >>> cache.reorder(torch.tensor([1, 1, 0]))
    >>> cache.keys.shape
    torch.Size([3, 3, 2, 5])
    """

    def __init__(self, spare: Spare):
        super().__init__()
        self.spare = spare
        self.steps: tuple[Tensor, Tensor] | None = None  # two of (capacity,b*w,h,d)

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add keys and values ``(b*w,h,n,d)`` of n new positions, and return all keys and values ``(b*w,h,t,d)``.

        Raises ShapeError if the number of hypotheses is not that of the cache.
        """
        if k.requires_grad or (self.steps is None and self.keys is not None):
            self.steps = None
            return super().append(k, v)
        old = self.length
        new = old + k.shape[-2]
        self._check(k)
        if self.steps is not None and self.steps[0].dtype != k.dtype:  # after compiled steps in float32
            self.steps = self.steps[0].to(k.dtype), self.steps[1].to(k.dtype)
        if self.steps is None:
            self.steps = tuple(_allocated(x, max(_CAPACITY, new)) for x in (k, v))  # type: ignore[assignment]
        elif new > self.steps[0].shape[0]:
            self.steps = tuple(_enlarged(x, old, 2 * new) for x in self.steps)  # type: ignore[assignment]
        for steps, x in zip(self.steps, (k, v), strict=True):  # type: ignore[arg-type]
            steps[old:new] = x.permute(2, 0, 1, 3)
        return self._view(new)

    def reorder(self, rows: Tensor) -> None:
        """Replace the hypothesis in row ``i`` by that of the old row ``rows[i]``, in place.

        The number of rows may change.
        """
        if self.steps is None:
            super().reorder(rows)
            return
        moved, length = [], self.length
        for steps in self.steps:
            place = self.spare.take((steps.shape[0], len(rows), *steps.shape[2:]), steps)
            torch.index_select(steps[:length], 1, rows, out=place[:length])
            self.spare.held = steps
            moved.append(place)
        self.steps = moved[0], moved[1]
        self._view(length)

    def reserve(self, least: int, shape: tuple[int, int, int]) -> tuple[Tensor, Tensor]:
        """Return float32 buffers ``(capacity,b*w,h,d)`` of keys and values with room for ``least`` positions.

        They hold the keys and values of the cache. ``shape`` is ``(b*w,h,d)``, for an empty cache. The positions that
        the caller writes become part of the cache by :meth:`settle`.
        """
        if self.steps is None and self.keys is not None and self.values is not None:
            self.steps = self.keys.permute(2, 0, 1, 3), self.values.permute(2, 0, 1, 3)
        if self.steps is None:
            capacity = max(_CAPACITY, least)
            self.steps = torch.empty(capacity, *shape), torch.empty(capacity, *shape)
        if least > self.steps[0].shape[0]:
            self.steps = tuple(_enlarged(x, self.length, 2 * least) for x in self.steps)  # type: ignore[assignment]
        self.steps = tuple(x.float().contiguous() for x in self.steps)  # type: ignore[assignment]
        return self.steps  # type: ignore[return-value]

    def settle(self, length: int) -> None:
        """Make the first ``length`` positions of the reserved buffers the content of the cache."""
        self._view(length)

    def _check(self, k: Tensor) -> None:
        cached = None if self.steps is None else self.steps[0].shape[1:]  # (b*w,h,d)
        new = (*k.shape[:2], k.shape[3])
        if cached is not None and cached != new:
            raise ShapeError(
                "tokens",
                f"{new[0]} hypotheses, but the state has {cached[0]}",
                "call state.reorder(rows) with one row for each hypothesis",
            )

    def _view(self, length: int) -> tuple[Tensor, Tensor]:
        assert self.steps is not None
        self.keys, self.values = (steps[:length].permute(1, 2, 0, 3) for steps in self.steps)  # (b*w,h,t,d)
        return self.keys, self.values

    def reset(self) -> None:
        """Empty the cache, for the next sequence."""
        super().reset()
        self.steps = None


@dataclass
class TransformerState:
    """The caches of all decoder layers, and the number of tokens so far (``length``).

    ``self_caches`` are the caches of self-attention, with a row for each hypothesis. The hypotheses of a sentence are
    neighbouring rows. ``cross_caches`` are those of cross-attention, with a row for each sentence, which its hypotheses
    share. The list is empty without cross-attention.

    ``compiled`` are the compiled steps of the decoder, False if it has none, and None before the first step. They write
    into the buffers of the caches, and ``unsettled`` says that :meth:`settle` has to be called before the caches are
    used.
    """

    memory: Memory | None
    self_caches: list[KeyValueCache] = field(default_factory=list)
    cross_caches: list[KeyValueCache] = field(default_factory=list)
    length: int = 0
    compiled: Any = None
    unsettled: bool = False

    def settle(self) -> None:
        """Add the keys and values of compiled steps to the caches."""
        if self.unsettled:
            for cache in self.self_caches:
                cast(StepCache, cache).settle(self.length)
            self.unsettled = False

    def reorder(self, rows: Tensor) -> None:
        """Replace the hypothesis in row ``i`` by that of the old row ``rows[i]``, in place.

        The number of rows may change. The caches of cross-attention are not changed.
        """
        self.settle()
        for cache in self.self_caches:
            cache.reorder(rows)

    def keep(self, sentences: Tensor, hypotheses: int) -> None:
        """Keep only the sentences with these indices, each of which has ``hypotheses`` rows, in place."""
        self.reorder(as_rows(sentences, hypotheses))
        for cache in self.cross_caches:
            cache.reorder(sentences)
        if self.memory is not None:
            self.memory = self.memory.keep(sentences)


def as_rows(sentences: Tensor, hypotheses: int) -> Tensor:
    """Return the row indices of all hypotheses of the sentences with these indices.

    ``hypotheses`` is the number of rows of each sentence.

    >>> as_rows(torch.tensor([0, 2]), 3)
    tensor([0, 1, 2, 6, 7, 8])
    """
    offsets = torch.arange(hypotheses, device=sentences.device)
    return (sentences[:, None] * hypotheses + offsets).flatten()


def _allocated(x: Tensor, capacity: int) -> Tensor:
    """Allocate a buffer ``(capacity,b*w,h,d)`` for keys or values like ``x (b*w,h,n,d)``."""
    rows, heads, _, width = x.shape
    return x.new_empty(capacity, rows, heads, width)


def _enlarged(steps: Tensor, length: int, capacity: int) -> Tensor:
    """Return a buffer for ``capacity`` steps with a copy of the first ``length`` steps."""
    larger = steps.new_empty(capacity, *steps.shape[1:])
    larger[:length] = steps[:length]
    return larger
