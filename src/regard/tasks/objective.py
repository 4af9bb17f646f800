"""The parts of an objective that tasks share, of any data and of batches of texts of similar length."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.files import write_atomically
from regard.tasks.base import Task
from regard.tasks.card import CardFacts
from regard.text import BucketedBatches

__all__ = ["BatchedObjective", "Objective"]


class Objective:
    """Moving batches to a device, and saving with a card.

    A subclass defines ``metric``, ``higher_is_better``, ``batches_per_epoch``, ``batches``, ``count``, ``loss``,
    ``validate`` and ``predictor``.
    """

    metric: str
    higher_is_better: bool = True

    def __init__(self, task: Task, settings: Any, data: Any):
        self.task, self.settings, self.data = task, settings, data

    def to_device(self, batch: Any, device: torch.device) -> Any:
        """Return the batch on the device of the model."""
        return batch if device.type == "cpu" else batch.to(device)

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """Return the loss of a batch, summed."""
        raise NotImplementedError

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Return numbers that measure the model on the validation data."""
        raise NotImplementedError

    def predictor(self, model: nn.Module) -> Any:
        """Return the model as a predictor, to be saved."""
        raise NotImplementedError

    def save(self, model: nn.Module, folder: Path, results: dict[str, Any]) -> None:
        """Write the predictor and its card, ready for use."""
        self.save_predictor(self.predictor(model), folder, results)

    def save_predictor(self, predictor: Any, folder: Path, results: dict[str, Any]) -> None:
        """Write a predictor of this task and its card."""
        predictor.save(folder, results=results)
        numbers = ", ".join(f"{name} {value:.4g}" for name, value in results.items())
        facts = CardFacts(results=(("validation", numbers),))
        card = self.task.card(predictor, self.settings, facts)
        write_atomically(folder / "README.md", card.write)


class BatchedObjective(Objective):
    """Batches of similar length for the training loop.

    A subclass defines ``metric``, ``higher_is_better``, ``loss``, ``validate`` and ``predictor``. ``data.train`` are
    the training rows. ``settings`` needs ``batch_tokens`` and ``seed``.
    """

    def __init__(self, task: Task, settings: Any, data: Any):
        super().__init__(task, settings, data)
        self.train: Any = data.train  # PairData, or other data that BucketedBatches takes
        self.fingerprint = self.train.manifest.get("fingerprint", "")

    def batches_per_epoch(self, world: int) -> int:
        """Return the number of batches in one pass over the data."""
        return len(self._bucketed(0, world))

    def batches(self, epoch: int, start: int, rank: int, world: int) -> Iterator[Any]:
        """Return this process's share of the batches of an epoch."""
        return self._bucketed(rank, world).epoch(epoch, start)

    def _bucketed(self, rank: int, world: int) -> BucketedBatches:
        s = self.settings
        return BucketedBatches(self.train, tokens=s.batch_tokens, seed=s.seed, rank=rank, world=world)

    def count(self, batch: Any) -> int:
        """Return the number of tokens or rows that the loss of a batch is summed over."""
        return batch.tokens

    def tokens_read(self, batch: Any) -> int:
        """Return the number of tokens that the model reads in a batch, without padding, for the speed that is shown.

        By default it is that of the batch, or the number that the loss is summed over if the batch has none.
        """
        read = getattr(batch, "tokens_read", None)
        return self.count(batch) if read is None else read
