"""The penalty on tokens that are in the prompt or were generated already."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["RepetitionPenalty", "penalised"]


def penalised(scores: Tensor, tokens: Tensor, penalty: float) -> Tensor:
    """Return scores ``(...,v)`` in which those of the ``tokens (...,t)`` are divided by ``penalty``, or multiplied.

    Positive scores are divided and negative ones multiplied, as Hugging Face does (Keskar et al. 2019).

    >>> penalised(torch.tensor([3.0, -2.0, 1.0]), torch.tensor([0, 1, 0]), 2.0)
    tensor([ 1.5000, -4.0000,  1.0000])
    """
    values = scores.gather(-1, tokens)  # (...,t)
    return scores.scatter(-1, tokens, torch.where(values < 0, values * penalty, values / penalty))


class RepetitionPenalty:
    """A constraint that makes the tokens of ``prompt (n,p)`` and of the hypotheses less likely, and forbids none.

    A beam search applies it to log-probabilities, as Hugging Face does, and sampling to logits.
    """

    def __init__(self, penalty: float, prompt: Tensor):
        self.penalty, self.prompt = penalty, prompt

    def block(self, scores: Tensor, tokens: Tensor, room: Tensor) -> None:
        """Lower the scores of the tokens that were read or generated, in place."""
        shape = scores.shape[:2]
        prompt = self.prompt[:, None].expand(*shape, -1)  # (n,w,p)
        seen = torch.cat([prompt, tokens[..., 1:].expand(*shape, -1)], dim=-1)  # (n,w,p+t)
        scores.copy_(penalised(scores, seen, self.penalty))

    def follow(self, rows: Tensor | None, tokens: Tensor) -> None:
        """Do nothing, because the tokens are given."""

    def keep(self, sentences: Tensor) -> None:
        """Keep the prompts of some sentences."""
        self.prompt = self.prompt[sentences]

    def shortened(self, tokens: list[int], sentence: int) -> list[int]:
        """Return the tokens unchanged."""
        return tokens
