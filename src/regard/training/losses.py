"""The cross entropy of a large vocabulary, without storing its scores.

The output layer and the loss are one step here: a few hundred tokens at a time, scores, probabilities and the
gradients of both inputs are made while they are still in the processor's cache. The tables of all tokens' scores
and probabilities, tokens times vocabulary, never exist.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.shapes import wide_dtype

__all__ = ["output_cross_entropy"]

_NUMBERS = 2**20  # scores held at a time: 4 MB of float32


def output_cross_entropy(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, *, smoothing: float = 0.0
) -> Tensor:
    """The sum over tokens of the cross entropy of ``hidden @ weight.T + bias``.

    ``hidden (n,m)``, ``weight (v,m)``, ``bias (v,)``, ``targets (n,)``. With ``smoothing`` each target keeps
    ``1 - smoothing`` of its probability and the rest is spread evenly over the vocabulary.

    >>> hidden, weight, targets = torch.eye(2), torch.eye(2), torch.tensor([0, 0])
    >>> output_cross_entropy(hidden, weight, None, targets)
    tensor(1.6265)
    >>> torch.nn.functional.cross_entropy(hidden @ weight.T, targets, reduction="sum")
    tensor(1.6265)
    """
    if bias is None:
        bias = weight.new_zeros(weight.shape[0])
    return _OutputCrossEntropy.apply(hidden, weight, bias, targets, smoothing)


class _OutputCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, smoothing: float
    ) -> Tensor:
        vocabulary = weight.shape[0]
        wanted = any(x.requires_grad for x in (hidden, weight, bias))
        loss = hidden.new_zeros((), dtype=wide_dtype(hidden.dtype))
        grad_hidden = torch.empty_like(hidden)
        grad_weight, grad_bias = torch.zeros_like(weight), torch.zeros_like(bias)
        rows = max(1, _NUMBERS // vocabulary)
        for start in range(0, hidden.shape[0], rows):
            part, gold = hidden[start : start + rows], targets[start : start + rows, None]
            scores = torch.addmm(bias, part, weight.T)  # (rows,v)
            right, top = scores.gather(1, gold), scores.amax(dim=1, keepdim=True)
            if smoothing:
                loss -= smoothing * scores.mean(dim=1).sum()
            shares = scores.sub_(top).exp_()  # one exponential a score, for the loss and for its gradient
            total = shares.sum(dim=1, keepdim=True)
            loss += (top + total.log() - (1 - smoothing) * right).sum()
            if not wanted:
                continue
            slope = shares.div_(total)  # the probabilities; less what they should be
            if smoothing:
                slope -= smoothing / vocabulary
            slope.scatter_add_(1, gold, torch.full_like(right, smoothing - 1))
            torch.mm(slope, weight, out=grad_hidden[start : start + rows])
            grad_weight.addmm_(slope.T, part)
            grad_bias += slope.sum(dim=0)
        ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        return loss

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        grad_hidden, grad_weight, grad_bias = ctx.saved_tensors
        return grad_hidden * grad, grad_weight * grad, grad_bias * grad, None, None
