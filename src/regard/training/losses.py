"""Cross-entropy over a large vocabulary in constant memory.

The output layer and the loss are fused. For a few hundred tokens at a time, the logits, the probabilities and the
gradients of both inputs are computed while they are in the CPU cache. The full (tokens, vocabulary) matrices of
logits and probabilities are never stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.shapes import wide_dtype

__all__ = ["OutputLayer", "is_in_blocks", "output_cross_entropy", "product_dtype"]

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
    if not is_in_blocks(hidden):
        return _plain(hidden, weight, bias, targets, smoothing)
    if bias is None:
        bias = weight.new_zeros(weight.shape[0])
    with_grads = torch.is_grad_enabled() and any(x.requires_grad for x in (hidden, weight, bias))
    dtype = product_dtype(hidden)
    # Autocast can be active on the CPU only here.
    with torch.autocast("cpu", enabled=False):
        return _OutputCrossEntropy.apply(hidden, weight, bias, targets, smoothing, with_grads, dtype)


def is_in_blocks(hidden: Tensor) -> bool:
    """Return whether the loss is computed for a few hundred tokens at a time, without torch's own functions.

    Under autocast this pays on the CPU only, where the time of a loss is that of moving its logits.
    """
    half = wide_dtype(hidden.dtype) != hidden.dtype
    on_another_device = hidden.device.type != "cpu" and (half or _is_autocast_on(hidden.device.type))
    return not on_another_device and not torch.compiler.is_compiling()


def product_dtype(hidden: Tensor) -> torch.dtype:
    """Return the dtype in which the output layer is computed, that of autocast where it is active."""
    return torch.get_autocast_dtype("cpu") if _is_autocast_on(hidden.device.type) else hidden.dtype


def _is_autocast_on(device_type: str) -> bool:
    """Return whether autocast is active for a type of device, such as "cpu"."""
    # is_autocast_enabled raises an error for a device without autocast.
    return torch.amp.is_autocast_available(device_type) and torch.is_autocast_enabled(device_type)


class OutputLayer:
    """The logits of some tokens at a time, and the gradients of the output layer's three inputs.

    ``needed`` says which of ``hidden (n,m)``, ``weight (v,m)`` and ``bias (v,)`` get one. The products of matrices are
    computed in ``dtype``. Logits and sums are in float32, or in float64 for inputs in float64.
    """

    def __init__(self, inputs: Sequence[Tensor], needed: Sequence[bool], dtype: torch.dtype):
        hidden, weight, bias = inputs
        self.wide = wide_dtype(hidden.dtype)
        self.hidden, self.weight, self.bias = hidden.to(dtype), weight.to(dtype), bias.to(dtype)
        self.grads = [
            torch.zeros_like(x, dtype=self.wide) if need else None
            for x, need in zip(inputs, needed, strict=True)
        ]
        self._dtypes = [x.dtype for x in inputs]

    def blocks(self, numbers: int) -> Iterator[slice]:
        """Yield the ranges of tokens that have at most ``numbers`` logits, or one token."""
        rows = max(1, numbers // self.weight.shape[0])
        for start in range(0, self.hidden.shape[0], rows):
            yield slice(start, start + rows)

    def scores(self, block: slice) -> Tensor:
        """Return new logits ``(rows,v)`` of the tokens of a block."""
        return torch.addmm(self.bias, self.hidden[block], self.weight.T).to(self.wide)

    def add_gradients(self, block: slice, slope: Tensor) -> None:
        """Add the gradients of a block, for the derivative ``slope (rows,v)`` of the loss by its logits."""
        by_hidden, by_weight, by_bias = self.grads
        if by_bias is not None:
            by_bias += slope.sum(dim=0)
        slope = slope.to(self.weight.dtype)
        if by_hidden is not None:
            by_hidden[block] = slope @ self.weight
        if by_weight is not None:
            by_weight += slope.T @ self.hidden[block]

    def gradients(self) -> list[Tensor | None]:
        """Return the sums of the gradients, in the dtypes of the inputs."""
        return [None if x is None else x.to(dtype) for x, dtype in zip(self.grads, self._dtypes, strict=True)]


def _plain(hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float) -> Tensor:
    """Compute the same loss with torch's own functions, for torch.compile and half precision on other devices."""
    scores = torch.nn.functional.linear(hidden, weight, bias)  # (n,v)
    wide = scores.to(wide_dtype(scores.dtype))
    return torch.nn.functional.cross_entropy(wide, targets, reduction="sum", label_smoothing=smoothing)


class _OutputCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        hidden, _, _, targets, smoothing, with_grads, dtype = inputs
        needed = [with_grads and need for need in ctx.needs_input_grad[:3]]
        layer = OutputLayer(inputs[:3], needed, dtype)
        loss = hidden.new_zeros((), dtype=layer.wide)
        for block in layer.blocks(_NUMBERS):
            part_loss, slope = _loss_and_slope(
                layer.scores(block), targets[block, None], smoothing, any(needed)
            )
            loss += part_loss
            layer.add_gradients(block, slope)
        ctx.save_for_backward(*layer.gradients())
        return loss

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        scaled = [None if saved is None else saved * grad for saved in ctx.saved_tensors]
        return (*scaled, None, None, None, None)


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
