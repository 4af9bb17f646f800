"""Exponential moving average of the weights of a model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

__all__ = ["AveragedWeights"]


class AveragedWeights:
    """The exponential moving average of a model's parameters, over about the last ``1 / (1 - decay)`` steps.

    In the first steps the decay is smaller, so that the initial weights do not dominate the average. ``held`` are the
    averages by the name of the parameter. They start as the weights of ``model``.
    """

    def __init__(self, model: nn.Module, decay: float):
        self.decay = decay
        self.held = {name: p.detach().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        """Add the present weights, those after optimizer step ``step`` (counted from 1), to the average."""
        # The share of the newest weights in the average.
        share = 1 - min(self.decay, step / (10 + step))
        for held, p in zip(self.held.values(), model.parameters(), strict=True):
            held.lerp_(p.detach(), share)

    @torch.no_grad()
    def restart(self, model: nn.Module, tensors: dict[str, Tensor] | None) -> None:
        """Set the averages to saved tensors, or to the current weights if ``tensors`` is None."""
        for name, p in model.named_parameters():
            self.held[name].copy_(p if tensors is None else tensors[name])

    @contextmanager
    def in_place_of(self, model: nn.Module) -> Iterator[None]:
        """Return a context manager in which the model has the averaged weights.

        At its end the model has its own weights again. A change of the weights inside changes the averages.
        """
        weights: dict[str, Tensor] = {name: p.data for name, p in model.named_parameters()}
        for name, p in model.named_parameters():
            p.data = self.held[name]
        try:
            yield
        finally:
            for name, p in model.named_parameters():
                p.data = weights[name]
