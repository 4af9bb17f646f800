"""Between two steps of decoding: what a model remembers of each hypothesis and of each source sentence."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from regard.layers import KeyValueCache

__all__ = ["Memory", "TransformerState", "as_rows"]


@dataclass
class Memory:
    """What the encoder made of the source: one row for each of its tokens."""

    states: Tensor  # (b,s,m)
    lengths: Tensor | None  # (b,); None where no row is padding
    keys: Tensor | None = None  # (b,s,a): what a recurrent decoder's queries are compared with
    final: Tensor | None = None  # (b,m): the whole sentence in one vector, for a recurrent decoder

    def keep(self, sentences: Tensor) -> Memory:
        """The memory of some of the sentences."""
        parts = (self.states, self.lengths, self.keys, self.final)
        return Memory(*(None if part is None else part[sentences] for part in parts))  # type: ignore[arg-type]


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

    >>> import torch
    >>> as_rows(torch.tensor([0, 2]), 3)
    tensor([0, 1, 2, 6, 7, 8])
    """
    offsets = sentences.new_tensor(range(hypotheses))
    return (sentences[:, None] * hypotheses + offsets).flatten()
