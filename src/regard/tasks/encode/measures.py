"""Measures of the prediction of hidden tokens, and of a baseline that knows the frequencies of the tokens alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from regard.errors import ArgumentError
from regard.tasks.encode.masking import Masking, ordinary_ids
from regard.text import BucketedBatches, TextPieces, Vocabulary
from regard.training.batch_progress import with_progress

__all__ = ["MaskedScores", "UnigramBaseline", "measure_masked"]

EVALUATION_TOKENS = 4096  # tokens of a batch that is measured


@dataclass(frozen=True)
class MaskedScores:
    """The accuracy of the predictions of hidden tokens in percent, and their perplexity."""

    tokens: int
    accuracy: float
    perplexity: float

    @classmethod
    def of(cls, right: int, losses: np.ndarray) -> MaskedScores:
        """Return the scores of a number of right tokens and of the losses of all tokens."""
        return cls(len(losses), 100 * right / len(losses), math.exp(min(float(losses.mean()), 700)))


@dataclass(frozen=True)
class UnigramBaseline:
    """The prediction of every hidden token by the frequencies of the tokens in the training texts.

    ``counts (vocabulary,)`` are these frequencies, to each of which 1 is added.
    """

    counts: np.ndarray

    def scores(self, labels: np.ndarray) -> MaskedScores:
        """Return the scores for the tokens that were hidden.

        >>> UnigramBaseline(np.array([7, 0, 1])).scores(np.array([0, 2])).accuracy
        50.0
        """
        smoothed = self.counts + 1.0
        losses = np.log(smoothed.sum()) - np.log(smoothed[labels])  # (positions,)
        return MaskedScores.of(int((labels == self.counts.argmax()).sum()), losses)


@torch.no_grad()
def measure_masked(
    model: nn.Module,
    pieces: TextPieces,
    vocabulary: Vocabulary,
    *,
    share: float = 0.15,
    seed: int = 0,
    device: torch.device | None = None,
) -> tuple[MaskedScores, np.ndarray]:
    """Hide tokens of pieces, and measure how well a model predicts them. Return the hidden tokens too.

    All hidden tokens are replaced by the mask. Which ones are hidden depends on the seed alone.
    """
    if len(pieces) == 0 or vocabulary.mask is None:
        raise ArgumentError("data", "there is nothing to measure on")
    masking = Masking(vocabulary.mask, ordinary_ids(vocabulary), share, seed, shown=False)
    specials = (int(vocabulary.framing.start is not None), 1)
    model.eval()
    right, losses, labels = 0, [], []
    for indices in with_progress(_batches(pieces), len(pieces)):
        batch = masking(pieces.batch(indices), 0, specials)
        if device is not None:
            batch = batch.to(device)
        logits = model(batch.tokens, batch.lengths, at=batch.hidden).float()  # (positions,vocabulary)
        found = functional.cross_entropy(logits, batch.labels, reduction="none")  # (positions,)
        right += int((logits.argmax(dim=-1) == batch.labels).sum())
        losses.append(found.double().cpu().numpy())
        labels.append(batch.labels.cpu().numpy())
    return MaskedScores.of(right, np.concatenate(losses)), np.concatenate(labels)


def _batches(pieces: TextPieces) -> Iterator[np.ndarray]:
    """Yield the indices of pieces of similar length."""
    plan = BucketedBatches(pieces, tokens=EVALUATION_TOKENS, shuffle=False, min_sentences=1)
    yield from plan.plan(0)
