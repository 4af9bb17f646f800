"""A softmax that is followed to the values, and the tensors that were computed from its result."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard.capture.joining.call_chains import RecordedCall
from regard.capture.reading.attention_calls import AttentionCall
from regard.capture.reading.axes import moved
from regard.capture.reading.fast_replace import replace
from regard.capture.watching.weight_indices import all_indices, indices_of_view, storage_of

__all__ = ["DerivedWeights", "FollowedSoftmax"]


@dataclass(eq=False)
class FollowedSoftmax:
    """A softmax that was recorded, and the pieces of its result that were multiplied with values so far."""

    recorded: RecordedCall
    call: AttentionCall
    # The number of the product that the scores came from, 0 if unknown.
    product: int
    # Whether a parameter of the model is among queries and keys.
    learned_keys: bool = False
    # The shape of the result, in which keys count that the model left out before the softmax.
    shape: tuple[int, ...] = ()
    size: int = 0  # how many weights the result has
    # How many of them were multiplied with values.
    multiplied: int = 0
    keys_with_values: set[int] = field(default_factory=set)
    # Whether a tensor was multiplied whose weights cannot be traced back to the result.
    lost: bool = False
    # Whether the module that ended last returned it.
    returned: bool = False
    used: bool = False  # whether all of it has met the values
    # Other softmaxes that are part of the pieces that were multiplied with values.
    others: tuple[FollowedSoftmax, ...] = ()
    # Unchanged pieces that were multiplied with values, each with the tensor that it is a view of.
    _unchanged: list[tuple[DerivedWeights, Tensor]] = field(default_factory=list)
    # Changed pieces that were multiplied with values, and behind them one number for indices of -1.
    _changed: Tensor | None = None
    _is_set: Tensor | None = None  # which of them
    # Whether pieces of the result were combined with each other, as in differential attention.
    _combined: bool = False
    _indices: Tensor | None = None
    # Which weights have met values in pieces, and behind them False for indices of -1.
    _met: Tensor | None = None

    @property
    def is_complete(self) -> bool:
        """Whether all of the result was multiplied with values."""
        return self.multiplied >= self.size

    @property
    def is_doubtful(self) -> bool:
        """Whether the weights that multiply the values may differ from the recorded ones."""
        return not self.is_complete and (self.lost or not (self.multiplied or self.returned))

    def indices(self, device: torch.device) -> Tensor:
        """The indices of the whole result, which are computed once."""
        if self._indices is None:
            self._indices = all_indices(self.shape, device)
        return self._indices

    def note_multiplied(self, weights: DerivedWeights, operand: Tensor, indices: Tensor) -> None:
        """Note a piece of some weights that multiplies values, with the keys on its last axis."""
        self.multiplied += int((indices >= 0).sum()) if weights.changed else operand.numel()
        if self._met is None:
            self._met = torch.zeros(math.prod(self.shape) + 1, dtype=torch.bool, device=indices.device)
        self._met[indices.reshape(-1)] = True
        self._met[-1] = False
        self.others = tuple(dict.fromkeys((*self.others, *weights.others)))
        for other in weights.others:
            other.multiplied = other.size
        self._combined = self._combined or weights.combined
        if weights.changed:
            self._write(indices, weights.without_dropout(operand))
            return
        self._unchanged.append((weights, operand))
        self.keys_with_values.update(self.keys_at(indices.reshape(-1, indices.shape[-1])[0]).tolist())

    def keys_at(self, indices: Tensor) -> Tensor:
        """The keys that indices belong to."""
        axes = self.call.axes
        axis = len(self.shape) - 1 if axes is None else axes[1]
        return indices // math.prod(self.shape[axis + 1 :]) % self.shape[axis]

    def is_in_order(self, indices: Tensor) -> bool:
        """Whether a piece ``(...,q,k)`` has keys, queries, heads and sequences in their order in the result, once."""
        keys, rows = self.keys_at(indices), self._rows_at(indices)
        return bool(
            (keys.diff(dim=-1) > 0).all()
            and (keys.diff(dim=-2) == 0).all()
            and (rows.flatten(0, -2).diff(dim=0) >= 0).all()
            and not self.has_duplicates(indices)
        )

    def is_transposed(self, indices: Tensor) -> bool:
        """Whether a piece ``(...,k,q)`` has all queries of a matrix on its last axis, and matrices in order."""
        keys, leading = self.keys_at(indices), self._leading_at(indices)
        in_columns = (keys.diff(dim=-1) == 0).all() and (keys.diff(dim=-2) > 0).all()
        return bool(in_columns and (leading.flatten(0, -2).diff(dim=0) >= 0).all())

    def may_swap_matrices(self, indices: Tensor) -> bool:
        """Whether a piece ``(B,q,k)`` has its matrices in another order, which may not be that of the values.

        Where the axes of sequences and heads have different sizes, only values in the same order fit.
        """
        sizes = [n for axis, n in enumerate(self.shape) if axis not in self._inner and n > 1]
        if len(set(sizes)) == len(sizes):
            return False
        return bool((self._leading_at(indices[:, 0, 0]).diff() < 0).any())

    @property
    def _inner(self) -> tuple[int, ...]:
        """The axes of queries and keys in the result."""
        return (len(self.shape) - 1,) if self.call.axes is None else self.call.axes

    def _leading_at(self, indices: Tensor) -> Tensor:
        """The numbers of the matrices ``(q,k)`` that indices belong to."""
        leading = torch.zeros_like(indices)
        for axis, size in enumerate(self.shape):
            if axis not in self._inner:
                leading = leading * size + indices // math.prod(self.shape[axis + 1 :]) % size
        return leading

    def _rows_at(self, indices: Tensor) -> Tensor:
        """The numbers of the rows that indices belong to, among those of all matrices."""
        leading, axes = self._leading_at(indices), self.call.axes
        if axes is None:
            return leading
        size = self.shape[axes[0]]
        return leading * size + indices // math.prod(self.shape[axes[0] + 1 :]) % size

    def has_duplicates(self, indices: Tensor) -> bool:
        """Whether a piece has some weight of the result more than once."""
        ordered = indices.flatten().sort().values
        return bool(((ordered.diff() == 0) & (ordered[1:] >= 0)).any())

    def has_met(self, indices: Tensor) -> bool:
        """Whether some weights of a piece have met values before."""
        return self._met is not None and bool(self._met[indices].any())

    def has_multiplied(self, weights: DerivedWeights, indices: Tensor, values: Tensor) -> bool:
        """Whether a piece has the numbers that multiplied values before."""
        if self._changed is None:
            return not weights.changed
        return torch.equal(self._changed[indices], values)

    def release(self) -> None:
        """Note that all of the result has met the values, and release the tensors of the model."""
        self.used = True
        self.call = replace(
            self.call, q=None, k=None, v=None, weights=None, attn_mask=None, lse=None, picked=None
        )
        self._unchanged.clear()
        self._is_set = self._indices = self._met = None

    def _write(self, indices: Tensor, values: Tensor) -> None:
        if self._changed is None or self._is_set is None:
            self._changed = values.new_zeros(math.prod(self.shape) + 1)
            self._is_set = torch.zeros_like(self._changed, dtype=torch.bool)
        self._changed[indices.reshape(-1)] = values.reshape(-1)
        self._is_set[indices.reshape(-1)] = True

    def joined_pieces(self) -> Tensor | None:
        """Return the weights ``(b,h,q,k)`` that multiply the values, or None if the model does not change the softmax.

        A model may multiply pieces of the weights one by one. The pieces are written into one tensor. Heads that were
        combined with others, and multiplied nothing themselves, are left out.
        """
        if self._changed is None or self._is_set is None or self.call.leading is None:
            return None
        for weights, operand in self._unchanged:
            indices = weights.indices_of(operand)
            if indices is not None:
                self._write(indices, weights.without_dropout(operand))
        joined = self._arranged(self._changed)
        if not self._combined:
            return joined
        return joined[:, self._arranged(self._is_set).any(dim=-1).any(dim=-1).any(dim=0)]

    def _arranged(self, numbers: Tensor) -> Tensor:
        """Numbers for the weights of the result, and one behind them, as ``(b,h,q,k)``."""
        leading, axes = self.call.leading, self.call.axes
        assert leading is not None
        numbers = numbers[:-1].view(self.shape)
        return leading.arrange(numbers.unsqueeze(-2) if axes is None else moved(numbers, *axes))


@dataclass(frozen=True)
class DerivedWeights:
    """A tensor that was computed from the result of a softmax."""

    softmax: FollowedSoftmax
    tensor: Tensor
    # The tensor without dropout, of the same shape and strides.
    undropped: Tensor
    key: int  # the axis of keys, -1 if unknown
    # Whether it is the result of more than copies, casts and dropout.
    changed: bool = False
    # Other softmaxes that it was computed from.
    others: tuple[FollowedSoftmax, ...] = ()
    # Whether its axes are those of the softmax's result.
    aligned: bool = True
    # The changed weights on the axes of the softmax's result, of which this tensor holds copies. None if unknown.
    final: Tensor | None = None
    # The indices of its numbers, where they are not those of the softmax's result in order.
    indices: Tensor | None = None
    # The tensors by which its numbers were chosen from the softmax's result, or put into another order.
    chosen_by: tuple[Tensor, ...] = ()
    # Whether it is a concatenation of several softmaxes and nothing else.
    concatenated: bool = False
    # For an elementwise product with a tensor of more axes, the weights and the view of them that was multiplied.
    factor: tuple[DerivedWeights, Tensor] | None = None
    # Whether it was computed from several pieces of the result.
    combined: bool = False
    # Whether it was computed from other tensors too, in an unknown way.
    mixed: bool = False

    @property
    def softmaxes(self) -> tuple[FollowedSoftmax, ...]:
        """The softmaxes that it was computed from."""
        return (self.softmax, *self.others)

    def mark_lost(self) -> None:
        """Note that the weights were multiplied in a way that is not known."""
        for softmax in self.softmaxes:
            softmax.lost = True

    def has_axes_of(self, view: Tensor) -> bool:
        """Whether a view has the shape and the strides of the tensor."""
        return view.shape == self.tensor.shape and view.stride() == self.tensor.stride()

    def indices_of(self, view: Tensor) -> Tensor | None:
        """The indices of the numbers of a view, or None where they are not known."""
        indices = self.indices
        if indices is None:
            if not self.aligned or tuple(self.tensor.shape) != self.softmax.shape:
                return None
            indices = self.softmax.indices(view.device)
        return indices_of_view(indices, self.tensor, view)

    def key_axis(self, view: Tensor) -> int | None:
        """The axis of keys in a view, or None where it is not known."""
        if self.key < 0:
            return None
        size, step = self.tensor.shape[self.key], self.tensor.stride(self.key)
        same_step = [
            axis
            for axis, n in enumerate(view.shape)
            if n <= size and (n > 1 or size == 1) and view.stride(axis) == step
        ]
        fitting = [axis for axis in same_step if view.shape[axis] == size] or same_step
        return None if not fitting else self.key if self.key in fitting else fitting[-1]

    def is_over_keys(self, operand: Tensor) -> bool:
        """Whether the last axis of a view is that of the keys, or has a single key."""
        if self.key >= 0:
            return operand.shape[-1] == 1 or operand.stride(-1) == self.tensor.stride(self.key)
        indices = self.indices_of(operand) if operand.shape[-1] == 1 else None
        if indices is None:
            return False
        keys = self.softmax.keys_at(indices.reshape(-1))
        return bool((keys == keys[0]).all())

    def without_dropout(self, view: Tensor) -> Tensor:
        """The same view of the weights without dropout."""
        if self.undropped is self.tensor:
            return view
        offset = self.undropped.storage_offset() + view.storage_offset() - self.tensor.storage_offset()
        return self.undropped.as_strided(view.shape, view.stride(), int(offset))

    def arguments_without_dropout(self, args: tuple) -> list[Any]:
        """The arguments of an operation, with views of the weights replaced by views without dropout."""
        storage = storage_of(self.tensor)
        return [
            self.without_dropout(x)
            if isinstance(x, Tensor) and x.layout is torch.strided and storage_of(x) == storage
            else x
            for x in args
        ]
