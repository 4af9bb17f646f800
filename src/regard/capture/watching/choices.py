"""The indices by which a model chose parts of its tensors, such as some keys of the weights and of the values."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.capture.watching.weight_indices import storage_of

__all__ = ["CHOOSING_FUNCTIONS", "Choices"]

CHOOSING_FUNCTIONS = {
    Tensor.__getitem__,
    Tensor.gather,
    Tensor.index_select,
    Tensor.take_along_dim,
    torch.gather,
    torch.index_select,
    torch.take_along_dim,
}
"""Functions that choose parts of a tensor by other tensors or lists."""
_LATEST = 64


class Choices:
    """Remembers the latest indices by which tensors other than weights were chosen."""

    def __init__(self) -> None:
        self._indices: deque[Tensor] = deque(maxlen=_LATEST)

    def clear(self) -> None:
        self._indices.clear()

    def note(self, args: tuple, kwargs: dict[str, Any]) -> None:
        """Note the indices among the arguments of a function behind the first, which is the tensor."""
        self._indices.extend(_indices_in((*args[1:], *kwargs.values())))

    def include(self, indices: Sequence[Tensor]) -> bool:
        """Whether each of some indices chose a part of another tensor too."""
        return all(any(_same(index, other) for other in self._indices) for index in indices)


def _indices_in(values: Sequence[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, tuple):
            yield from _indices_in(value)
        elif isinstance(value, list) and value and type(value[0]) is int:
            yield torch.tensor(value)
        elif type(value) is Tensor and value.layout is torch.strided and not value.is_floating_point():
            yield value


def _same(index: Tensor, other: Tensor) -> bool:
    """Whether two tensors share their memory, as the views of one tensor do, or hold the same numbers."""
    if storage_of(index) == storage_of(other):
        return True
    return index.shape == other.shape and index.device == other.device and torch.equal(index, other)
