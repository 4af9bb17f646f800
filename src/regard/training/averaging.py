"""Exponential averaging of weights: a smoother model than the last step's, for the price of one addition a step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

__all__ = ["AveragedWeights"]


class AveragedWeights:
    """The average of a model's parameters over about the last ``1 / (1 - decay)`` steps.

    Early on, when there are fewer steps than that, the average is over those there are.
    """

    def __init__(self, model: nn.Module, decay: float):
        self.decay = decay
        self.held = {name: p.detach().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        """Take in the weights after update number ``step``, which counts from 1."""
        share = 1 - min(self.decay, step / (10 + step))  # the newest weights' part
        own = [p.detach() for p in model.parameters()]
        torch._foreach_lerp_(list(self.held.values()), own, share)

    @torch.no_grad()
    def restart(self, model: nn.Module, tensors: dict[str, Tensor] | None) -> None:
        """Go on from averages that were saved; from the weights themselves where none were."""
        for name, p in model.named_parameters():
            self.held[name].copy_(p if tensors is None else tensors[name])

    @contextmanager
    def in_place_of(self, model: nn.Module) -> Iterator[None]:
        """Within this block the model has the averaged weights."""
        own: dict[str, Tensor] = {name: p.data for name, p in model.named_parameters()}
        for name, p in model.named_parameters():
            p.data = self.held[name]
        try:
            yield
        finally:
            for name, p in model.named_parameters():
                p.data = own[name]
