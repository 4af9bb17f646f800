"""The rows of a beam search that the returned hypotheses come from."""

from __future__ import annotations

from torch import Tensor

__all__ = ["Beams"]


class Beams:
    """The row of each returned hypothesis in each step of a beam search."""

    def __init__(self, indices: Tensor):
        # (hypotheses, steps), -1 after the end of a hypothesis
        self.indices = indices.cpu()

    def rows(self, step: int) -> Tensor:
        """Return the row of each hypothesis in a step, or its last row if it has ended."""
        valid = (self.indices >= 0).sum(dim=1).clamp(min=1) - 1
        return self.indices.gather(1, valid.clamp(max=step)[:, None])[:, 0]

    def ended(self, step: int) -> Tensor:
        """Return a boolean tensor that is True for the hypotheses that ended before a step."""
        return self.indices[:, min(step, self.indices.shape[1] - 1)] < 0
