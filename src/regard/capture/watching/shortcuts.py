"""The operation that a function of torch will do, predicted from its kind and its arguments.

The dispatch mode sees a function operation by operation, which costs several times what the function itself costs. Most
functions need not be seen in that way. They only read a shape, or have no scores among their arguments, or do one
operation that is known beforehand. Such an operation is reported as if the dispatch mode had seen it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.capture.watching.function_kinds import DROPOUTS, OPERATOR_OF, FunctionKind
from regard.torch_private import any_autocast, private_operators, schema_of, transform_on_top

__all__ = ["UNCHANGED", "Operation", "is_plain", "predict", "report", "tensors_in"]

aten = torch.ops.aten


class Operation(NamedTuple):
    """An operator and its arguments, as the dispatch mode would see them."""

    func: Any
    args: tuple


UNCHANGED = Operation(None, ())
"""Stands for a function whose result starts at the same address, with the same numbers."""
UNRELATED = Operation(None, ())
"""Stands for a function whose result has nothing to do with scores."""
_IN_PLACE = {func for func, op in OPERATOR_OF.items() if schema_of(op).is_mutable}
_SOFTMAX_OPTIONS = {"dim", "dtype", "_stacklevel"}
_COPIES = (*private_operators("_to_copy"), aten.clone.default)
_SOFTMAX = private_operators("_softmax")
_OF_THREE = (aten.where.self, aten.masked_fill.Scalar, aten.masked_fill_.Scalar, aten.gather.default)


def is_plain(x: Any) -> bool:
    """Whether an argument is a tensor whose numbers can be found by their address."""
    kind = type(x)
    return (kind is Tensor or kind is nn.Parameter) and x.layout is torch.strided and not x.is_meta


class Follower(Protocol):
    """Follows scores, and weights made of them."""

    @property
    def follows(self) -> bool:
        """Whether any scores or weights are followed."""
        ...

    @property
    def parameters(self) -> set[int]:
        """The storages of the model's parameters."""
        ...

    def concerns(self, *values: Any) -> bool:
        """Whether some values hold a tensor of followed scores or weights."""
        ...

    def forget_results(self, result: Any) -> None:
        """Note that the tensors that a function returned hold no scores."""
        ...


class Listener(Protocol):
    """Is notified of operations."""

    @property
    def handwritten(self) -> Follower:
        """The follower of the scores and weights of attention by hand."""
        ...

    def operation(self, func: Any, args: tuple, kwargs: dict[str, Any], result: Any) -> None:
        """Note an operation that torch has done."""
        ...


def predict(
    follower: Follower, func: Any, kind: FunctionKind, args: tuple, kwargs: dict[str, Any]
) -> Operation | None:
    """The operation that a function will do, or None where it is not known and the function has to be watched."""
    if kind is FunctionKind.VIEW:
        return UNCHANGED
    if kind is FunctionKind.UNKNOWN or kind is FunctionKind.IN_PLACE:
        return None
    if kind is FunctionKind.LINEAR or kind is FunctionKind.PRODUCT:
        if _is_layer(follower, func, (*args, *kwargs.values())):
            if not follower.follows:
                # There are no scores that the result could be mistaken for.
                return UNCHANGED
            return None if follower.concerns(*args, *kwargs.values()) else UNRELATED
        return None if kind is FunctionKind.LINEAR else _predict_one(follower, func, kind, args, kwargs)
    if kind is FunctionKind.SOFTMAX or func in _IN_PLACE:
        return _predict_one(follower, func, kind, args, kwargs)
    if _writes(args, kwargs):
        return None
    if not follower.concerns(*args, *kwargs.values()):
        return UNRELATED
    return None if kind is FunctionKind.UNRELATED else _predict_one(follower, func, kind, args, kwargs)


def report(listener: Listener, operation: Operation, result: Any) -> None:
    """Report the operation of a function and its result, as if the dispatch mode had seen it."""
    if operation is UNRELATED or not isinstance(result, Tensor):
        listener.handwritten.forget_results(result)
        return
    shown = result.detach()
    if operation.func in _COPIES:
        source = operation.args[0]
        if shown.data_ptr() == source.data_ptr():
            return
        # The shape before the reshape, as the operator sees it.
        shown = shown.view(source.shape)
    elif operation.func is aten.bmm.default and shown.ndim > 3:
        shown = shown.view(-1, *shown.shape[-2:])  # (B,m,n)
    listener.operation(operation.func, operation.args, {}, shown)


def _is_layer(follower: Follower, func: Any, factors: tuple) -> bool:
    """Whether a factor of a product is a parameter of the model, so that the product holds no scores."""
    for x in factors:
        if type(x) is nn.Parameter:
            if func is F.linear or x.untyped_storage().data_ptr() in follower.parameters:
                return True
        elif func is F.linear and isinstance(x, nn.Parameter):
            return True
    return False


def _writes(args: tuple, kwargs: dict[str, Any]) -> bool:
    """Whether a function may write to an argument, because of ``out=`` or ``inplace=True``."""
    # A loop, which is faster than any() with a generator.
    for x in args:
        if x is True:
            return True
    return bool(kwargs) and ("out" in kwargs or kwargs.get("inplace") is True)


def _predict_one(
    follower: Follower, func: Any, kind: FunctionKind, args: tuple, kwargs: dict[str, Any]
) -> Operation | None:
    if any_autocast() or transform_on_top() is not None:
        # Autocast casts the arguments, and a transform of torch.func wraps them.
        return None
    if kind is FunctionKind.PRODUCT:
        return _product(follower, args, kwargs)
    return _softmax(args, kwargs) if kind is FunctionKind.SOFTMAX else _arithmetic(func, args, kwargs)


def _product(follower: Follower, args: tuple, kwargs: dict[str, Any]) -> Operation | None:
    if kwargs or len(args) != 2 or not is_plain(args[0]) or not is_plain(args[1]):
        return None
    a, b = args[0].detach(), args[1].detach()
    if a.ndim != b.ndim or a.ndim < 3 or a.shape[:-2] != b.shape[:-2] or not a.numel() or not b.numel():
        return None
    if a.ndim == 3:
        return Operation(aten.bmm.default, (a, b))
    joined = (a.flatten(0, -3), b.flatten(0, -3))  # (B,m,n)
    for x, y in zip((a, b), joined, strict=True):
        if x.data_ptr() != y.data_ptr() and follower.concerns(x):
            # The reshape copied scores, and the copy is not known as scores.
            return None
    return Operation(aten.bmm.default, joined)


def _softmax(args: tuple, kwargs: dict[str, Any]) -> Operation | None:
    x: Any = args[0] if args else None
    axis = args[1] if len(args) > 1 else kwargs.get("dim")
    if len(args) > 2 or not is_plain(x) or type(axis) is not int or not x.is_floating_point():
        return None
    if kwargs.get("dtype") not in (None, x.dtype) or not _SOFTMAX_OPTIONS.issuperset(kwargs):
        return None
    return Operation(_SOFTMAX[0], (x.detach(), axis, False)) if _SOFTMAX else None


def _arithmetic(func: Any, args: tuple, kwargs: dict[str, Any]) -> Operation | None:
    if func in DROPOUTS:
        is_idle = kwargs.get("training", *args[2:3]) is False
        return UNCHANGED if is_idle else None
    operator = OPERATOR_OF.get(func, aten.clone.default)  # a reshape is a copy or a view
    if operator in _COPIES:
        keeps_format = is_plain(args[0]) and "memory_format" not in kwargs
        return Operation(operator, (args[0].detach(),)) if keeps_format else None
    if operator is aten.gather.default and kwargs.keys() <= {"dim", "index"}:
        args = (*args, *(kwargs[name] for name in ("dim", "index") if name in kwargs))
        kwargs = {}
    if kwargs or len(args) != (3 if operator in _OF_THREE else 2):
        return None
    if any(isinstance(x, Tensor) and not is_plain(x) for x in args):
        return None
    return Operation(operator, tuple(x.detach() if isinstance(x, Tensor) else x for x in args))


def tensors_in(values: Iterable[Any]) -> list[Tensor]:
    """The tensors among some values, and in the lists, tuples and dictionaries among them."""
    tensors: list[Tensor] = []
    for x in values:
        if isinstance(x, Tensor):
            tensors.append(x)
        elif isinstance(x, (list, tuple)):
            tensors += tensors_in(x)
        elif isinstance(x, dict) and x:
            tensors += tensors_in(x.values())
    return tensors
