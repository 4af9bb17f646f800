"""Finding the best continuations among all tokens of a large vocabulary, quickly."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["log_probabilities", "top_continuations"]

_GROUP = 64  # tokens whose maximum is looked at first


def log_probabilities(scores: Tensor) -> Tensor:
    """``log_softmax`` of ``(...,v)`` in place."""
    return scores.sub_(scores.logsumexp(dim=-1, keepdim=True))


def top_continuations(scores: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The best ``count`` of ``scores (n,w,v)``: values, the hypothesis each continues, and the token, ``(n,count)``.

    >>> scores = torch.tensor([[[0.1, 0.9, 0.3], [0.8, 0.2, 0.7]]])
    >>> values, parents, tokens = top_continuations(scores, 3)
    >>> parents, tokens
    (tensor([[0, 1, 1]]), tensor([[1, 0, 2]]))
    """
    size = scores.shape[2]
    values, places = _top(scores.flatten(1), min(count, scores.shape[1] * size))
    return values, places // size, places % size


def _top(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """``topk`` of ``(n,x)``, sorted; the best are searched for only in the groups with the best maxima."""
    n, size = scores.shape
    whole = size // _GROUP * _GROUP
    if whole // _GROUP <= 2 * count:
        return scores.topk(count, dim=1)
    groups = scores[:, :whole].unflatten(1, (-1, _GROUP))  # (n,g,64)
    best = groups.amax(dim=2).topk(count, dim=1).indices  # (n,count)
    near = groups.gather(1, best[..., None].expand(-1, -1, _GROUP)).flatten(1)  # (n,count*64)
    places = (best[..., None] * _GROUP + torch.arange(_GROUP, device=scores.device)).flatten(1)
    rest = torch.arange(whole, size, device=scores.device).expand(n, -1)
    near, places = torch.cat([near, scores[:, whole:]], dim=1), torch.cat([places, rest], dim=1)
    values, found = near.topk(count, dim=1)
    return values, places.gather(1, found)
