"""Dense attention, which stores scores and weights as tensors.

It is used for additive and callable scores, dropout, trained biases, empty inputs, derivatives that the fused kernel
does not support, and when the weights are returned. Half precision is computed in float32.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.errors import DtypeError, ShapeError
from regard.kernels.additive import additive_scores
from regard.scores import Prepared
from regard.shapes import axes, wide_dtype

__all__ = ["callable_scores", "expand_heads", "masked_softmax", "pair_scores", "weighted_sum"]


def expand_heads(x: Tensor, heads: int) -> Tensor:
    """Repeat keys or values ``(b,g,k,d)`` of grouped heads for every query head, ``(b,h,k,d)``."""
    if x.shape[1] == heads:
        return x
    b, groups, n, d = x.shape
    return x[:, :, None].expand(b, groups, heads // groups, n, d).reshape(b, heads, n, d)


def pair_scores(ready: Prepared) -> Tensor:
    """Return the scores ``(b,h,q,k)`` of ``q (b,h,q,d)`` and ``k (b,g,k,d)``, where g divides h, in the wide dtype."""
    wide = wide_dtype(ready.q.dtype)
    q, k = ready.q.to(wide), ready.k.to(wide)
    (b, h, n, d), (groups, n_k) = q.shape, k.shape[1:3]
    # The query heads of a group are stacked along the queries, so k need not be copied.
    q = q.reshape(b, groups, h // groups * n, d)
    if ready.v is None:
        scores = (q * ready.scale) @ k.transpose(-2, -1)
    else:
        v = ready.v.to(wide) * ready.scale
        scores = additive_scores(q.reshape(b * groups, -1, d), k.reshape(b * groups, n_k, d), v)
    return scores.reshape(b, h, n, n_k)


def callable_scores(score: Callable[[Tensor, Tensor], Tensor], q: Tensor, k: Tensor) -> Tensor:
    """Return the scores ``(b,h,q,k)`` of a callable for ``q (b,h,q,d)`` and ``k (b,g,k,d)``, in the wide dtype.

    The callable gets the keys repeated to h heads. A result of another shape raises ShapeError.
    """
    keys = expand_heads(k, q.shape[1])
    try:
        scores = score(q, keys)
    except TypeError:
        try:
            inspect.signature(score).bind(q, keys)
        except TypeError:
            raise DtypeError("score", "the callable must take q and k, and nothing else") from None
        raise
    expected = (*q.shape[:3], k.shape[2])
    if not isinstance(scores, Tensor) or tuple(scores.shape) != expected:
        got = axes(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
        raise ShapeError("score", f"the callable must return (b,h,q,k) = {axes(expected)}, got {got}")
    return scores.to(wide_dtype(q.dtype))


def masked_softmax(scores: Tensor, keep: Tensor | None) -> Tensor:
    """Return the softmax over the keys, with 0 for masked pairs and for all of a fully masked row.

    ``keep`` is True where a pair is not masked. None masks nothing.

    >>> masked_softmax(torch.zeros(2, 2), torch.tensor([[True, False], [False, False]]))
    tensor([[1., 0.],
            [0., 0.]])
    """
    if keep is None:
        return torch.softmax(scores, dim=-1)
    some = keep.any(dim=-1, keepdim=True)
    # A fully masked row would be 0/0, so its scores become 0 before the softmax and its weights 0 after it.
    weights = torch.softmax(scores.masked_fill(~keep & some, float("-inf")).masked_fill(~some, 0.0), dim=-1)
    return weights.masked_fill(~keep, 0.0)


def weighted_sum(weights: Tensor, v: Tensor, dropout: float) -> Tensor:
    """Return ``weights (b,h,q,k)`` times ``v (b,g,k,e)`` in the dtype of the weights.

    ``dropout`` is the probability of dropping a weight before the product.
    """
    b, h, n, n_k = weights.shape
    groups = v.shape[1]
    if dropout:
        weights = F.dropout(weights, dropout)
    weights = weights.reshape(b, groups, h // groups * n, n_k)
    return (weights @ v.to(weights.dtype)).reshape(b, h, n, v.shape[-1])
