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
    half = wide_dtype(hidden.dtype) != hidden.dtype
    if half or _is_autocast_on(hidden.device.type) or torch.compiler.is_compiling():
        return _plain(hidden, weight, bias, targets, smoothing)
    if bias is None:
        bias = weight.new_zeros(weight.shape[0])
    wanted = torch.is_grad_enabled() and any(x.requires_grad for x in (hidden, weight, bias))
    return _OutputCrossEntropy.apply(hidden, weight, bias, targets, smoothing, wanted)


def _is_autocast_on(device_type: str) -> bool:
    # To ask about a device that torch has no autocast for is an error.
    return torch.amp.is_autocast_available(device_type) and torch.is_autocast_enabled(device_type)


def _plain(hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float) -> Tensor:
    """The same in torch's own words: where autocast chooses dtypes, or a compiler does better than the blocks."""
    scores = torch.nn.functional.linear(hidden, weight, bias)  # (n,v)
    wide = scores.to(wide_dtype(scores.dtype))
    return torch.nn.functional.cross_entropy(wide, targets, reduction="sum", label_smoothing=smoothing)


class _OutputCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        hidden, weight, bias, targets, smoothing, wanted = inputs
        loss = hidden.new_zeros((), dtype=wide_dtype(hidden.dtype))
        needed = [wanted and need for need in ctx.needs_input_grad[:3]]
        grads = [torch.zeros_like(x) if need else None for x, need in zip(inputs[:3], needed, strict=True)]
        rows = max(1, _NUMBERS // weight.shape[0])
        for start in range(0, hidden.shape[0], rows):
            part = hidden[start : start + rows]  # (rows,m)
            gold = targets[start : start + rows, None]  # (rows,1)
            scores = torch.addmm(bias, part, weight.T)  # (rows,v)
            some_loss, slope = _loss_and_slope(scores, gold, smoothing, any(needed))
            loss += some_loss
            if grads[0] is not None:
                torch.mm(slope, weight, out=grads[0][start : start + rows])
            if grads[1] is not None:
                grads[1].addmm_(slope.T, part)
            if grads[2] is not None:
                grads[2] += slope.sum(dim=0)
        ctx.save_for_backward(*grads)
        return loss

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        made = [None if held is None else held * grad for held in ctx.saved_tensors]
        return (*made, None, None, None)


def _loss_and_slope(scores: Tensor, gold: Tensor, smoothing: float, slope_too: bool) -> tuple[Tensor, Tensor]:
    """The loss of a few tokens and, if wanted, its derivative by their scores; ``scores`` is overwritten."""
    right, top = scores.gather(1, gold), scores.amax(dim=1, keepdim=True)  # (rows,1)
    mean = scores.mean(dim=1).sum() if smoothing else 0.0
    shares = scores.sub_(top).exp_()  # one exponential a score, for the loss and for its gradient
    total = shares.sum(dim=1, keepdim=True)
    loss = (top + total.log() - (1 - smoothing) * right).sum() - smoothing * mean
    if not slope_too:
        return loss, shares
    slope = shares.div_(total)  # the probabilities; less what they should be
    if smoothing:
        slope -= smoothing / scores.shape[1]
    return loss, slope.scatter_add_(1, gold, torch.full_like(right, smoothing - 1))
