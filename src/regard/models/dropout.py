"""Dropout with fast random numbers on the CPU.

On a CPU, torch draws a 64-bit random number for each element, which takes a sixth of the training time of a small
Transformer. Here one 64-bit number is used for four elements.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["Dropout", "dropout"]

# The number of values of 16 random bits. The dropout share is rounded to a multiple of 1 / 65,536.
_LEVELS = 2**16


def dropout(x: Tensor, share: float) -> Tensor:
    """Set each element to zero with probability ``share``, and scale the others by ``1 / (1 - share)``.

    >>> _ = torch.manual_seed(0)
    >>> kept = dropout(torch.ones(100_000), 0.25)
    >>> sorted(set(kept.tolist())), round(kept.mean().item(), 2)
    ([0.0, 1.3333333730697632], 1.0)
    """
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return nn.functional.dropout(x, share)
    count = x.numel()
    # random_ from -2**63 to None fills all 64 bits.
    draws = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    # At most _LEVELS - 1, so that the scale below stays finite.
    level = min(round(share * _LEVELS), _LEVELS - 1)
    kept = draws.view(torch.int16)[:count].view(x.shape) >= level - _LEVELS // 2
    return x * kept.to(x.dtype).mul_(_LEVELS / (_LEVELS - level))


class Dropout(nn.Module):
    """A module that applies :func:`dropout` in training mode and returns its input otherwise."""

    def __init__(self, share: float):
        super().__init__()
        self.share = share

    def forward(self, x: Tensor) -> Tensor:
        """Return ``dropout(x, share)`` in training mode, or ``x`` itself otherwise."""
        return dropout(x, self.share) if self.training and self.share else x

    def extra_repr(self) -> str:
        """Return the share as text, for ``print(model)``."""
        return f"share={self.share:g}"
