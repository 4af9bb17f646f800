"""Constraints on the next token, and selection of the best continuations of a beam search."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import ArgumentError
from regard.shapes import wide_dtype
from regard.topk import largest_sums

__all__ = ["Allowed", "top_continuations"]


@dataclass(frozen=True)
class Allowed:
    """The constraints on the next token.

    ``banned`` tokens are never allowed. ``eos``, the id of the end of sentence, is not allowed before ``min_length``
    tokens are generated.
    """

    eos: int
    banned: tuple[int, ...] = ()
    min_length: int = 0

    def log_probabilities(self, scores: Tensor, written: int) -> Tensor:
        """Convert logits ``(...,v)`` to log-probabilities, with -inf for tokens that are not allowed.

        ``written`` is the number of tokens generated so far. The log-probabilities of allowed tokens are not
        renormalised. A banned token that is not in the vocabulary raises ArgumentError.

        >>> Allowed(eos=2, banned=(0,)).log_probabilities(torch.zeros(4), written=0).exp()
        tensor([0.0000, 0.2500, 0.2500, 0.2500])
        """
        log_probabilities = scores.log_softmax(dim=-1, dtype=wide_dtype(scores.dtype))
        forbidden = [*self.banned, self.eos] if written < self.min_length else list(self.banned)
        if forbidden:
            self._check(forbidden, scores.shape[-1])
            log_probabilities[..., forbidden] = -torch.inf
        return log_probabilities

    @staticmethod
    def _check(tokens: list[int], size: int) -> None:
        if min(tokens) < 0 or max(tokens) >= size:
            raise ArgumentError("banned", f"tokens {tokens}, but the vocabulary has {size}")


def top_continuations(scores: Tensor, totals: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the best ``count`` continuations of the hypotheses of each sentence, best first.

    ``scores (n,w,v)`` are the log-probabilities of the next token, and ``totals (n,w)`` those of the hypotheses so
    far. Returns the sums, the index of the continued hypothesis, and the token, ``(n,count)`` each. If there are fewer
    than ``count`` continuations, ``w * v``, all of them are returned.

    >>> scores = torch.tensor([[[0.1, 0.9, 0.3], [0.8, 0.2, 0.7]]])
    >>> values, parents, tokens = top_continuations(scores, torch.tensor([[0.0, 1.0]]), 3)
    >>> parents, tokens
    (tensor([[1, 1, 1]]), tensor([[0, 2, 1]]))
    """
    _, w, size = scores.shape
    return largest_sums(scores, totals, min(count, w * size))
