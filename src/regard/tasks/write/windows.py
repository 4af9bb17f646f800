"""Parts of a text that a language model is trained on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["TextWindows", "WindowBatch"]


@dataclass(frozen=True)
class WindowBatch:
    """A batch of ``b`` parts of a text, each with the token to predict at every place."""

    tokens: Tensor  # (b, n), the start token and the text without the last token of the part
    targets: Tensor  # (b, n), the text

    @property
    def tokens_read(self) -> int:
        """The number of tokens that the model reads."""
        return self.tokens.numel()

    def __len__(self) -> int:
        return len(self.tokens)

    def to(self, device: torch.device | str) -> WindowBatch:
        """Return the batch on a device."""
        return WindowBatch(self.tokens.to(device), self.targets.to(device))


class TextWindows:
    """A text as parts of ``size`` tokens without gaps, which begin elsewhere in every epoch.

    ``ids (n,)`` are at least ``size`` tokens. Every part begins with the token ``start``, so that the model learns to
    predict its first token too.

    >>> data = TextWindows(np.arange(10, 21), size=4, start=1)
    >>> batch = data.batch(np.array([0, 4]))
    >>> batch.tokens.tolist(), batch.targets.tolist()
    ([[1, 10, 11, 12], [1, 14, 15, 16]], [[10, 11, 12, 13], [14, 15, 16, 17]])
    """

    def __init__(self, ids: np.ndarray, size: int, start: int, manifest: dict[str, Any] | None = None):
        self.ids, self.size, self.start, self.manifest = ids, size, start, manifest or {}
        # There are so many parts wherever the first one begins.
        self.count = max(1, (len(ids) - size + 1) // size)

    def places(self, epoch: int, seed: int) -> np.ndarray:
        """Return the first places of the parts of an epoch, ``(count,)``, in random order."""
        rng = np.random.default_rng([seed, epoch])
        first = int(rng.integers(0, min(self.size - 1, len(self.ids) - self.count * self.size) + 1))
        return first + self.size * rng.permutation(self.count)

    def batches(
        self, epoch: int, start: int, *, tokens: int, seed: int, rank: int = 0, world: int = 1
    ) -> Iterator[WindowBatch]:
        """Yield the share of process ``rank`` of ``world`` in the batches of an epoch, from batch ``start`` on.

        ``tokens`` is the largest number of tokens of a whole batch.
        """
        places, rows = self.places(epoch, seed), self.rows(tokens, world)
        for first in range(start * rows, self._used(rows, world), rows):
            yield self.batch(places[first : first + rows][rank::world])

    def batches_per_epoch(self, *, tokens: int, world: int = 1) -> int:
        """Return the number of batches of an epoch."""
        rows = self.rows(tokens, world)
        return -(-self._used(rows, world) // rows)

    def _used(self, rows: int, world: int) -> int:
        """Return the number of parts in an epoch, without a last batch that is too small for all processes."""
        rest = self.count % rows
        return self.count - rest if rest < world else self.count

    def rows(self, tokens: int, world: int) -> int:
        """Return the number of parts in a batch, at least one for each process."""
        return max(world, tokens // self.size)

    def batch(self, places: np.ndarray) -> WindowBatch:
        """Return the parts that begin at ``places (b,)`` as a batch."""
        targets = self.ids[places[:, None] + np.arange(self.size)].astype(np.int64)  # (b,n)
        tokens = np.concatenate([np.full((len(places), 1), self.start), targets[:, :-1]], axis=1)  # (b,n)
        return WindowBatch(torch.from_numpy(tokens), torch.from_numpy(targets))
