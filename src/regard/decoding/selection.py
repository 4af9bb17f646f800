"""Finding the best continuations among all tokens of a large vocabulary, quickly."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import ArgumentError
from regard.shapes import wide_dtype

__all__ = ["Allowed", "top_continuations"]

_GROUP = 64  # tokens whose maximum is looked at first


@dataclass(frozen=True)
class Allowed:
    """Which tokens may be written, and when a sentence may end."""

    eos: int
    banned: tuple[int, ...] = ()
    min_length: int = 0

    def log_probabilities(self, scores: Tensor, written: int) -> Tensor:
        """The model's own log-probabilities ``(...,v)``; minus infinity where a token may not follow ``written`` ones.

        >>> Allowed(eos=2, banned=(0,)).log_probabilities(torch.zeros(4), written=0).exp()
        tensor([0.0000, 0.2500, 0.2500, 0.2500])
        """
        found = scores.log_softmax(dim=-1, dtype=wide_dtype(scores.dtype))
        never = [*self.banned, self.eos] if written < self.min_length else list(self.banned)
        if never:
            self._check(never, scores.shape[-1])
            found[..., never] = -torch.inf
        return found

    @staticmethod
    def _check(tokens: list[int], size: int) -> None:
        if min(tokens) < 0 or max(tokens) >= size:
            raise ArgumentError("banned", f"tokens {tokens}, but the vocabulary has {size}")


def top_continuations(scores: Tensor, held: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The best ``count`` of ``scores (n,w,v)`` plus what each hypothesis has already, ``held (n,w)``.

    Gives the sums, the hypothesis each continues, and the token, all ``(n,count)``, best first.

    >>> scores = torch.tensor([[[0.1, 0.9, 0.3], [0.8, 0.2, 0.7]]])
    >>> values, parents, tokens = top_continuations(scores, torch.tensor([[0.0, 1.0]]), 3)
    >>> parents, tokens
    (tensor([[1, 1, 1]]), tensor([[0, 2, 1]]))
    """
    w, size = scores.shape[1:]
    count = min(count, w * size)
    if w * (size // _GROUP) <= 2 * count:
        values, places = (scores + held[..., None]).flatten(1).topk(count, dim=1)
    else:
        places = _near(scores, held, count)  # (n,x)
        near = scores.flatten(1).gather(1, places) + held.gather(1, places // size)
        values, found = near.topk(count, dim=1)
        places = places.gather(1, found)
    return values, places // size, places % size


def _near(scores: Tensor, held: Tensor, count: int) -> Tensor:
    """Where the best ``count`` are among others, ``(n,x)``: in the groups with the best maxima, or behind the last."""
    n, w, size = scores.shape
    whole = size // _GROUP * _GROUP
    groups = scores[..., :whole].unflatten(2, (-1, _GROUP))  # (n,w,g,64)
    maxima = groups.amax(dim=3) + held[..., None]  # (n,w,g)
    best = maxima.flatten(1).topk(count, dim=1).indices  # (n,count)
    g = whole // _GROUP
    first = best // g * size + best % g * _GROUP  # (n,count): where each group begins
    inside = torch.arange(_GROUP, device=scores.device)
    places = (first[..., None] + inside).flatten(1)
    if whole == size:
        return places
    ends = torch.arange(w, device=scores.device)[:, None] * size
    rest = (ends + torch.arange(whole, size, device=scores.device)).flatten()  # (w*r,)
    return torch.cat([places, rest.expand(n, -1)], dim=1)
