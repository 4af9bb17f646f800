"""Weights that have multiplied the values, in case the model uses them again in another form."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from regard.capture.joining.changed_weights import changed_weights
from regard.capture.watching.followed_softmax import DerivedWeights, FollowedSoftmax
from regard.capture.watching.weight_indices import storage_of

__all__ = ["UsedWeights", "is_recorded_form"]


class _UsedTensor(NamedTuple):
    """A tensor of weights whose softmax has met the values, without a reference to its memory."""

    softmax: FollowedSoftmax
    storage_ref: StorageWeakRef
    shape: torch.Size
    strides: tuple[int, ...]
    offset: int
    dtype: torch.dtype
    key: int
    changed: bool

    @classmethod
    def of(cls, weights: DerivedWeights) -> _UsedTensor | None:
        """The weights without their memory, or None where a later use could not be compared with them."""
        x = weights.tensor
        if not weights.aligned or weights.indices is not None or weights.others or weights.factor is not None:
            return None
        ref, offset = StorageWeakRef(x.untyped_storage()), int(x.storage_offset())
        return cls(weights.softmax, ref, x.shape, x.stride(), offset, x.dtype, weights.key, weights.changed)

    @property
    def is_freed(self) -> bool:
        """Whether the memory was released and may hold other numbers now."""
        return self.storage_ref.expired()

    def found_in(self, x: Tensor) -> DerivedWeights | None:
        """The weights again, from a tensor in the same memory."""
        if self.is_freed or x.dtype != self.dtype:
            return None
        whole = x.detach().as_strided(self.shape, self.strides, self.offset)
        final = whole if self.changed else None
        return DerivedWeights(self.softmax, whole, whole, self.key, changed=self.changed, final=final)


class UsedWeights:
    """Tensors of weights whose softmax has met the values."""

    def __init__(self) -> None:
        self.tensors: dict[int, _UsedTensor] = {}  # by the address of their storage

    def are_in(self, args: tuple) -> bool:
        """Whether some of the weights are among the arguments of a function."""
        for x in args:
            if type(x) is Tensor:
                if x.layout is torch.strided and storage_of(x) in self.tensors:
                    return True
            elif type(x) in (list, tuple) and self.are_in(tuple(x)):
                return True
        return False

    def add(self, weights: DerivedWeights) -> None:
        """Remember weights whose softmax has met the values."""
        used = _UsedTensor.of(weights)
        if used is not None:
            self.tensors[storage_of(weights.tensor)] = used

    def forget(self, since: int) -> None:
        """Forget the softmaxes from call number ``since`` on."""
        if self.tensors:
            self.tensors = {at: x for at, x in self.tensors.items() if x.softmax.recorded.kept.order < since}

    def among(self, tensors: list[Tensor]) -> list[DerivedWeights]:
        """The weights among some tensors."""
        pairs = [(self.tensors.get(storage_of(x)), x) for x in tensors]
        found = [used.found_in(x) for used, x in pairs if used is not None]
        return [weights for weights in found if weights is not None]


def is_recorded_form(weights: DerivedWeights, operand: Tensor, heads: list[int] | None) -> bool:
    """Whether weights ``(B,n,p)`` that multiply values again are those that were recorded.

    ``heads`` are the heads that the user asked for.
    """
    softmax, plain = weights.softmax, weights.without_dropout(operand)
    if softmax.used and not weights.changed and not softmax.recorded.kept.changed:
        return weights.is_over_keys(operand)
    grid, leading = softmax.call.grid, softmax.call.leading
    if (
        softmax.used
        and leading is not None
        and plain.numel() == math.prod(grid)
        and plain.shape[1:] == grid[2:]
    ):
        return changed_weights(softmax.recorded, leading.arrange(plain), heads) is None
    indices = weights.indices_of(operand)
    return indices is not None and softmax.has_multiplied(weights, indices, plain)
