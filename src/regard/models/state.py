"""Between two steps of decoding: what a model remembers of each hypothesis and of each source sentence."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.errors import ShapeError
from regard.layers import KeyValueCache
from regard.masks.stored import Stored
from regard.shapes import Grid

__all__ = ["Memory", "SourcePadding", "Spare", "StepCache", "TransformerState", "as_rows", "source_padding"]

_CAPACITY = 32  # steps that memory is set aside for at first; doubled when they are full


class SourcePadding(Stored):
    """Padding of a sequence that a model of ours has made itself.

    What it hides is finite, so that a weight of zero is enough: nothing has to be replaced by zeros first, at every
    step and in every layer again.
    """

    def seen_keys(self, grid: Grid) -> Tensor | None:
        """None: no key needs blanking."""
        return None


def source_padding(lengths: Tensor | None, size: int) -> SourcePadding | None:
    """What hides the rows from ``lengths (b,)`` on of sentences ``(b,s)``; None where there are none.

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
    """What the encoder made of the source: one row for each of its tokens."""

    states: Tensor  # (b,s,m)
    lengths: Tensor | None  # (b,); None where no row is padding
    keys: Tensor | None = None  # (b,s,a): what a recurrent decoder's queries are compared with
    final: Tensor | None = None  # (b,m): the whole sentence in one vector, for a recurrent decoder

    def padding(self) -> SourcePadding | None:
        """What hides the padding from the decoder."""
        return source_padding(self.lengths, self.states.shape[1])

    def keep(self, sentences: Tensor) -> Memory:
        """The memory of some of the sentences."""
        parts = (self.states, self.lengths, self.keys, self.final)
        return Memory(*(None if part is None else part[sentences] for part in parts))  # type: ignore[arg-type]


class Spare:
    """Memory that the caches of one state take turns with: the old place of one is the new place of the next."""

    def __init__(self):
        self.held: Tensor | None = None

    def take(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """Memory of this shape; what is in it is left over."""
        held, self.held = self.held, None
        if held is not None and held.shape == shape and held.dtype == like.dtype:
            return held
        return like.new_empty(shape)


class StepCache(KeyValueCache):
    """Keys and values of hypotheses, step after step, in memory set aside for many steps.

    Steps lie behind one another, ``(t,b*w,h,d)``: a new step is written at the end and copies none of the earlier
    ones. Where gradients are wanted it is the :class:`KeyValueCache` it comes from, which writes over nothing.

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
        """Add the keys and values ``(b*w,h,n,d)`` of new positions; give all of them."""
        if k.requires_grad or (self.steps is None and self.keys is not None):
            self.steps = None
            return super().append(k, v)
        held = self.length
        new = held + k.shape[-2]
        self._check(k)
        if self.steps is None:
            self.steps = tuple(_set_aside(x, max(_CAPACITY, new)) for x in (k, v))  # type: ignore[assignment]
        elif new > self.steps[0].shape[0]:
            self.steps = tuple(_enlarged(x, held, 2 * new) for x in self.steps)  # type: ignore[assignment]
        for steps, x in zip(self.steps, (k, v), strict=True):  # type: ignore[arg-type]
            steps[held:new] = x.permute(2, 0, 1, 3)
        return self._show(new)

    def reorder(self, rows: Tensor) -> None:
        """Keep these rows, in this order."""
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
        self._show(length)

    def _check(self, k: Tensor) -> None:
        held = None if self.steps is None else self.steps[0].shape[1:]  # (b*w,h,d)
        given = (*k.shape[:2], k.shape[3])
        if held is not None and held != given:
            raise ShapeError(
                "tokens",
                f"{given[0]} hypotheses, but the state has {held[0]}",
                "state.reorder(rows) gives it as many as there are rows",
            )

    def _show(self, length: int) -> tuple[Tensor, Tensor]:
        assert self.steps is not None
        self.keys, self.values = (steps[:length].permute(1, 2, 0, 3) for steps in self.steps)  # (b*w,h,t,d)
        return self.keys, self.values

    def reset(self) -> None:
        """Forget everything, for the next sequence."""
        super().reset()
        self.steps = None


@dataclass
class TransformerState:
    """Caches of the decoder's layers; each source sentence has its keys once, whatever the number of hypotheses."""

    memory: Memory | None
    own: list[KeyValueCache] = field(default_factory=list)  # rows: sentences times hypotheses
    cross: list[KeyValueCache] = field(default_factory=list)  # rows: sentences
    length: int = 0

    def reorder(self, rows: Tensor) -> None:
        """Let each hypothesis go on from the row given for it."""
        for cache in self.own:
            cache.reorder(rows)

    def keep(self, sentences: Tensor, hypotheses: int) -> None:
        """Forget all sentences but these."""
        self.reorder(as_rows(sentences, hypotheses))
        for cache in self.cross:
            cache.reorder(sentences)
        if self.memory is not None:
            self.memory = self.memory.keep(sentences)


def as_rows(sentences: Tensor, hypotheses: int) -> Tensor:
    """The rows of all hypotheses of some sentences.

    >>> as_rows(torch.tensor([0, 2]), 3)
    tensor([0, 1, 2, 6, 7, 8])
    """
    offsets = torch.arange(hypotheses, device=sentences.device)
    return (sentences[:, None] * hypotheses + offsets).flatten()


def _set_aside(x: Tensor, capacity: int) -> Tensor:
    """Memory for so many steps like ``x (b*w,h,n,d)``."""
    rows, heads, _, width = x.shape
    return x.new_empty(capacity, rows, heads, width)


def _enlarged(steps: Tensor, held: int, capacity: int) -> Tensor:
    """The same steps in more memory."""
    larger = steps.new_empty(capacity, *steps.shape[1:])
    larger[:held] = steps[:held]
    return larger
