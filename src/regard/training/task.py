"""What a task has to give the training loop."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

__all__ = ["Loss", "TrainingTask"]


class Loss(nn.Module):
    """A model with its loss: what is given a batch and answers with the loss summed over its tokens."""

    def __init__(self, model: nn.Module, loss: Any):
        super().__init__()
        self.model = model
        self.loss = loss

    def forward(self, batch: Any) -> Tensor:
        return self.loss(self.model, batch)


class TrainingTask(Protocol):
    """Data, a loss and a measure of success for one model.

    A task may have a ``fingerprint``, a text that its data is known by: a run goes on only with the same, and all
    processes have to have the same.

    A task whose metric is noise while it is low may have a ``floor``: below it, the number of ``validate()`` that
    ``below_floor`` names decides instead, the lower the better.
    """

    metric: str  # which of validate()'s numbers decides
    higher_is_better: bool

    def batches_per_epoch(self, world: int) -> int:
        """How many batches all processes together read in an epoch; the same every epoch."""
        ...

    def batches(self, epoch: int, start: int, rank: int, world: int) -> Iterator[Any]:
        """The share of one of ``world`` processes in each batch of an epoch, from batch ``start`` on."""
        ...

    def count(self, batch: Any) -> int:
        """What a batch's loss is a sum over: its tokens, or its examples."""
        ...

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """The loss of a batch, summed."""
        ...

    def to_device(self, batch: Any, device: torch.device) -> Any:
        """The batch where the model is."""
        ...

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Numbers that say how good the model is on data it was not trained on."""
        ...

    def save(self, model: nn.Module, folder: Path, results: dict[str, Any]) -> None:
        """Write the model, with what belongs to it, so that it can be used."""
        ...
