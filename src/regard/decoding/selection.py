"""Fast selection of the best continuations from a large vocabulary."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import ArgumentError
from regard.shapes import wide_dtype

__all__ = ["Allowed", "top_continuations"]

# The number of tokens in a group. The maxima of the groups are compared first.
_GROUP = 64


@dataclass(frozen=True)
class Allowed:
    """The constraints on the next token.

    ``banned`` tokens are never allowed, and ``eos`` is not allowed before ``min_length`` tokens.
    """

    eos: int
    banned: tuple[int, ...] = ()
    min_length: int = 0

    def log_probabilities(self, scores: Tensor, written: int) -> Tensor:
        """Convert logits ``(...,v)`` to log-probabilities, with -inf for tokens that are not allowed.

        ``written`` is the number of tokens generated so far. The others are not renormalised.

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
    far. Returns the sums, the index of the continued hypothesis, and the token, ``(n,count)`` each.

    >>> scores = torch.tensor([[[0.1, 0.9, 0.3], [0.8, 0.2, 0.7]]])
    >>> values, parents, tokens = top_continuations(scores, torch.tensor([[0.0, 1.0]]), 3)
    >>> parents, tokens
    (tensor([[1, 1, 1]]), tensor([[0, 2, 1]]))
    """
    w, size = scores.shape[1:]
    count = min(count, w * size)
    if w * (size // _GROUP) <= 2 * count:
        values, places = (scores + totals[..., None]).flatten(1).topk(count, dim=1)
    else:
        places = _candidates(scores, totals, count)  # (n,x)
        candidates = scores.flatten(1).gather(1, places) + totals.gather(1, places // size)
        values, best = candidates.topk(count, dim=1)
        places = places.gather(1, best)
    return values, places // size, places % size


def _candidates(scores: Tensor, totals: Tensor, count: int) -> Tensor:
    """Return the flat indices of candidates that include the best ``count`` continuations, ``(n,x)``.

    The candidates are the tokens of the ``count`` groups with the largest maxima, and the tokens after the last whole
    group.
    """
    n, w, size = scores.shape
    whole = size // _GROUP * _GROUP
    groups = scores[..., :whole].unflatten(2, (-1, _GROUP))  # (n,w,g,64)
    maxima = groups.amax(dim=3) + totals[..., None]  # (n,w,g)
    best = maxima.flatten(1).topk(count, dim=1).indices  # (n,count)
    g = whole // _GROUP
    first = best // g * size + best % g * _GROUP  # (n,count), the start of each group
    inside = torch.arange(_GROUP, device=scores.device)
    places = (first[..., None] + inside).flatten(1)
    if whole == size:
        return places
    ends = torch.arange(w, device=scores.device)[:, None] * size
    rest = (ends + torch.arange(whole, size, device=scores.device)).flatten()  # (w*r,)
    return torch.cat([places, rest.expand(n, -1)], dim=1)
