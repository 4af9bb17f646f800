"""Cross-entropy of models that generate or copy each token, over a large vocabulary in constant memory.

The loss depends on the logits of a token only through a few numbers, which are their log-sum-exp, their mean, and the
logits of the target and of the source tokens. As in :mod:`regard.training.losses`, these numbers and the gradients are
computed for a few hundred tokens at a time, and the full (tokens, vocabulary) matrices are never stored.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear, logsigmoid

from regard.copying import CopyStates, copied_shares, copy_gains
from regard.shapes import wide_dtype
from regard.training.losses import OutputLayer, is_in_blocks, product_dtype

__all__ = ["copy_cross_entropy"]

# The most logits in memory at once, 4 MB in float32.
_NUMBERS = 2**20


class _Tokens(NamedTuple):
    """The parts of n target tokens beside their hidden states.

    ``places`` are the ids of the target and, for label smoothing, of the source tokens, j in all.
    """

    gate: Tensor  # (n,), the logits of generating
    copied: Tensor  # (n,j), the copy probability of each of the places
    places: Tensor  # (n,j)
    # 1 / the number of occurrences of a source token, and 0 for the target.
    shares: Tensor  # (n,j)


def copy_cross_entropy(
    states: CopyStates,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    *,
    counted: Tensor | None = None,
    smoothing: float = 0.0,
) -> Tensor:
    """Return the cross-entropy of the mixture of generated and copied tokens, summed over the tokens.

    ``states`` are the hidden states of a model with ``copy=True``, and ``targets (b,t)`` the ids of the right tokens.
    ``weight (v,m)`` and ``bias (v,)`` are those of the output layer. ``counted (b,t)`` is False at padding of the
    targets, and by default every target counts. ``smoothing`` is label smoothing, which moves that share of the target
    probability evenly to the whole vocabulary.

    >>> states = CopyStates(torch.zeros(1, 1, 2), torch.zeros(1, 1), torch.ones(1, 1, 1), torch.tensor([[2]]))
    >>> copy_cross_entropy(states, torch.zeros(4, 2), None, torch.tensor([[2]])).neg().exp()
    tensor(0.6250)
    """
    if counted is None:
        counted = torch.ones_like(targets, dtype=torch.bool)
    hidden = states.hidden[counted]  # (n,m)
    tokens = _tokens(states, targets, counted, smoothing > 0)
    if not is_in_blocks(hidden):
        return _plain(hidden, weight, bias, tokens, smoothing)
    if bias is None:
        bias = weight.new_zeros(weight.shape[0])
    inputs = (hidden, weight, bias, tokens.gate, tokens.copied)
    with_grads = torch.is_grad_enabled() and any(x.requires_grad for x in inputs)
    others = (tokens.places, tokens.shares, smoothing, with_grads, product_dtype(hidden))
    # Autocast can be active on the CPU only here.
    with torch.autocast("cpu", enabled=False):
        return _CopyCrossEntropy.apply(*inputs, *others)


def _tokens(states: CopyStates, targets: Tensor, counted: Tensor, with_source: bool) -> _Tokens:
    """Return the parts of the counted target tokens, with the source tokens if they are needed."""
    wide = wide_dtype(states.hidden.dtype)
    weights, source = states.weights.to(wide), states.source
    right = (weights * (source[:, None] == targets[..., None])).sum(dim=-1, keepdim=True)  # (b,t,1)
    copied, places, shares = right, targets[..., None].long(), torch.zeros_like(right)
    if with_source:
        masses, share = copied_shares(weights, source)  # (b,t,s), (b,s)
        copied = torch.cat([right, masses], dim=-1)
        places = torch.cat([places, source[:, None].expand(masses.shape).long()], dim=-1)
        shares = torch.cat([shares, share[:, None].expand(masses.shape)], dim=-1)
    return _Tokens(states.gate.to(wide)[counted], copied[counted], places[counted], shares[counted])


def _mixture_loss(
    total: Tensor, mean: Tensor, picked: Tensor, tokens: _Tokens, smoothing: float, size: int
) -> Tensor:
    """Return the loss of n tokens, summed, from the log-sum-exp, the mean and some of their logits.

    ``total`` and ``mean`` are ``(n,)``, and ``picked (n,j)`` are the logits of ``tokens.places``.
    """
    generating = logsigmoid(tokens.gate) - total  # (n,)
    generated = picked + generating[:, None]  # (n,j)
    gains = copy_gains(generated, tokens.gate[:, None].expand(generated.shape), tokens.copied)  # (n,j)
    loss = (smoothing - 1) * (generated[:, 0] + gains[:, 0])  # (n,)
    if smoothing:
        # The mean of the log-probabilities of the whole vocabulary.
        everywhere = mean + generating + (gains * tokens.shares).sum(dim=1) / size
        loss = loss - smoothing * everywhere
    return loss.sum()


def _plain(hidden: Tensor, weight: Tensor, bias: Tensor | None, tokens: _Tokens, smoothing: float) -> Tensor:
    """Compute the same loss with torch's own functions, for torch.compile and half precision on other devices."""
    scores = linear(hidden, weight, bias)  # (n,v)
    scores = scores.to(wide_dtype(scores.dtype))
    picked = scores.gather(1, tokens.places)  # (n,j)
    mean = scores.mean(dim=1) if smoothing else tokens.gate  # (n,), not used without smoothing
    return _mixture_loss(scores.logsumexp(dim=1), mean, picked, tokens, smoothing, scores.shape[1])


class _CopyCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        hidden, _, _, gate, copied, places, shares, smoothing, with_grads, dtype = inputs
        needed = [with_grads and need for need in ctx.needs_input_grad[:5]]
        layer = OutputLayer(inputs[:3], needed[:3], dtype)
        small = [
            torch.zeros_like(x) if need else None for x, need in zip((gate, copied), needed[3:], strict=True)
        ]
        loss = hidden.new_zeros((), dtype=layer.wide)
        for block in layer.blocks(_NUMBERS):
            tokens = _Tokens(*(x[block] for x in (gate, copied, places, shares)))
            part_loss, slope, parts = _loss_and_slopes(layer.scores(block), tokens, smoothing, any(needed))
            loss += part_loss
            layer.add_gradients(block, slope)
            for whole, part in zip(small, parts, strict=False):
                if whole is not None:
                    whole[block] = part
        ctx.save_for_backward(*layer.gradients(), *small)
        return loss

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        scaled = [None if saved is None else saved * grad for saved in ctx.saved_tensors]
        return (*scaled, None, None, None, None, None)


def _loss_and_slopes(
    scores: Tensor, tokens: _Tokens, smoothing: float, slopes_too: bool
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """Return the loss of a few tokens, and its derivatives by their logits ``(rows,v)``, gates and copy probabilities.

    ``scores`` is overwritten. Without ``slopes_too``, the derivatives must not be used.
    """
    size = scores.shape[1]
    picked = scores.gather(1, tokens.places)  # (rows,j)
    mean = scores.mean(dim=1) if smoothing else tokens.gate  # (rows,), not used without smoothing
    top = scores.amax(dim=1, keepdim=True)
    # The exponentials are shared by the loss and its derivative.
    shares = scores.sub_(top).exp_()
    sums = shares.sum(dim=1, keepdim=True)
    total = (top + sums.log())[:, 0]  # (rows,)
    if not slopes_too:
        return _mixture_loss(total, mean, picked, tokens, smoothing, size), shares, ()
    leaves = [x.detach().requires_grad_() for x in (total, picked, tokens.gate, tokens.copied)]
    with torch.enable_grad():
        gate, copied = leaves[2:]
        some = tokens._replace(gate=gate, copied=copied)
        loss = _mixture_loss(leaves[0], mean, leaves[1], some, smoothing, size)
        by_total, by_picked, *small = torch.autograd.grad(loss, leaves)
    slope = shares.mul_(by_total[:, None] / sums)
    if smoothing:
        slope -= smoothing / size
    return loss.detach(), slope.scatter_add_(1, tokens.places, by_picked), tuple(small)
