"""Cross-entropy over a large vocabulary in constant memory.

The output layer and the loss are fused. For a few hundred tokens at a time, the logits, the probabilities and the
gradients of both inputs are computed while they are in the CPU cache. The full (tokens, vocabulary) matrices of
logits and probabilities are never stored.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.shapes import wide_dtype

__all__ = ["output_cross_entropy"]

# The most logits in memory at once, 4 MB in float32.
_NUMBERS = 2**20


def output_cross_entropy(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, *, smoothing: float = 0.0
) -> Tensor:
    """Return the cross-entropy of the logits ``hidden @ weight.T + bias``, summed over the tokens.

    The shapes are ``hidden (n,m)``, ``weight (v,m)``, ``bias (v,)`` and ``targets (n,)``, the ids of the right tokens.
    Every target counts, so padding has to be left out before. ``smoothing`` is label smoothing, which moves that share
    of the target probability evenly to the whole vocabulary.

    >>> hidden, weight, targets = torch.eye(2), torch.eye(2), torch.tensor([0, 0])
    >>> output_cross_entropy(hidden, weight, None, targets)
    tensor(1.6265)
    >>> torch.nn.functional.cross_entropy(hidden @ weight.T, targets, reduction="sum")
    tensor(1.6265)
    """
    half = wide_dtype(hidden.dtype) != hidden.dtype
    if half or is_autocast_on(hidden.device.type) or torch.compiler.is_compiling():
        return _plain(hidden, weight, bias, targets, smoothing)
    if bias is None:
        bias = weight.new_zeros(weight.shape[0])
    with_grads = torch.is_grad_enabled() and any(x.requires_grad for x in (hidden, weight, bias))
    return _OutputCrossEntropy.apply(hidden, weight, bias, targets, smoothing, with_grads)


def is_autocast_on(device_type: str) -> bool:
    """Return whether autocast is active for a type of device, such as "cpu"."""
    # is_autocast_enabled raises an error for a device without autocast.
    return torch.amp.is_autocast_available(device_type) and torch.is_autocast_enabled(device_type)


def _plain(hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float) -> Tensor:
    """Compute the same loss with torch's own functions, for autocast, half precision and torch.compile."""
    scores = torch.nn.functional.linear(hidden, weight, bias)  # (n,v)
    wide = scores.to(wide_dtype(scores.dtype))
    return torch.nn.functional.cross_entropy(wide, targets, reduction="sum", label_smoothing=smoothing)


class _OutputCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        hidden, weight, bias, targets, smoothing, with_grads = inputs
        loss = hidden.new_zeros((), dtype=wide_dtype(hidden.dtype))
        needed = [with_grads and need for need in ctx.needs_input_grad[:3]]
        grads = [torch.zeros_like(x) if need else None for x, need in zip(inputs[:3], needed, strict=True)]
        rows = max(1, _NUMBERS // weight.shape[0])
        for start in range(0, hidden.shape[0], rows):
            part = hidden[start : start + rows]  # (rows,m)
            gold = targets[start : start + rows, None]  # (rows,1)
            scores = torch.addmm(bias, part, weight.T)  # (rows,v)
            part_loss, slope = _loss_and_slope(scores, gold, smoothing, any(needed))
            loss += part_loss
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
        scaled = [None if saved is None else saved * grad for saved in ctx.saved_tensors]
        return (*scaled, None, None, None)


def _loss_and_slope(scores: Tensor, gold: Tensor, smoothing: float, slope_too: bool) -> tuple[Tensor, Tensor]:
    """Return the loss of a few tokens and its derivative with respect to their logits ``(rows,v)``.

    ``gold (rows,1)`` are the target ids. ``scores`` is overwritten. Without ``slope_too``, the second value is not the
    derivative and must not be used.
    """
    right, top = scores.gather(1, gold), scores.amax(dim=1, keepdim=True)  # (rows,1)
    mean = scores.mean(dim=1).sum() if smoothing else 0.0
    # The exponentials are shared by the loss and its derivative.
    shares = scores.sub_(top).exp_()
    total = shares.sum(dim=1, keepdim=True)
    loss = (top + total.log() - (1 - smoothing) * right).sum() - smoothing * mean
    if not slope_too:
        return loss, shares
    # The derivative is the probabilities minus the smoothed targets.
    slope = shares.div_(total)
    if smoothing:
        slope -= smoothing / scores.shape[1]
    return loss, slope.scatter_add_(1, gold, torch.full_like(right, smoothing - 1))
