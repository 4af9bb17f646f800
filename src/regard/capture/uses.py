"""From a softmax on to the values: whether its result, or its dropout, is what multiplies them.

Some models change their weights after the softmax: a mask and new sums, heads that are mixed (talking heads, DeepViT).
What multiplies the values is then not the softmax. Its result is followed here through copies, casts, dropout and
whatever else is done to it, to the product over its keys. Where changed weights are multiplied in pieces (the diagonal
chunks of Longformer), the pieces are copies of them, and they are taken as they were before they were cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.capture.calls import Attended
from regard.capture.layouts import moved
from regard.capture.strands import Piece, Strand
from regard.capture.tracing import PRODUCTS, storages_written

__all__ = ["Use", "Uses"]

aten = torch.ops.aten
_COPIES = {id(op) for op in (aten.clone.default, aten._to_copy.default, aten.nan_to_num.default)}
_PAD = aten.constant_pad_nd.default
_NOISE = {id(op) for op in (aten.bernoulli_.float, aten.bernoulli.p, aten.bernoulli.default)}
_TIMES = {
    id(op) for op in (aten.mul.Tensor, aten.mul_.Tensor, aten.div_.Tensor, aten.div_.Scalar, aten.div.Tensor)
}


class Use(NamedTuple):
    """A softmax that was recorded, and as what."""

    strand: Strand
    piece: Piece
    call: Attended
    product: int  # the number of the product that the scores were, 0 if unknown
    valued: set[int]  # keys that have met their values


@dataclass(frozen=True)
class _Weights:
    """A tensor that was made of a softmax."""

    use: Use
    tensor: Tensor
    clean: Tensor  # the same without dropout, of the same shape and strides
    key: int  # its axis of keys
    changed: bool = False  # whether more than copies, casts and dropout was done to it
    parts: tuple[Use, ...] = ()  # other softmaxes that went into it
    aligned: bool = True  # whether its axes are those of the softmax's result
    # The changed weights on those axes, of which this tensor holds copies; None where they are not known.
    final: Tensor | None = None

    def is_seen_whole(self, view: Tensor) -> bool:
        """Whether a view of it has its axes in the same order."""
        return view.shape == self.tensor.shape and view.stride() == self.tensor.stride()


class Uses:
    """Follows the results of softmaxes until they multiply the values."""

    def __init__(
        self,
        parameters: Callable[[], set[int]],
        changed: Callable[[Use, Tensor, Collection[Use]], None],
        without_values: Callable[[Use, list[int]], None],
    ):
        self._parameters = parameters
        self._changed = (
            changed  # is told of the weights that multiply the values, (b,h,q,k), where they may be others
        )
        self._without_values = without_values  # is told of keys that met none
        self._weights: dict[int, _Weights] = {}  # by their storage
        self._noise: dict[int, Tensor] = {}
        # Changed weights of which pieces were multiplied, as they were then, by the id of their use.
        self._cut: dict[int, _Weights] = {}

    @property
    def follows(self) -> bool:
        return bool(self._weights)

    def stands_at(self, home: int) -> bool:
        """Whether weights, or the noise of their dropout, stand in a storage."""
        return home in self._weights or home in self._noise

    def begin(self, use: Use, result: Tensor, key: int) -> None:
        """Follow the result of a softmax over an axis."""
        self._weights[_home(result)] = _Weights(use, result, result, key % result.ndim)

    def forget(self, since: int = 0, kept: Collection[int] = ()) -> None:
        """Follow no longer what was recorded from a call on, but for tensors at some addresses."""
        still = {id(x.use) for x in self._weights.values() if x.tensor.data_ptr() in kept}
        still -= self._cut.keys()  # what the module returned may be their product with the values
        over = {
            id(x.use): x.use
            for x in self._weights.values()
            if x.use.piece.order >= since and id(x.use) not in still
        }
        for use in over.values():
            if use.valued:
                self._without_values(use, [n for n in range(use.call.grid.k) if n not in use.valued])
            elif id(use) in self._cut:
                self._tell_cut(self._cut[id(use)])
            self._cut.pop(id(use), None)
        self._weights = {at: x for at, x in self._weights.items() if id(x.use) not in over}
        self._noise.clear()

    def _tell_cut(self, held: _Weights) -> None:
        """Tell the changed weights of which pieces were multiplied."""
        lead, axes = held.use.call.lead, held.use.call.axes
        assert lead is not None
        assert axes is not None
        # A module has ended, so that the modes of the capture would take this for work of the model.
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            self._changed(held.use, lead.arrange(moved(held.tensor, *axes)), held.parts)

    def saw(self, func: Any, args: tuple, kwargs: dict[str, Any], result: Any) -> Use | None:
        """Take note of an operation; what is returned has met its values in it."""
        first = result[0] if isinstance(result, tuple | list) and result else result
        if not isinstance(first, Tensor) or first.layout is not torch.strided:
            return None
        if id(func) in PRODUCTS:
            return self._product(args[-2:], first)
        if id(func) in _NOISE:
            self._noise[_home(first)] = first
            return None
        homes = {_home(x): x for x in _tensors(args)}
        held = [self._weights[home] for home in homes if home in self._weights]
        if held:
            dropped = func is aten.native_dropout.default
            dropped = dropped or (id(func) in _TIMES and any(home in self._noise for home in homes))
            source = homes[_home(held[0].tensor)]
            self._made(func, args, kwargs, first, _together(held), source, dropped)
        elif id(func) in _TIMES and any(home in self._noise for home in homes):
            self._noise[_home(first)] = first
        return None

    def _made(
        self,
        func: Any,
        args: tuple,
        kwargs: dict[str, Any],
        result: Tensor,
        held: _Weights,
        source: Tensor,
        dropped: bool,
    ) -> None:
        """An operation on weights, or on a view of them."""
        if func._schema.is_mutable:
            if not dropped and _home(held.tensor) in storages_written(func, args, kwargs):
                final = held.tensor if held.aligned and held.clean is held.tensor else None
                self._weights[_home(held.tensor)] = replace(held, changed=True, final=final)
            return
        copied = id(func) in _COPIES or func is _PAD
        piece = copied and held.final is not None
        if (result.numel() < held.tensor.numel() and not piece) or _home(result) == _home(source):
            return  # no weights any more, or a view of them
        whole = source.numel() == held.tensor.numel() and source.shape == result.shape
        key = _axis_of(held, source) if whole else None
        kept = whole and (dropped or id(func) in _COPIES) and (held.changed or key is not None)
        clean = result
        if kept and dropped and result.stride() == source.stride():
            clean = _as(held, source)
        elif kept and held.clean is not held.tensor:
            clean = func(_as(held, source), *args[1:], **kwargs)
        aligned = whole and held.aligned and held.is_seen_whole(source)
        self._weights[_home(result)] = replace(
            held,
            tensor=result,
            clean=clean,
            key=-1 if key is None else key,
            changed=held.changed or not kept,
            aligned=aligned,
            final=held.final if kept or copied else result if aligned else None,
        )

    def _product(self, sides: tuple, result: Tensor) -> Use | None:
        """A product: with the values, or one that mixes heads."""
        left, right = sides
        held = [self._weights.get(_home(x)) for x in sides]
        if held[0] is not None and held[1] is not None:  # weights by weights, as in Nystrom's method
            self._drop(held[0].use)
            self._drop(held[1].use)
            return None
        for found, operand, other in ((held[0], left, right), (held[1], right.mT, left)):
            if found is None:
                continue
            mixed = _home(other) in self._parameters()
            if not mixed and self._meets_values(found, operand if operand.ndim == 3 else operand[None]):
                self._drop(found.use)
                return found.use
            if not mixed:
                self._keep_cut(found)
            if result.numel() >= max(found.tensor.numel(), math.prod(found.use.call.grid)):
                self._weights[_home(result)] = replace(
                    found, tensor=result, clean=result, key=-1, changed=True, aligned=False, final=None
                )
        return None

    def _keep_cut(self, held: _Weights) -> None:
        """Keep the changed weights of which a piece is multiplied, in case they never meet the values as a whole."""
        if held.final is not None and held.use.call.axes is not None and id(held.use) not in self._cut:
            copy = held.final.detach().clone()  # the model may write to them later
            self._cut[id(held.use)] = replace(held, tensor=copy, clean=copy)

    def _meets_values(self, held: _Weights, operand: Tensor) -> bool:
        """Whether a product of ``(B,n,p)`` with something is that with the values; it is told then."""
        use, (_, n, p) = held.use, operand.shape
        grid, lead = use.call.grid, use.call.lead
        if not held.changed and operand.stride(-1) == (step := held.tensor.stride(held.key)):
            start = int(operand.storage_offset() - held.tensor.storage_offset()) // max(step, 1)
            if start + p <= grid.k:
                use.valued.update(range(start, start + p))
                return len(use.valued) == grid.k  # others may have values of their own
        if lead is None or operand.numel() != grid.b * grid.h * grid.q * grid.k:
            return False
        if sorted((n, p)) != sorted(grid[2:]):
            return False
        self._changed(use, lead.arrange(_as(held, operand)), held.parts)
        return True

    def _drop(self, use: Use) -> None:
        self._weights = {at: x for at, x in self._weights.items() if x.use is not use}
        self._cut.pop(id(use), None)


def _together(held: list[_Weights]) -> _Weights:
    """The first of several weights that go into an operation, with the softmaxes of the others as its parts."""
    others = {id(use): use for x in held for use in (x.use, *x.parts) if use is not held[0].use}
    return replace(held[0], parts=tuple(others.values())) if others else held[0]


def _tensors(args: tuple) -> list[Tensor]:
    flat = [x for arg in args for x in (arg if isinstance(arg, list | tuple) else (arg,))]
    return [x for x in flat if isinstance(x, Tensor) and x.layout is torch.strided]


def _home(x: Tensor) -> int:
    return x.untyped_storage().data_ptr()


def _as(held: _Weights, view: Tensor) -> Tensor:
    """The weights without dropout, in the form of a view of those with it."""
    if held.clean is held.tensor:
        return view
    offset = held.clean.storage_offset() + view.storage_offset() - held.tensor.storage_offset()
    return held.clean.as_strided(view.shape, view.stride(), offset)


def _axis_of(held: _Weights, view: Tensor) -> int | None:
    """The axis of keys in a view of all weights; None where it cannot be told."""
    if held.key < 0:
        return None
    size, step = held.tensor.shape[held.key], held.tensor.stride(held.key)
    found = [a for a in range(view.ndim) if view.shape[a] == size and (size == 1 or view.stride(a) == step)]
    return None if not found else held.key if held.key in found else found[-1]
