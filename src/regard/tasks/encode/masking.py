"""Hiding of tokens that a model has to predict, as in BERT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.text import PieceBatch, PretrainedVocabulary, Vocabulary

__all__ = ["MaskedBatch", "Masking", "ordinary_ids"]


@dataclass(frozen=True)
class MaskedBatch:
    """A batch of pieces in which tokens are hidden."""

    tokens: Tensor  # (b, n)
    lengths: Tensor  # (b,)
    hidden: Tensor  # (b, n), True at the positions to predict
    labels: Tensor  # (positions,), the tokens that were there, in the order of ``hidden``

    @property
    def tokens_read(self) -> int:
        """The number of tokens with the special ones, without padding."""
        return int(self.lengths.sum())

    def __len__(self) -> int:
        return len(self.lengths)

    def to(self, device: torch.device | str) -> MaskedBatch:
        """Return the batch on a device."""
        parts = (self.tokens, self.lengths, self.hidden, self.labels)
        return MaskedBatch(*(part.to(device) for part in parts))


@dataclass(frozen=True)
class Masking:
    """Hides a ``share`` of the tokens of each piece, at least one, and never a special token.

    Of the chosen tokens, 80 % are replaced by ``mask``, 10 % by a random one of ``ordinary``, and 10 % stay. With
    ``shown=False`` all of them are replaced by ``mask``, to measure a model. The choice depends on the seed, on the
    epoch and on the index of the piece, not on the batch that the piece is in.
    """

    mask: int
    ordinary: np.ndarray  # (ids,), those that may replace a token
    share: float = 0.15
    seed: int = 0
    shown: bool = True

    def __call__(self, batch: PieceBatch, epoch: int, specials: tuple[int, int]) -> MaskedBatch:
        """Return a batch with hidden tokens.

        ``specials`` are the numbers of special tokens before and after each piece.
        """
        tokens, hidden = batch.tokens.numpy().copy(), np.zeros(batch.tokens.shape, dtype=bool)  # (b,n)
        before, after = specials
        for row, (index, length) in enumerate(
            zip(batch.indices.tolist(), batch.lengths.tolist(), strict=True)
        ):
            count = length - before - after
            rng = np.random.default_rng([self.seed, epoch, index])
            chosen = before + rng.permutation(count)[: max(1, round(self.share * count))]
            hidden[row, chosen] = True
            tokens[row, chosen] = self._replaced(tokens[row, chosen], rng)
        labels = batch.tokens[torch.from_numpy(hidden)]
        return MaskedBatch(torch.from_numpy(tokens), batch.lengths, torch.from_numpy(hidden), labels)

    def _replaced(self, tokens: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        draws = rng.random(len(tokens)) if self.shown else np.zeros(len(tokens))
        random = rng.choice(self.ordinary, len(tokens))
        return np.where(draws < 0.8, self.mask, np.where(draws < 0.9, random, tokens))


def ordinary_ids(vocabulary: Vocabulary) -> np.ndarray:
    """Return the ids of a vocabulary that are not special tokens."""
    special: Sequence[int] = range(len(vocabulary.specials))
    if isinstance(vocabulary, PretrainedVocabulary):
        special = vocabulary.special_ids()
    return np.setdiff1d(np.arange(len(vocabulary)), np.array(special, dtype=np.int64))
