"""The interface between a task and the training loop."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

__all__ = ["Loss", "TrainingTask"]


class Loss(nn.Module):
    """A module that computes the summed loss of a model on a batch.

    ``loss`` is a function of the model and a batch, such as :meth:`TrainingTask.loss`.
    """

    def __init__(self, model: nn.Module, loss: Any):
        super().__init__()
        self.model = model
        self.loss = loss

    def forward(self, batch: Any) -> Tensor:
        """Return the summed loss of the model on a batch."""
        return self.loss(self.model, batch)


class TrainingTask(Protocol):
    """The data, the loss and the validation of one model.

    ``metric`` is the name of the number of ``validate()`` that decides which model is the best, and
    ``higher_is_better`` whether that is the highest number.

    A task may have a ``fingerprint``, a text that identifies its data. A run can be resumed only with the same
    fingerprint, and all processes must have the same.

    A task may have a method ``tokens_read(batch)``, the number of tokens that the model reads in a batch without
    padding, or ``pictures_read(batch)``, the number of pictures. The speed of a run is then in pictures per second if
    it has the latter, and in tokens per second if it has only the former. Otherwise it is in the items that ``count``
    counts.

    A task whose metric is noise while it is low may have a ``floor``. Below it, the number of ``validate()`` that
    ``below_floor`` names decides instead, where lower is better.

    A task may name in ``fitted`` the numbers of ``validate()`` that are fitted to the validation data for ``save()``,
    such as a temperature. They are written into ``metrics.jsonl`` and not shown, because they measure nothing.
    """

    metric: str
    higher_is_better: bool

    def batches_per_epoch(self, world: int) -> int:
        """Return the number of batches in an epoch, which is the same in every epoch.

        Each of ``world`` processes takes a share of every batch, so each of them sees this number of batches.
        """
        ...

    def batches(self, epoch: int, start: int, rank: int, world: int) -> Iterator[Any]:
        """Yield the share of process ``rank`` of ``world`` in each batch of an epoch, from batch ``start`` on."""
        ...

    def count(self, batch: Any) -> int:
        """Return the number of tokens or examples that the loss of a batch is a sum over."""
        ...

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """Return the loss of a batch, summed over its tokens or examples."""
        ...

    def to_device(self, batch: Any, device: torch.device) -> Any:
        """Return the batch on a device."""
        ...

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Return named numbers that measure the model on data it was not trained on, among them ``metric``.

        It is called in the first process only, with the model in evaluation mode and without gradients.
        """
        ...

    def save(self, model: nn.Module, folder: Path, results: dict[str, Any]) -> None:
        """Write the model and everything needed to use it, such as vocabularies, into an existing folder.

        ``results`` are the step and the numbers of its validation.
        """
        ...
