"""Follows the result of a softmax to its product with the values.

Some models change their weights after the softmax: a mask and new sums, heads that are mixed (talking heads, DeepViT).
The weights that multiply the values are then not the softmax. The result of the softmax is followed through copies,
casts, dropout and any other operation to the product over its keys. Weights that are multiplied in pieces, such as
slices or the largest of each row, are joined by their indices. Changed weights without known indices (the diagonal
chunks of Longformer) are kept as they were before they were cut. A softmax that multiplies nothing is doubtful.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor

from regard.capture.joining.collector import Collector
from regard.capture.reading.axes import moved
from regard.capture.reading.fast_replace import replace
from regard.capture.watching.followed_softmax import DerivedWeights, FollowedSoftmax
from regard.capture.watching.score_tracing import PRODUCTS, is_mutable, storages_written
from regard.capture.watching.weight_indices import indices_after, reorders, same_without_dropout
from regard.capture.watching.weight_indices import storage_of as _home

__all__ = ["WeightTracer"]

aten = torch.ops.aten
_COPIES = {id(op) for op in (aten.clone.default, aten._to_copy.default, aten.nan_to_num.default)}
_PAD = aten.constant_pad_nd.default
_NOISE = {id(op) for op in (aten.bernoulli_.float, aten.bernoulli.p, aten.bernoulli.default)}
_TIMES = {
    id(op) for op in (aten.mul.Tensor, aten.mul_.Tensor, aten.div_.Tensor, aten.div_.Scalar, aten.div.Tensor)
}
_JOINS = {id(op) for op in (aten.cat.default, aten.stack.default)}


class WeightTracer:
    """Follows the results of softmaxes until they multiply the values."""

    def __init__(self, parameters: Callable[[], set[int]], collector: Collector):
        self._parameters, self._collector = parameters, collector
        self._weights: dict[int, DerivedWeights] = {}  # by their storage
        self._noise: dict[int, Tensor] = {}
        # Changed weights of which pieces were multiplied, as they were then, by the id of their softmax.
        self._cut: dict[int, DerivedWeights] = {}

    @property
    def follows(self) -> bool:
        return bool(self._weights)

    def stands_at(self, home: int) -> bool:
        """Whether weights, or the noise of their dropout, stand in a storage."""
        return home in self._weights or home in self._noise

    def lose_at(self, home: int) -> None:
        """Take note that weights in a storage are used where nothing can be seen."""
        if home in self._weights:
            _lose(self._weights[home])

    def begin(self, softmax: FollowedSoftmax, result: Tensor, key: int) -> None:
        """Follow the result of a softmax over an axis."""
        key, picked, shape = key % result.ndim, softmax.call.picked, list(result.shape)
        indices = None
        if picked is not None:
            shape[key] = softmax.call.grid.k
        if softmax.call.axes is not None or key == result.ndim - 1:
            softmax.shape = tuple(shape)
        softmax.size = result.numel()
        if picked is not None:
            indices = softmax.indices(result.device).gather(key, picked)
        self._weights[_home(result)] = DerivedWeights(softmax, result, result, key, indices=indices)

    def forget(self, since: int = 0, kept: Collection[int] | None = None) -> None:
        """Follow no longer the softmaxes from a call on, but for tensors in the storages that a module returned."""
        held = [x for home, x in self._weights.items() if home in (kept or ())]
        still = {id(softmax) for x in held for softmax in x.softmaxes}
        followed = {id(softmax): softmax for x in self._weights.values() for softmax in x.softmaxes}
        if kept is not None:
            returned = {id(softmax) for x in held if not x.mixed for softmax in x.softmaxes}
            for softmax in followed.values():
                softmax.returned = id(softmax) in returned
        still -= self._cut.keys()  # what the module returned may be their product with the values
        over = [
            softmax
            for softmax in followed.values()
            if softmax.recorded.kept.order >= since and id(softmax) not in still
        ]
        for softmax in over:
            self._end(softmax)
        self._drop(*over)
        self._noise.clear()

    def _end(self, softmax: FollowedSoftmax) -> None:
        """Tell what is known of a softmax that is followed no longer."""
        cut = self._cut.get(id(softmax))
        # A module may have ended, so that the modes of the capture would take this for work of the model.
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            if cut is not None and not softmax.valued and not softmax.is_complete:
                leading, axes = softmax.call.leading, softmax.call.axes
                assert leading is not None
                assert axes is not None
                self._change_weights(softmax, leading.arrange(moved(cut.tensor, *axes)), cut.parts)
                return
            rebuilt = softmax.rebuilt()
            if rebuilt is not None:
                self._change_weights(softmax, rebuilt, softmax.parts)
            elif softmax.valued and softmax.call.picked is None:
                self._collector.mark_sinks(
                    softmax.recorded, [n for n in range(softmax.call.grid.k) if n not in softmax.valued]
                )
        if softmax.is_doubtful:
            self._collector.mark_doubtful(softmax.recorded)

    def saw(self, func: Any, args: tuple, kwargs: dict[str, Any], result: Any) -> FollowedSoftmax | None:
        """Follow an operation. Returns the softmax whose weights were multiplied with the values, if any."""
        first = result[0] if isinstance(result, tuple | list) and result else result
        if not isinstance(first, Tensor):
            return None
        if id(func) in PRODUCTS and all(x.layout is torch.strided for x in (*args[-2:], first)):
            return self._product(args[-2:], first)
        if id(func) in _NOISE:
            self._noise[_home(first)] = first
            return None
        homes = {_home(x): x for x in _tensors(args)}
        held = [self._weights[home] for home in homes if home in self._weights]
        if not held:
            if id(func) in _TIMES and any(home in self._noise for home in homes):
                self._noise[_home(first)] = first
            return None
        if first.layout is not torch.strided or id(func) in PRODUCTS:
            _lose(held[0])
            return None
        if held[0].spread is not None and func is aten.sum.dim_IntList:
            return self._summed(args, held[0])
        dropped = func is aten.native_dropout.default
        dropped = dropped or (id(func) in _TIMES and any(home in self._noise for home in homes))
        source = homes[_home(held[0].tensor)]
        if is_mutable(func):
            if not dropped:
                self._written(func, args, kwargs, held[0], first)
            return None
        if _home(first) == _home(source):  # a view
            return None
        if id(func) in _JOINS:
            self._joined(func, args, held, first)
            return None
        return self._made(func, args, kwargs, result, _together(held), source, dropped)

    def _written(
        self, func: Any, args: tuple, kwargs: dict[str, Any], held: DerivedWeights, target: Tensor
    ) -> None:
        """Weights were written to, or into another tensor."""
        if _home(held.tensor) in storages_written(func, args, kwargs):
            clean = held.tensor
            if held.clean is not held.tensor:  # the same is done to a copy of the weights without dropout
                held = replace(held, clean=held.clean.clone(memory_format=torch.preserve_format))
                clean = held.clean
                func(*held.arguments_without_dropout(args), **kwargs)
            final = held.tensor if held.aligned and clean is held.tensor else None
            changed = replace(held, clean=clean, changed=True, final=final, joined=False)
            self._weights[_home(held.tensor)] = changed
        elif (room := target.untyped_storage()).nbytes() == math.prod(held.softmax.shape) * target.itemsize:
            whole = target.as_strided(
                held.softmax.shape, torch.empty(held.softmax.shape, device="meta").stride(), 0
            )
            key = held.softmax.call.axes[1] if held.softmax.call.axes is not None else -1
            self._weights[room.data_ptr()] = replace(
                held, tensor=whole, clean=whole, key=key, changed=True, aligned=True, final=None, indices=None
            )

    def _joined(self, func: Any, args: tuple, held: list[DerivedWeights], result: Tensor) -> None:
        """Pieces of weights were put beside one another."""
        together, indices = _together(held), None
        whole = tuple(result.shape) == together.softmax.shape
        if not together.parts and not whole:
            found = [self._indices_in(x) for x in args[0]]
            if all(x is not None for x in found):
                indices = func(found, *args[1:])
        axes = together.softmax.call.axes
        self._weights[_home(result)] = replace(
            together,
            tensor=result,
            clean=result,
            key=axes[1] if whole and axes else held[0].key if func is aten.cat.default else -1,
            changed=True,
            aligned=whole,
            final=None,
            indices=indices,
            joined=bool(together.parts) and not any(x.changed and not x.joined for x in held),
        )

    def _indices_in(self, x: Tensor) -> Tensor | None:
        held = self._weights.get(_home(x))
        if held is None:
            return torch.full(x.shape, -1, dtype=torch.long, device=x.device)
        return held.indices_of(x)

    def _made(
        self,
        func: Any,
        args: tuple,
        kwargs: dict[str, Any],
        results: Any,
        held: DerivedWeights,
        source: Tensor,
        dropped: bool,
    ) -> FollowedSoftmax | None:
        """An operation on weights, or on a view of them, that has made a new tensor."""
        result = results[0] if isinstance(results, tuple | list) else results
        same = source.shape == result.shape
        whole = same and source.numel() == held.tensor.numel()
        key, copied = held.key_axis(source), id(func) in _COPIES or func is _PAD
        indices = _indices_after(func, args, kwargs, results, held, source)
        mixed = held.mixed
        if indices is None and not whole:
            if id(func) in _TIMES and result.numel() > source.numel():
                return self._spread(held, source, key, result)
            mixed = held.mixed or any(
                x.ndim and x.is_floating_point() and _home(x) not in self._weights for x in _tensors(args)
            )
            if result.numel() < held.tensor.numel() and not (copied and held.final is not None):
                if mixed:
                    _lose(held)
                return None  # no weights any more
        kept = same and (dropped or id(func) in _COPIES) and (held.changed or key is not None)
        clean = result
        if kept and dropped and result.stride() == source.stride():
            clean = held.without_dropout(source)
        elif held.clean is not held.tensor and (same or indices is not None):
            clean = same_without_dropout(func, args, kwargs, results, held.arguments_without_dropout(args))
        aligned = whole and held.aligned and held.is_seen_whole(source) and indices is None
        self._weights[_home(result)] = replace(
            held,
            tensor=result,
            clean=clean,
            key=-1 if key is None or not (same or indices is not None) else key,
            changed=held.changed or not kept,
            aligned=aligned,
            final=held.final if kept or copied else result if aligned else None,
            indices=indices,
            joined=held.joined and kept,
            spread=None,
            mixed=mixed,
        )
        return None

    def _spread(
        self, held: DerivedWeights, source: Tensor, key: int | None, result: Tensor
    ) -> FollowedSoftmax | None:
        """Note weights multiplied with a tensor of more axes, which are values if a sum over the keys follows."""
        if key is None and source.shape != held.tensor.shape:  # those of one key
            return self._take(held, source[..., None])
        self._weights[_home(result)] = replace(
            held,
            tensor=result,
            clean=result,
            key=-1 if key is None else key + result.ndim - source.ndim,
            changed=True,
            aligned=False,
            final=None,
            indices=None,
            spread=None if key is None else (held, source),
            mixed=True,
        )
        return None

    def _summed(self, args: tuple, held: DerivedWeights) -> FollowedSoftmax | None:
        """The product of weights and values was summed over some axes."""
        assert held.spread is not None
        before, source = held.spread
        summed, axes = args[0], args[1] if len(args) > 1 else ()
        key = before.key_axis(source)
        if (
            key is not None
            and summed.shape == held.tensor.shape
            and held.key in [n % summed.ndim for n in axes]
        ):
            return self._take(before, source.movedim(key, -1))
        _lose(held)
        return None

    def _take(self, held: DerivedWeights, operand: Tensor) -> FollowedSoftmax | None:
        """Note weights that multiply values. Returns their softmax once all of it has."""
        indices = held.indices_of(operand)
        if indices is None:
            _lose(held)
            return None
        held.softmax.meets(held, operand, indices)
        if not held.softmax.is_complete:
            return None
        self._end(held.softmax)
        self._drop(*held.softmaxes)
        return held.softmax

    def _product(self, sides: tuple, result: Tensor) -> FollowedSoftmax | None:
        """Follow a product of weights with the values, or with a matrix that mixes heads."""
        left, right = sides
        held = [self._weights.get(_home(x)) for x in sides]
        if held[0] is not None and held[1] is not None:  # weights by weights, as in Nystrom's method
            for softmax in (*held[0].softmaxes, *held[1].softmaxes):
                if softmax.size:
                    self._collector.mark_doubtful(softmax.recorded)
            self._drop(held[0].softmax, held[1].softmax)
            return None
        for found, operand, other in ((held[0], left, right), (held[1], right.mT, left)):
            if found is None:
                continue
            operand = operand if operand.ndim == 3 else operand[None]  # (B,n,p)
            if _home(other) not in self._parameters():
                if self._meets_values(found, operand):
                    self._drop(*found.softmaxes)
                    return found.softmax
                if found.is_over_keys(operand) and found.indices_of(operand) is not None:
                    return self._take(found, operand)
                self._keep_cut(found)
                _lose(found)
            if result.numel() >= max(found.tensor.numel(), math.prod(found.softmax.call.grid)):
                self._weights[_home(result)] = replace(
                    found,
                    tensor=result,
                    clean=result,
                    key=-1,
                    changed=True,
                    aligned=False,
                    final=None,
                    indices=None,
                    joined=False,
                    spread=None,
                    mixed=True,
                )
        return None

    def _keep_cut(self, held: DerivedWeights) -> None:
        """Keep the changed weights of which a piece is multiplied, in case they never meet the values as a whole."""
        if (
            held.final is not None
            and held.softmax.call.axes is not None
            and id(held.softmax) not in self._cut
        ):
            copy = held.final.detach().clone()  # the model may write to them later
            self._cut[id(held.softmax)] = replace(held, tensor=copy, clean=copy)

    def _meets_values(self, held: DerivedWeights, operand: Tensor) -> bool:
        """Whether ``(B,n,p)`` are all weights and multiply the values. If they were changed, they are recorded."""
        softmax, (_, n, p) = held.softmax, operand.shape
        grid, leading = softmax.call.grid, softmax.call.leading
        if held.joined:
            return held.is_over_keys(operand)
        if not held.changed and operand.numel() == softmax.size and held.is_over_keys(operand):
            return True
        if held.indices is not None or leading is None or operand.numel() != math.prod(grid):
            return False
        if sorted((n, p)) != sorted(grid[2:]):
            return False
        self._change_weights(softmax, leading.arrange(held.without_dropout(operand)), held.parts)
        return True

    def _change_weights(
        self, softmax: FollowedSoftmax, weights: Tensor, parts: Collection[FollowedSoftmax]
    ) -> None:
        """Record the weights ``(b,h,q,k)`` that multiply the values in place of the softmax and of others in them."""
        self._collector.change_weights(softmax.recorded, weights, [part.recorded for part in parts])

    def _drop(self, *softmaxes: FollowedSoftmax) -> None:
        self._weights = {at: x for at, x in self._weights.items() if x.softmax not in softmaxes}
        for softmax in softmaxes:
            self._cut.pop(id(softmax), None)


def _indices_after(
    func: Any, args: tuple, kwargs: dict[str, Any], results: Any, held: DerivedWeights, source: Tensor
) -> Tensor | None:
    """The indices of a result made of a view of weights, or None if they are unknown or those of the softmax."""
    result = results[0] if isinstance(results, tuple | list) else results
    if held.indices is None and not reorders(func):
        if held.is_seen_whole(source) and source.shape == result.shape:
            return None
        if func is _PAD and tuple(result.shape) == held.softmax.shape:
            return None
    before = held.indices_of(source)
    return None if before is None else indices_after(func, args, kwargs, results, before)


def _lose(held: DerivedWeights) -> None:
    """Take note that weights were multiplied in a way that is not known."""
    for softmax in held.softmaxes:
        softmax.lost = True


def _together(held: list[DerivedWeights]) -> DerivedWeights:
    """The first of several weights that go into an operation, with the softmaxes of the others as its parts."""
    others = {id(softmax): softmax for x in held for softmax in x.softmaxes if softmax is not held[0].softmax}
    return replace(held[0], parts=tuple(others.values())) if others else held[0]


def _tensors(args: tuple) -> list[Tensor]:
    flat = [x for arg in args for x in (arg if isinstance(arg, list | tuple) else (arg,))]
    return [x for x in flat if isinstance(x, Tensor) and x.layout is torch.strided]
