"""The rows of a beam search that the returned hypotheses come from."""

from __future__ import annotations

from torch import Tensor

__all__ = ["Beams"]


class Beams:
    """The rows of a beam search that the hypotheses which won have come through, step by step."""

    def __init__(self, indices: Tensor):
        self.indices = indices.cpu()  # (hypotheses, steps), -1 after the end of a hypothesis

    def rows(self, step: int) -> Tensor:
        """The row of each hypothesis in a step, or its last row if it has ended."""
        valid = (self.indices >= 0).sum(dim=1).clamp(min=1) - 1
        return self.indices.gather(1, valid.clamp(max=step)[:, None])[:, 0]

    def ended(self, step: int) -> Tensor:
        """Which hypotheses have ended before a step."""
        return self.indices[:, min(step, self.indices.shape[1] - 1)] < 0
