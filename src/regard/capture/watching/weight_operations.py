"""The tensors that operations compute from weights, described as :class:`DerivedWeights`.

Each function gets an operation and the weights among its arguments, and returns a description of its result. Nothing
is remembered here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.capture.reading.fast_replace import replace
from regard.capture.watching.followed_softmax import DerivedWeights
from regard.capture.watching.operators import storages_written
from regard.capture.watching.weight_indices import (
    choice_of,
    indices_after,
    reorders,
    same_without_dropout,
    storage_of,
)
from regard.torch_private import private_operators

__all__ = [
    "after_concatenation",
    "after_operation",
    "after_product_with_more_axes",
    "after_unknown_product",
    "after_unseen_write",
    "after_write",
    "combined",
    "indices_of_result",
    "scales",
]

aten = torch.ops.aten
_COPIES = {id(op) for op in (aten.clone.default, *private_operators("_to_copy"), aten.nan_to_num.default)}
_PAD = aten.constant_pad_nd.default
_SCALING = {
    id(op) for op in (aten.mul.Tensor, aten.mul_.Tensor, aten.div_.Tensor, aten.div_.Scalar, aten.div.Tensor)
}


def scales(func: Any) -> bool:
    """Whether an operator multiplies or divides element by element."""
    return id(func) in _SCALING


def combined(weights: list[DerivedWeights]) -> DerivedWeights:
    """The first of several weights in an operation, with the softmaxes of the rest as its other softmaxes."""
    first = weights[0]
    others = {
        id(softmax): softmax for x in weights for softmax in x.softmaxes if softmax is not first.softmax
    }
    return replace(first, others=tuple(others.values())) if others else first


def after_write(
    func: Any, args: tuple, kwargs: dict[str, Any], weights: DerivedWeights, target: Tensor
) -> DerivedWeights | None:
    """The weights after a write to them, or the tensor into which they were written as a whole."""
    softmax = weights.softmax
    if storage_of(weights.tensor) in storages_written(func, args, kwargs):
        if weights.undropped is weights.tensor:
            return after_unseen_write(weights)
        # The same operation is done to a copy of the weights without dropout.
        undropped = weights.undropped.clone(memory_format=torch.preserve_format)
        weights = replace(weights, undropped=undropped)
        func(*weights.arguments_without_dropout(args), **kwargs)
        return replace(weights, changed=True, final=None, concatenated=False)
    if target.untyped_storage().nbytes() != math.prod(softmax.shape) * target.itemsize:
        return None
    strides = torch.empty(softmax.shape, device="meta").stride()
    whole = target.as_strided(softmax.shape, strides, 0)
    return replace(
        weights,
        tensor=whole,
        undropped=whole,
        key=-1 if softmax.call.axes is None else softmax.call.axes[1],
        changed=True,
        aligned=True,
        final=None,
        indices=None,
    )


def after_unseen_write(weights: DerivedWeights) -> DerivedWeights:
    """The weights after a write to their memory of which only the result is known."""
    final = weights.tensor if weights.aligned else None
    return replace(weights, changed=True, final=final, concatenated=False)


def after_concatenation(
    func: Any,
    args: tuple,
    weights: list[DerivedWeights],
    result: Tensor,
    indices_in: Callable[[Tensor], Tensor | None],
) -> DerivedWeights:
    """The result of ``torch.cat`` or ``torch.stack``. ``indices_in`` gives the indices of an argument."""
    together, indices = combined(weights), None
    is_whole = tuple(result.shape) == together.softmax.shape
    if not together.others and not is_whole:
        pieces = [indices_in(x) for x in args[0]]
        if all(x is not None for x in pieces):
            indices = func(pieces, *args[1:])
    axes = together.softmax.call.axes
    return replace(
        together,
        tensor=result,
        undropped=result,
        key=axes[1] if is_whole and axes else weights[0].key if func is aten.cat.default else -1,
        changed=True,
        aligned=is_whole,
        final=None,
        indices=indices,
        concatenated=bool(together.others) and not any(x.changed and not x.concatenated for x in weights),
    )


def after_operation(
    func: Any,
    args: tuple,
    kwargs: dict[str, Any],
    results: Any,
    weights: DerivedWeights,
    view: Tensor,
    *,
    dropped: bool,
    mixed: bool,
) -> DerivedWeights | None:
    """The new tensor that an operation computed from a view of weights, or None where it holds no weights any more.

    ``dropped`` says that the operation is a dropout, and ``mixed`` that other tensors took part in it.
    """
    result = results[0] if isinstance(results, tuple | list) else results
    same_shape = view.shape == result.shape
    is_whole = same_shape and view.numel() == weights.tensor.numel()
    key, is_copy = weights.key_axis(view), id(func) in _COPIES or func is _PAD
    indices = indices_of_result(func, args, kwargs, results, weights, view)
    if indices is not None or is_whole:
        mixed = False
    elif result.numel() < weights.tensor.numel() and not (is_copy and weights.final is not None):
        if weights.mixed or mixed:
            weights.mark_lost()
        return None
    unchanged = same_shape and (dropped or id(func) in _COPIES) and (weights.changed or key is not None)
    undropped = result
    if unchanged and dropped and result.stride() == view.stride():
        undropped = weights.without_dropout(view)
    elif weights.undropped is not weights.tensor and (same_shape or indices is not None):
        undropped_args = weights.arguments_without_dropout(args)
        undropped = same_without_dropout(func, args, kwargs, results, undropped_args)
    aligned = is_whole and weights.aligned and weights.has_axes_of(view) and indices is None
    return replace(
        weights,
        tensor=result,
        undropped=undropped,
        key=-1 if key is None or not (same_shape or indices is not None) else key,
        changed=weights.changed or not unchanged,
        aligned=aligned,
        final=weights.final if unchanged or is_copy else result if aligned else None,
        indices=indices,
        chosen_by=weights.chosen_by + choice_of(func, args, kwargs, results),
        concatenated=weights.concatenated and unchanged,
        factor=None,
        mixed=weights.mixed or mixed,
    )


def after_product_with_more_axes(
    weights: DerivedWeights, view: Tensor, key: int | None, result: Tensor
) -> DerivedWeights:
    """The elementwise product of a view of weights and a tensor of more axes, which may be the values."""
    return replace(
        weights,
        tensor=result,
        undropped=result,
        key=-1 if key is None else key + result.ndim - view.ndim,
        changed=True,
        aligned=False,
        final=None,
        indices=None,
        factor=None if key is None else (weights, view),
        mixed=True,
    )


def after_unknown_product(weights: DerivedWeights, result: Tensor) -> DerivedWeights:
    """The matrix product of weights and a tensor that is not known as the values, such as a mixture of heads."""
    return replace(
        weights,
        tensor=result,
        undropped=result,
        key=-1,
        changed=True,
        aligned=False,
        final=None,
        indices=None,
        concatenated=False,
        factor=None,
        mixed=True,
    )


def indices_of_result(
    func: Any, args: tuple, kwargs: dict[str, Any], results: Any, weights: DerivedWeights, view: Tensor
) -> Tensor | None:
    """The indices of an operation's result, or None if they are unknown or those of the softmax's result."""
    result = results[0] if isinstance(results, tuple | list) else results
    if weights.indices is None and not reorders(func):
        if weights.has_axes_of(view) and view.shape == result.shape:
            return None
        if func is _PAD and tuple(result.shape) == weights.softmax.shape:
            return None
    before = weights.indices_of(view)
    return None if before is None else indices_after(func, args, kwargs, results, before)
