"""Batches of labelled pictures as tensors, shuffled and changed at random in each epoch.

>>> from regard.images.image_set import ImageSet
>>> images = ImageSet.of(np.zeros((5, 4, 4)), [0, 1, 0, 1, 0])
>>> batches = ImageBatches(images, size=2, seed=1)
>>> len(batches), [tuple(batch.images.shape) for batch in batches.epoch(0)]
(3, [(2, 1, 4, 4), (2, 1, 4, 4), (1, 1, 4, 4)])
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.errors import ArgumentError
from regard.images.augmentation import Augmentation
from regard.images.image_set import ImageSet

__all__ = ["ImageBatch", "ImageBatches", "to_model_input"]


@dataclass(frozen=True)
class ImageBatch:
    """A batch of pictures as a model reads them, with the numbers of their classes."""

    images: Tensor  # (b,c,h,w)
    labels: Tensor  # (b,)
    indices: Tensor  # (b,), the places of the pictures in the data

    def __len__(self) -> int:
        return len(self.labels)

    def to(self, device: torch.device | str) -> ImageBatch:
        """Return the batch with its tensors on a device."""
        return ImageBatch(self.images.to(device), self.labels.to(device), self.indices.to(device))


def to_model_input(images: np.ndarray, mean: Sequence[float], deviation: Sequence[float]) -> Tensor:
    """Return pictures ``(b,h,w,c)`` of bytes as floats ``(b,c,h,w)``, minus the mean and divided by the deviation.

    ``mean`` and ``deviation`` have a number for each channel, for pixels from 0 to 1.

    >>> to_model_input(np.full((1, 1, 1, 1), 255, dtype=np.uint8), [0.5], [0.25])
    tensor([[[[2.]]]])
    """
    channels_last = torch.from_numpy(np.require(images, requirements=["C", "W"]))  # (b,h,w,c)
    pixels = channels_last.permute(0, 3, 1, 2).float()  # (b,c,h,w)
    scale = 1 / (255 * torch.tensor(deviation))  # (c,)
    start = torch.tensor(mean) / torch.tensor(deviation)  # (c,)
    return pixels * scale[:, None, None] - start[:, None, None]  # (b,c,h,w)


class ImageBatches:
    """Batches of ``size`` pictures, shuffled in each epoch unless ``shuffle=False``, and changed by ``augmentation``.

    Pixels are normalised with ``mean`` and ``deviation``, by default those of the data. The batches of an epoch depend
    only on the data, the seed and the number of the epoch, so a run can go on from any batch. In distributed training,
    process ``rank`` of ``world`` takes every ``world``-th picture of each batch, so that all processes together see the
    batches of a single one. The last batch of an epoch may be smaller. It has at least ``world`` pictures, if necessary
    from the batch before it.
    """

    def __init__(
        self,
        data: ImageSet,
        *,
        size: int,
        seed: int = 0,
        shuffle: bool = True,
        augmentation: Augmentation | None = None,
        mean: Sequence[float] | None = None,
        deviation: Sequence[float] | None = None,
        rank: int = 0,
        world: int = 1,
    ):
        if size < world:
            raise ArgumentError(
                "size", f"expected at least one picture for each of {world} processes, got {size}"
            )
        if not 0 <= rank < world:
            raise ArgumentError("rank", f"expected a number from 0 to {world - 1}, got {rank}")
        if len(data) < world:
            raise ArgumentError("data", f"expected at least {world} pictures, one a process, got {len(data)}")
        self.data, self.seed, self.shuffle = data, seed, shuffle
        self.rank, self.world = rank, world
        self.augmentation = augmentation or Augmentation()
        own = data.mean_and_deviation() if mean is None or deviation is None else (mean, deviation)
        self.mean, self.deviation = list(own[0]), list(own[1])
        self._background = data.background() if self.augmentation else []
        self._ends = np.array([*range(size, len(data), size), len(data)])
        if len(self._ends) > 1 and self._ends[-1] - self._ends[-2] < world:
            self._ends[-2] = len(data) - world

    def __len__(self) -> int:
        return len(self._ends)

    def plan(self, number: int) -> list[np.ndarray]:
        """Return the batches of epoch ``number`` for all processes together, as arrays of indices into the data."""
        if number < 0:
            raise ArgumentError("number", f"expected an epoch from 0 on, got {number}")
        order = np.arange(len(self.data))
        if self.shuffle:
            order = np.random.default_rng([self.seed, number]).permutation(len(self.data))
        return np.split(order, self._ends[:-1])

    def epoch(self, number: int, start: int = 0) -> Iterator[ImageBatch]:
        """Yield this process's share of each batch of epoch ``number``, from batch ``start`` on."""
        if start < 0:
            raise ArgumentError("start", f"expected 0 or more, got {start}")
        for place, indices in enumerate(self.plan(number)):
            if place >= start:
                yield self._batch(indices, number, place)

    def _batch(self, indices: np.ndarray, epoch: int, place: int) -> ImageBatch:
        images = self.data.images[indices]  # (b,h,w,c)
        if self.augmentation:
            # All processes draw the same numbers for the whole batch, so that their number has no effect.
            rng = np.random.default_rng([self.seed, epoch, place])
            images = self.augmentation(images, rng, background=self._background, mean=self.mean)
        own = slice(self.rank, None, self.world)
        return ImageBatch(
            to_model_input(images[own], self.mean, self.deviation),
            torch.from_numpy(self.data.labels[indices[own]]),
            torch.from_numpy(indices[own]),
        )
