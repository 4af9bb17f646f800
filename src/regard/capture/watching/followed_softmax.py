"""A softmax whose result is followed to the values, and the tensors that were made of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard.capture.joining.call_chains import RecordedCall
from regard.capture.reading.attention_calls import AttentionCall
from regard.capture.reading.axes import moved
from regard.capture.watching.weight_indices import all_indices, indices_of_view, storage_of

__all__ = ["DerivedWeights", "FollowedSoftmax"]


@dataclass(eq=False)
class FollowedSoftmax:
    """A softmax that was recorded, and what became of its result."""

    recorded: RecordedCall
    call: AttentionCall
    product: int  # the number of the product that the scores were, 0 if unknown
    shape: tuple[int, ...] = ()  # of the result; keys that the model left out before the softmax count too
    size: int = 0  # numbers of the result
    valued: set[int] = field(default_factory=set)  # keys that met their values
    met: int = 0  # numbers that met their values
    lost: bool = (
        False  # whether a tensor was multiplied of which it is not known how it was made of the result
    )
    returned: bool = False  # whether the module that ended last returned it
    parts: tuple[FollowedSoftmax, ...] = ()  # other softmaxes that went into the pieces that met their values
    _plain: list[tuple[DerivedWeights, Tensor]] = field(
        default_factory=list
    )  # unchanged pieces that met their values
    _changed: Tensor | None = None  # changed pieces that met their values, and one number for indices of -1
    _indices: Tensor | None = None

    @property
    def is_complete(self) -> bool:
        """Whether all of the result has met its values."""
        return self.met >= self.size

    @property
    def is_doubtful(self) -> bool:
        """Whether the weights that multiply the values may be others than those that are known."""
        return not self.is_complete and (self.lost or not (self.met or self.returned))

    def indices(self, device: torch.device) -> Tensor:
        """The indices of the whole result, which are made once."""
        if self._indices is None:
            self._indices = all_indices(self.shape, device)
        return self._indices

    def meets(self, held: DerivedWeights, operand: Tensor, indices: Tensor) -> None:
        """Note a part of the weights that multiplies values, with the keys on its last axis."""
        self.met += int((indices >= 0).sum()) if held.changed else operand.numel()
        self.parts = tuple(dict.fromkeys((*self.parts, *held.parts)))
        for part in held.parts:
            part.met = part.size
        if held.changed:
            self._write(indices, held.without_dropout(operand))
            return
        self._plain.append((held, operand))
        self.valued.update(self.keys_at(indices.reshape(-1, indices.shape[-1])[0]).tolist())

    def keys_at(self, indices: Tensor) -> Tensor:
        """The keys that indices belong to."""
        axes = self.call.axes
        axis = len(self.shape) - 1 if axes is None else axes[1]
        return indices // math.prod(self.shape[axis + 1 :]) % self.shape[axis]

    def _write(self, indices: Tensor, values: Tensor) -> None:
        if self._changed is None:
            self._changed = values.new_zeros(math.prod(self.shape) + 1)
        self._changed[indices.reshape(-1)] = values.reshape(-1)

    def rebuilt(self) -> Tensor | None:
        """The weights ``(b,h,q,k)`` that multiply the values, joined from parts, or None where no part was changed."""
        leading, axes = self.call.leading, self.call.axes
        if self._changed is None or leading is None:
            return None
        for held, operand in self._plain:
            indices = held.indices_of(operand)
            if indices is not None:
                self._write(indices, held.without_dropout(operand))
        weights = self._changed[:-1].view(self.shape)
        return leading.arrange(weights.unsqueeze(-2) if axes is None else moved(weights, *axes))


@dataclass(frozen=True)
class DerivedWeights:
    """A tensor that was made of a softmax."""

    softmax: FollowedSoftmax
    tensor: Tensor
    clean: Tensor  # the same without dropout, of the same shape and strides
    key: int  # its axis of keys, -1 if unknown
    changed: bool = False  # whether more than copies, casts and dropout was done to it
    parts: tuple[FollowedSoftmax, ...] = ()  # other softmaxes that went into it
    aligned: bool = True  # whether its axes are those of the softmax's result
    # The changed weights on those axes, of which this tensor holds copies; None where they are not known.
    final: Tensor | None = None
    indices: Tensor | None = (
        None  # of its numbers, where they are not those of the softmax's result one by one
    )
    joined: bool = False  # whether several softmaxes were put beside one another, and nothing else was done
    # The weights, and the view of them, of which this is an elementwise product with a tensor of more axes.
    spread: tuple[DerivedWeights, Tensor] | None = None
    mixed: bool = False  # whether other tensors went into it in a way that is not known

    @property
    def softmaxes(self) -> tuple[FollowedSoftmax, ...]:
        """The softmaxes that it was made of."""
        return (self.softmax, *self.parts)

    def is_seen_whole(self, view: Tensor) -> bool:
        """Whether a view of it has its axes in the same order."""
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
        found = [
            a
            for a, n in enumerate(view.shape)
            if n <= size and (n > 1 or size == 1) and view.stride(a) == step
        ]
        whole = [a for a in found if view.shape[a] == size] or found
        return None if not whole else self.key if self.key in whole else whole[-1]

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
        """The weights without dropout, in the form of a view of those with it."""
        if self.clean is self.tensor:
            return view
        offset = self.clean.storage_offset() + view.storage_offset() - self.tensor.storage_offset()
        return self.clean.as_strided(view.shape, view.stride(), int(offset))

    def arguments_without_dropout(self, args: tuple) -> list[Any]:
        """Arguments of an operation, with the weights without dropout in place of those with it."""
        home = storage_of(self.tensor)
        return [
            self.without_dropout(x)
            if isinstance(x, Tensor) and x.layout is torch.strided and storage_of(x) == home
            else x
            for x in args
        ]
