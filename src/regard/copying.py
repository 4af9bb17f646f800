"""The mixture of generated and copied tokens of a pointer-generator (See, Liu & Manning 2017).

The probability of a token w is ``g * softmax(logits)[w] + (1 - g) * c(w)``. The gate ``g`` is the probability of
generating, and ``c(w)`` is the sum of the attention weights of the source positions that hold w. The output layer of a
model and its training loss both compute this mixture, from :class:`CopyStates`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from regard.shapes import wide_dtype

__all__ = ["COPY_ATTENTION", "CopyStates", "copied_shares", "copy_gains", "mixed_log_probabilities"]


# The name of the copy attention in the records of every model that has one.
COPY_ATTENTION = "copy_attention"


class CopyStates(NamedTuple):
    """The hidden states of a decoder with a copy mechanism, which its output layer takes in place of a tensor.

    ``gate`` holds the logits of the probability of generating a token. ``weights`` is the copy attention, which is 0 at
    padding. ``source`` holds the ids of the source tokens.
    """

    hidden: Tensor  # (b,t,m)
    gate: Tensor  # (b,t)
    weights: Tensor  # (b,t,s)
    source: Tensor  # (b,s)


def copied_shares(weights: Tensor, source: Tensor) -> tuple[Tensor, Tensor]:
    """Return the copy probability of the token at each source position, and 1 / its number of occurrences.

    ``weights (b,t,s)`` is the copy attention, and ``source (b,s)`` holds the tokens. The results are ``(b,t,s)`` and
    ``(b,s)``. A token that occurs n times has the sum of its n weights at each of its positions, and a share of 1 / n.

    >>> weights, source = torch.tensor([[[0.5, 0.2, 0.3]]]), torch.tensor([[7, 4, 7]])
    >>> copied_shares(weights, source)
    (tensor([[[0.8000, 0.2000, 0.8000]]]), tensor([[0.5000, 1.0000, 0.5000]]))
    """
    same = (source[:, :, None] == source[:, None, :]).to(weights.dtype)  # (b,s,s)
    with torch.autocast(weights.device.type, enabled=False):
        return weights @ same, 1 / same.sum(dim=-1)


def copy_gains(generated: Tensor, gate: Tensor, copied: Tensor) -> Tensor:
    """Return by how much copying raises the log-probability of tokens, ``log(1 + (1 - g) * c / (g * p))``.

    ``generated`` is ``log(g * p)``, the log-probability of generating the tokens. ``gate`` are the logits of g, and
    ``copied`` the copy probabilities c. All have one shape. The gain and its gradients are 0 where c is 0.

    >>> p, c = torch.tensor([0.2, 0.2]), torch.tensor([0.6, 0.0])
    >>> gain = copy_gains((0.5 * p).log(), torch.zeros(2), c)
    >>> ((0.5 * p).log() + gain).exp()
    tensor([0.4000, 0.1000])
    """
    # The derivative 1 / c of a subnormal number would overflow.
    nothing = copied < torch.finfo(copied.dtype).tiny
    log_copied = copied.masked_fill(nothing, 1.0).log() + logsigmoid(-gate)
    ratio = (log_copied - generated).masked_fill(nothing, -torch.inf)
    return torch.logaddexp(ratio, torch.zeros_like(ratio))


def mixed_log_probabilities(logits: Tensor, states: CopyStates) -> Tensor:
    """Return the log-probabilities ``(b,t,v)`` of the mixture, for the ``logits (b,t,v)`` of generating.

    They are computed in float32, or in float64 for logits in float64.

    >>> states = CopyStates(torch.zeros(1, 1, 2), torch.zeros(1, 1), torch.ones(1, 1, 1), torch.tensor([[2]]))
    >>> mixed_log_probabilities(torch.zeros(1, 1, 4), states).exp()
    tensor([[[0.1250, 0.1250, 0.6250, 0.1250]]])
    """
    wide = wide_dtype(logits.dtype)
    gate = states.gate.to(wide)[..., None]  # (b,t,1)
    generated = logits.log_softmax(dim=-1, dtype=wide)  # (b,t,v)
    # In place where no gradient is needed, because the vocabulary is large.
    in_place = not generated.requires_grad
    generated = generated.add_(logsigmoid(gate)) if in_place else generated + logsigmoid(gate)
    copied, shares = copied_shares(states.weights.to(wide), states.source)  # (b,t,s), (b,s)
    places = states.source[:, None].expand(copied.shape).long()  # (b,t,s)
    gains = copy_gains(generated.gather(-1, places), gate.expand(copied.shape), copied)  # (b,t,s)
    # A token of n positions gets a share of 1 / n of its gain from each.
    add = generated.scatter_add_ if in_place else generated.scatter_add
    return add(-1, places, gains * shares[:, None])
