"""Follows the result of a softmax to its product with the values.

Some models change their weights after the softmax, by another mask and new sums or by a mixture of heads (talking
heads, DeepViT). The weights that multiply the values then differ from the softmax. The result of the softmax is
followed through copies, casts, dropout and any other operation to the product over its keys. Weights that are
multiplied in pieces, such as slices or the largest of each row, are joined by their indices. Changed weights without
known indices, such as the diagonal chunks of Longformer, are kept as they were before they were cut. A softmax that
multiplies nothing is marked as doubtful.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor

from regard.capture.joining.collector import Collector
from regard.capture.joining.doubts import Doubt
from regard.capture.reading.axes import moved
from regard.capture.reading.fast_replace import replace
from regard.capture.watching.choices import Choices
from regard.capture.watching.followed_softmax import DerivedWeights, FollowedSoftmax
from regard.capture.watching.operators import PRODUCTS, has_storage, is_mutable
from regard.capture.watching.unseen_attention import SoftmaxesBeside
from regard.capture.watching.used_weights import UsedWeights, is_recorded_form
from regard.capture.watching.weight_indices import storage_of
from regard.capture.watching.weight_operations import (
    after_concatenation,
    after_operation,
    after_product_with_more_axes,
    after_unknown_product,
    after_unseen_write,
    after_write,
    combined,
    indices_of_result,
    scales,
)
from regard.torch_private import DispatchOff, FunctionModesOff

__all__ = ["WeightTracer"]

aten = torch.ops.aten
_NOISE = {id(op) for op in (aten.bernoulli_.float, aten.bernoulli.p, aten.bernoulli.default)}
_CONCATENATIONS = {id(op) for op in (aten.cat.default, aten.stack.default)}


class WeightTracer:
    """Follows the results of softmaxes until they multiply the values."""

    def __init__(self, parameters: Callable[[], set[int]], collector: Collector):
        self._parameters, self._collector = parameters, collector
        self._weights: dict[int, DerivedWeights] = {}  # by the address of their storage
        self.used = UsedWeights()
        self.beside = SoftmaxesBeside()
        self._noise: dict[int, Tensor] = {}  # random masks of dropout, by the address of their storage
        # Copies of changed weights of which pieces were multiplied, by the id of their softmax.
        self._cut: dict[int, DerivedWeights] = {}
        self.choices = Choices()
        # Whether torch.einsum runs on weights, whose letters say which axis of the values belongs to which of theirs.
        self.names_axes = False

    @property
    def follows(self) -> bool:
        """Whether there are weights that have not met their values, or that the model uses again."""
        return bool(self._weights or self.beside)

    def is_in_storage(self, storage: int) -> bool:
        """Whether weights, or the noise of their dropout, stand in a storage."""
        if storage in self._weights or storage in self._noise or storage in self.used.tensors:
            return True
        return storage in self.beside.tensors

    def has_own_axes(self, tensors: Collection[Tensor]) -> bool:
        """Whether all weights among some tensors have the axes of their softmax."""
        pairs = [(self._weights.get(storage_of(x)), x) for x in tensors if has_storage(x)]
        return all(w is None or (w.aligned and w.indices is None and w.has_axes_of(x)) for w, x in pairs)

    def mark_lost_at(self, storage: int) -> None:
        """Note that the weights in a storage are used where nothing can be seen."""
        if storage in self._weights:
            self._weights[storage].mark_lost()

    def mark_changed_at(self, storage: int) -> None:
        """Note that the weights in a storage may change unseen, so that they are compared when they meet the values."""
        weights = self._weights.get(storage)
        if weights is None:
            return
        if weights.undropped is not weights.tensor:
            weights.mark_lost()
        self._keep(after_unseen_write(weights))

    # ---- the beginning and the end

    def begin(self, softmax: FollowedSoftmax, result: Tensor, key: int) -> None:
        """Follow the result of a softmax over the axis ``key``."""
        key, picked, shape = key % result.ndim, softmax.call.picked, list(result.shape)
        indices = None
        if picked is not None:
            shape[key] = softmax.call.grid.k
        if softmax.call.axes is not None or key == result.ndim - 1:
            softmax.shape = tuple(shape)
        softmax.size = result.numel()
        if picked is not None:
            indices = softmax.indices(result.device).gather(key, picked)
        self._keep(DerivedWeights(softmax, result, result, key, indices=indices))

    def forget(self, since: int = 0, kept: Collection[int] | None = None) -> None:
        """Stop following the softmaxes from call number ``since`` on, except those with weights in ``kept``.

        ``kept`` are the storages that a module returned when it ended.
        """
        in_kept = [x for storage, x in self._weights.items() if storage in (kept or ())]
        going_on = {id(softmax) for x in in_kept for softmax in x.softmaxes}
        followed = {id(softmax): softmax for x in self._weights.values() for softmax in x.softmaxes}
        if kept is not None:
            returned = {id(softmax) for x in in_kept if not x.mixed for softmax in x.softmaxes}
            for softmax in followed.values():
                softmax.returned = id(softmax) in returned
        # A module may have returned the product of cut pieces with the values.
        going_on -= self._cut.keys()
        ended = [
            softmax
            for softmax in followed.values()
            if softmax.recorded.kept.order >= since and id(softmax) not in going_on
        ]
        for softmax in ended:
            self._end(softmax)
        self._drop(*ended)
        self.used.forget(since)
        self._noise.clear()

    def _end(self, softmax: FollowedSoftmax) -> None:
        """Record what is known of a softmax that is followed no longer."""
        if softmax.used:
            return
        cut = self._cut.get(id(softmax))
        # A module may have ended, so that the modes of the capture would take these operations for those of the model.
        with FunctionModesOff(), DispatchOff():
            if cut is not None and not softmax.keys_with_values and not softmax.is_complete:
                leading, axes = softmax.call.leading, softmax.call.axes
                assert leading is not None
                assert axes is not None
                self._record_changed(softmax, leading.arrange(moved(cut.tensor, *axes)), cut.others)
                return
            joined = softmax.joined_pieces()
            if joined is not None:
                self._record_changed(softmax, joined, softmax.others)
            elif softmax.keys_with_values and softmax.call.picked is None:
                keys = range(softmax.call.grid.k)
                sinks = [key for key in keys if key not in softmax.keys_with_values]
                self._collector.mark_sinks(softmax.recorded, sinks)
        if softmax.is_doubtful:
            self._collector.mark_doubtful(softmax.recorded, Doubt.NOT_MULTIPLIED)

    def _record_changed(
        self, softmax: FollowedSoftmax, weights: Tensor, others: Collection[FollowedSoftmax]
    ) -> None:
        """Record the weights ``(b,h,q,k)`` that multiply the values in place of their softmaxes."""
        self._collector.change_weights(softmax.recorded, weights, [other.recorded for other in others])

    def _keep(self, weights: DerivedWeights) -> None:
        self._weights[storage_of(weights.tensor)] = weights

    def _drop(self, *softmaxes: FollowedSoftmax) -> None:
        self._weights = {at: x for at, x in self._weights.items() if x.softmax not in softmaxes}
        for softmax in softmaxes:
            self._cut.pop(id(softmax), None)

    def _finish(self, *softmaxes: FollowedSoftmax) -> None:
        """Follow softmaxes that have met the values no longer, and remember where they stand."""
        for x in self._weights.values():
            if x.softmax in softmaxes:
                self.used.add(x)
        for softmax in softmaxes:
            softmax.release()
        self._drop(*softmaxes)

    # ---- operations

    def note_operation(
        self, func: Any, args: tuple, kwargs: dict[str, Any], result: Any
    ) -> FollowedSoftmax | None:
        """Follow an operation. Returns a softmax if all of its weights have now been multiplied with the values."""
        first = result[0] if isinstance(result, tuple | list) and result else result
        if not isinstance(first, Tensor):
            return None
        if self.beside:
            self.beside.note_operation(func, _tensors_in(args), first, self._weights, self._parameters)
        if self.used.tensors:
            for used in self.used.among(_tensors_in(args)):
                self._weights.setdefault(storage_of(used.tensor), used)
        if id(func) in PRODUCTS and all(x.layout is torch.strided for x in (*args[-2:], first)):
            return self._note_product(args[-2:], first)
        if id(func) in _NOISE:
            self._noise[storage_of(first)] = first
            return None
        views = {storage_of(x): x for x in _tensors_in(args)}
        weights = [self._weights[storage] for storage in views if storage in self._weights]
        scales_noise = scales(func) and any(storage in self._noise for storage in views)
        if not weights:
            if scales_noise:
                self._noise[storage_of(first)] = first
            return None
        if first.layout is not torch.strided or id(func) in PRODUCTS:
            weights[0].mark_lost()
            return None
        if weights[0].factor is not None and func is aten.sum.dim_IntList:
            return self._note_sum(args, weights[0])
        dropped = scales_noise or func is aten.native_dropout.default
        view = views[storage_of(weights[0].tensor)]
        if is_mutable(func):
            written = None if dropped else after_write(func, args, kwargs, weights[0], first)
            if written is not None:
                self._keep(written)
            return None
        if storage_of(first) == storage_of(view):
            return None
        if id(func) in _CONCATENATIONS:
            self._keep(after_concatenation(func, args, weights, first, self._indices_in))
            return None
        source = combined(weights)
        if self._combines_pieces(args):
            source = replace(source, combined=True)
        return self._note_new_tensor(func, args, kwargs, result, source, view, dropped)

    def _combines_pieces(self, args: tuple) -> bool:
        """Whether the arguments hold different pieces of a softmax, such as two of its heads."""
        pieces = {x.data_ptr(): x for x in _tensors_in(args) if storage_of(x) in self._weights}
        if len(pieces) < 2:
            return False
        known = [x for x in map(self._indices_in, pieces.values()) if x is not None]
        return any(x.shape == known[0].shape and not torch.equal(x, known[0]) for x in known[1:])

    def _indices_in(self, x: Tensor) -> Tensor | None:
        weights = self._weights.get(storage_of(x))
        if weights is None:
            return torch.full(x.shape, -1, dtype=torch.long, device=x.device)
        return weights.indices_of(x)

    def _note_new_tensor(
        self,
        func: Any,
        args: tuple,
        kwargs: dict[str, Any],
        results: Any,
        weights: DerivedWeights,
        view: Tensor,
        dropped: bool,
    ) -> FollowedSoftmax | None:
        """Note an operation on a view of weights that has written a new tensor."""
        result = results[0] if isinstance(results, tuple | list) else results
        if scales(func) and result.numel() > view.numel():
            indices = indices_of_result(func, args, kwargs, results, weights, view)
            if indices is None:
                return self._note_product_with_more_axes(weights, view, result)
        mixed = any(
            x.ndim and x.is_floating_point() and storage_of(x) not in self._weights for x in _tensors_in(args)
        )
        derived = after_operation(func, args, kwargs, results, weights, view, dropped=dropped, mixed=mixed)
        if derived is not None:
            self._keep(derived)
        return None

    # ---- products

    def _note_product(self, factors: tuple, result: Tensor) -> FollowedSoftmax | None:
        """Note a matrix product of weights with the values, or with a matrix that mixes heads."""
        left, right = factors
        in_left, in_right = (self._weights.get(storage_of(x)) for x in factors)
        if in_left is not None and in_right is not None:
            self._note_product_of_weights(in_left, in_right)
            return None
        for weights, operand, other in ((in_left, left, right), (in_right, right.mT, left)):
            if weights is None:
                continue
            operand = operand if operand.ndim == 3 else operand[None]  # (B,n,p)
            # A parameter may be the values of a learned memory. Else its product mixes heads.
            is_memory = weights.softmax.learned_keys and weights.is_over_keys(operand)
            if is_memory or storage_of(other) not in self._parameters():
                if weights.softmax.used:
                    self._note_second_use(weights, operand)
                    return None
                if self._may_swap_matrices(weights, operand):
                    weights.mark_lost()
                    return None
                if self._multiplies_values(weights, operand):
                    self._finish(*weights.softmaxes)
                    return weights.softmax
                if weights.is_over_keys(operand) and weights.indices_of(operand) is not None:
                    return self._note_piece(weights, operand)
                self._keep_cut(weights)
                weights.mark_lost()
            if result.numel() >= max(weights.tensor.numel(), math.prod(weights.softmax.call.grid)):
                self._keep(after_unknown_product(weights, result))
        return None

    def _note_product_of_weights(self, left: DerivedWeights, right: DerivedWeights) -> None:
        """Note a product of weights with weights, as in Nystrom's method."""
        for softmax in (*left.softmaxes, *right.softmaxes):
            if softmax.size and not softmax.used:
                self._collector.mark_doubtful(softmax.recorded, Doubt.NOT_MULTIPLIED)
        self._drop(left.softmax, right.softmax)

    def _note_second_use(self, weights: DerivedWeights, operand: Tensor) -> None:
        """Mark a softmax whose weights have met values if they meet them again in another form, ``(B,n,p)``."""
        if not is_recorded_form(weights, operand, self._collector.heads):
            self._collector.mark_doubtful(weights.softmax.recorded, Doubt.USED_TWICE)

    def _multiplies_values(self, weights: DerivedWeights, operand: Tensor) -> bool:
        """Whether ``(B,n,p)`` are all weights and multiply the values. Changed weights are recorded."""
        softmax, (_, n, p) = weights.softmax, operand.shape
        grid, leading = softmax.call.grid, softmax.call.leading
        if weights.concatenated:
            return weights.is_over_keys(operand)
        if not weights.changed and operand.numel() == softmax.size and weights.is_over_keys(operand):
            return True
        if weights.indices is not None and not self._is_rearranged(weights, operand):
            return False
        if weights.chosen_by and self.choices.include(weights.chosen_by):
            return False
        if leading is None or operand.numel() != math.prod(grid) or sorted((n, p)) != sorted(grid[2:]):
            return False
        self._record_changed(softmax, leading.arrange(weights.without_dropout(operand)), weights.others)
        return True

    def _is_rearranged(self, weights: DerivedWeights, operand: Tensor) -> bool:
        """Whether the weights ``(B,n,p)`` were transposed, or put into another order than that of the values."""
        if self._is_out_of_order(weights, operand):
            return True
        indices = None if weights.is_over_keys(operand) else weights.indices_of(operand)
        return indices is not None and weights.softmax.is_transposed(indices)

    def _may_swap_matrices(self, weights: DerivedWeights, operand: Tensor) -> bool:
        """Whether a copy of the weights ``(B,n,p)`` may have heads and sequences in another order than the values."""
        if weights.indices is None or weights.chosen_by or self.names_axes:
            return False
        indices = weights.indices_of(operand)
        return indices is not None and weights.softmax.may_swap_matrices(indices)

    def _is_out_of_order(self, weights: DerivedWeights, operand: Tensor) -> bool:
        """Whether the weights ``(B,n,p)`` were put into another order than that of the values, or repeated."""
        indices = weights.indices_of(operand) if weights.chosen_by else None
        if indices is None or weights.softmax.is_in_order(indices):
            return False
        if weights.softmax.has_duplicates(indices):
            return True
        # With a single row for each matrix of values, every query has values of its own.
        if operand.shape[-2] == 1 and weights.softmax.call.grid.q > 1:
            return False
        return not self.choices.include(weights.chosen_by)

    def _keep_cut(self, weights: DerivedWeights) -> None:
        """Copy changed weights of which a piece is multiplied, in case they are never multiplied as a whole."""
        softmax = weights.softmax
        if weights.final is None or softmax.call.axes is None or id(softmax) in self._cut:
            return
        copy = weights.final.detach().clone()  # the model may write to them later
        self._cut[id(softmax)] = replace(weights, tensor=copy, undropped=copy)

    def _note_piece(self, weights: DerivedWeights, operand: Tensor) -> FollowedSoftmax | None:
        """Note a piece of weights that multiplies values. Returns the softmax once all of it does."""
        if weights.softmax.used:
            self._note_second_use(weights, operand)
            return None
        indices = weights.indices_of(operand)
        if indices is None or self._is_out_of_order(weights, operand):
            weights.mark_lost()
            return None
        if weights.softmax.has_met(indices):
            self._note_second_use(weights, operand)
            return None
        weights.softmax.note_multiplied(weights, operand, indices)
        if not weights.softmax.is_complete:
            return None
        self._end(weights.softmax)
        self._finish(*weights.softmaxes)
        return weights.softmax

    def _note_product_with_more_axes(
        self, weights: DerivedWeights, view: Tensor, result: Tensor
    ) -> FollowedSoftmax | None:
        """Note an elementwise product with a tensor of more axes, which are the values if a sum over keys follows."""
        key = weights.key_axis(view)
        if key is None and view.shape != weights.tensor.shape:  # the weights of a single key
            return self._note_piece(weights, view[..., None])
        self._keep(after_product_with_more_axes(weights, view, key, result))
        return None

    def _note_sum(self, args: tuple, weights: DerivedWeights) -> FollowedSoftmax | None:
        """Note a sum of an elementwise product of weights and values over some axes."""
        assert weights.factor is not None
        factor, view = weights.factor
        summed, axes = args[0], args[1] if len(args) > 1 else ()
        key = factor.key_axis(view)
        over_keys = weights.key in [n % summed.ndim for n in axes]
        if key is not None and summed.shape == weights.tensor.shape and over_keys:
            return self._note_piece(factor, view.movedim(key, -1))
        weights.mark_lost()
        return None


def _tensors_in(args: tuple) -> list[Tensor]:
    flat = [x for arg in args for x in (arg if isinstance(arg, list | tuple) else (arg,))]
    return [x for x in flat if has_storage(x)]
