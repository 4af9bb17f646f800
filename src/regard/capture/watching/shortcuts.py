"""The effect of a function of torch on scores, known from its name and arguments.

Seeing a function operation by operation costs several times what the function itself does. Most functions need not be
seen: they only read a shape, or are given no scores; and of the usual arithmetic on scores the operation is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import IntEnum
from types import (
    BuiltinFunctionType,
    FunctionType,
    MethodDescriptorType,
    MethodWrapperType,
    WrapperDescriptorType,
)
from typing import Any, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._C._functorch import peek_interpreter_stack

__all__ = [
    "FUNCTION_KINDS",
    "UNCHANGED",
    "FunctionKind",
    "Operation",
    "holds_product",
    "is_plain",
    "kind_of_function",
    "report",
    "shortcut",
    "tensors_in",
]

aten = torch.ops.aten
_BUILT_IN = (BuiltinFunctionType, MethodDescriptorType, MethodWrapperType, WrapperDescriptorType)
_TELLING = re.compile(r"attention|softm|mm|mat|dot|ein|inner|linear|transformer|dist|cov|corr|^exp2?_?$")


class FunctionKind(IntEnum):
    """The effect of a function on scores. Those from ``LINEAR`` on may produce scores."""

    READS_ATTRIBUTE = 0  # it only reads a shape or another attribute
    VIEW = 1  # its result starts at the same number in memory
    RESHAPE = 2  # a view of contiguous numbers, else a copy
    ARITHMETIC = 3  # arithmetic of which the operation is known
    IN_PLACE = 4  # it changes one of its arguments
    UNRELATED = 5  # it holds neither a product nor a softmax
    LINEAR = 6  # a product that is a layer if a parameter takes part in it
    PRODUCT = 7  # a product of two tensors
    SOFTMAX = 8  # a softmax
    ATTENTION = 9  # F.scaled_dot_product_attention
    UNKNOWN = 10  # it may hold anything


class Operation(NamedTuple):
    """An operation as torch would show it."""

    func: Any
    args: tuple


_READING = (
    "size",
    "dim",
    "ndimension",
    "numel",
    "nelement",
    "stride",
    "data_ptr",
    "storage_offset",
    "element_size",
)
_READING += (
    "is_contiguous",
    "is_floating_point",
    "is_complex",
    "is_inference",
    "get_device",
    "untyped_storage",
)
_VIEWING = (
    "transpose",
    "swapaxes",
    "swapdims",
    "permute",
    "movedim",
    "unsqueeze",
    "squeeze",
    "expand",
    "expand_as",
)
_VIEWING += ("view", "view_as", "unflatten", "detach", "t")
_OPERATIONS: dict[str, Any] = {
    **dict.fromkeys(("add", "__add__", "__radd__"), aten.add.Tensor),
    **dict.fromkeys(("mul", "__mul__", "__rmul__", "multiply"), aten.mul.Tensor),
    **dict.fromkeys(("div", "__truediv__", "__div__"), aten.div.Tensor),
    **dict.fromkeys(("sub", "__sub__"), aten.sub.Tensor),
    **dict.fromkeys(("add_", "__iadd__"), aten.add_.Tensor),
    **dict.fromkeys(("mul_", "__imul__"), aten.mul_.Tensor),
    **dict.fromkeys(("div_", "__itruediv__", "__idiv__"), aten.div_.Tensor),
    "masked_fill": aten.masked_fill.Scalar,
    "masked_fill_": aten.masked_fill_.Scalar,
    "where": aten.where.self,
    "gather": aten.gather.default,
    **dict.fromkeys(("to", "type", "type_as", "float", "double", "half", "bfloat16"), aten._to_copy.default),
    **dict.fromkeys(("clone", "contiguous"), aten.clone.default),
}
_PRODUCTS = ("matmul", "__matmul__", "bmm")
_SOFTMAXES = (F.softmax, torch.softmax, Tensor.softmax)


def _functions(name: str) -> list[Any]:
    """The function and the method of torch that go by a name."""
    found = (vars(torch).get(name), getattr(Tensor, name, None), vars(F).get(name))
    return [
        func for func in found if callable(func) and func is not Tensor.where
    ]  # has its arguments in another order


FUNCTION_KINDS: dict[Any, FunctionKind] = {
    **{func: FunctionKind.READS_ATTRIBUTE for name in _READING for func in _functions(name)},
    **{func: FunctionKind.VIEW for name in _VIEWING for func in _functions(name)},
    **{func: FunctionKind.ARITHMETIC for name in _OPERATIONS for func in _functions(name)},
    **dict.fromkeys(_functions("dropout"), FunctionKind.ARITHMETIC),
    **{func: FunctionKind.RESHAPE for name in ("reshape", "flatten") for func in _functions(name)},
    **{func: FunctionKind.LINEAR for name in ("addmm", "mm", "baddbmm") for func in _functions(name)},
    **{func: FunctionKind.PRODUCT for name in _PRODUCTS for func in _functions(name)},
    **dict.fromkeys(_SOFTMAXES, FunctionKind.SOFTMAX),
    F.linear: FunctionKind.LINEAR,
    F.scaled_dot_product_attention: FunctionKind.ATTENTION,
}
"""The duties of functions that were met so far; :func:`kind_of_function` adds others."""
_OPERATION_OF = {func: op for name, op in _OPERATIONS.items() for func in _functions(name)}
_DROPPING = set(_functions("dropout"))


def kind_of_function(func: Any) -> FunctionKind:
    """The effect of a function on scores, which only the names of torch's functions show."""
    try:
        known = FUNCTION_KINDS.get(func)
    except TypeError:  # cannot be hashed: it is not torch's
        return FunctionKind.UNKNOWN
    if known is None:
        known = FUNCTION_KINDS[func] = _by_name(func)
    return known


def _by_name(func: Any) -> FunctionKind:
    module = getattr(func, "__module__", None) or ""
    torchs = isinstance(func, _BUILT_IN) or (isinstance(func, FunctionType) and module.startswith("torch."))
    if not torchs:
        return FunctionKind.UNKNOWN
    name = func.__name__
    if name == "__get__":
        attribute = getattr(getattr(func, "__self__", None), "__name__", "")
        return (
            FunctionKind.VIEW if attribute in ("T", "mT", "H", "mH", "data") else FunctionKind.READS_ATTRIBUTE
        )
    if _TELLING.search(name):
        return FunctionKind.UNKNOWN
    if name in ("__invert__", "__int__", "__index__"):
        return FunctionKind.UNRELATED
    changes = (name.endswith("_") and not name.endswith("__")) or name.startswith(("__i", "__set"))
    return FunctionKind.IN_PLACE if changes else FunctionKind.UNRELATED


_SCRIPTED: dict[int, tuple[Any, bool]] = {}  # each with its function, so that no other takes its id


def holds_product(function: Any) -> bool:
    """Whether a scripted function has an operation by which scores may come to be, or that changes a tensor."""
    if id(function) not in _SCRIPTED:
        called = re.findall(r"= (?:aten|prim)::(\w+)", str(function.inlined_graph))
        found = any(_TELLING.search(name) or name.endswith("_") for name in called)
        _SCRIPTED[id(function)] = (function, found or "CallFunction" in called or "CallMethod" in called)
    return _SCRIPTED[id(function)][1]


def is_plain(x: Any) -> bool:
    """Whether an argument is a tensor whose numbers can be found by their address."""
    kind = type(x)
    return (kind is Tensor or kind is nn.Parameter) and x.layout is torch.strided and not x.is_meta


class Watcher(Protocol):
    """Follows scores, and weights made of them."""

    @property
    def follows(self) -> bool: ...
    @property
    def parameters(self) -> set[int]: ...
    def concerns(self, *values: Any) -> bool: ...
    def forget_results(self, result: Any) -> None: ...


class Session(Protocol):
    """Is notified of operations."""

    @property
    def handwritten(self) -> Watcher: ...
    def operation(self, func: Any, args: tuple, kwargs: dict[str, Any], result: Any) -> None: ...


def shortcut(
    watcher: Watcher, func: Any, kind: FunctionKind, args: tuple, kwargs: dict[str, Any]
) -> Operation | None:
    """The operation that a function will do, or None where it is not known and has to be watched."""
    if kind is FunctionKind.VIEW:
        return UNCHANGED
    if kind is FunctionKind.UNKNOWN or kind is FunctionKind.IN_PLACE:
        return None
    if kind is FunctionKind.LINEAR or kind is FunctionKind.PRODUCT:
        if _is_layer(watcher, func, (*args, *kwargs.values())):
            if not watcher.follows:
                return UNCHANGED  # nothing can be mistaken for scores
            return None if watcher.concerns(*args, *kwargs.values()) else OTHER
        return None if kind is FunctionKind.LINEAR else _known(watcher, func, kind, args, kwargs)
    if kind is FunctionKind.SOFTMAX or func in _IN_PLACE:
        return _known(watcher, func, kind, args, kwargs)
    if _writes(args, kwargs):
        return None
    if not watcher.concerns(*args, *kwargs.values()):
        return OTHER
    return None if kind is FunctionKind.UNRELATED else _known(watcher, func, kind, args, kwargs)


def report(session: Session, operation: Operation, result: Any) -> None:
    """Tell a session what a function has done, as if it had been seen."""
    if operation is OTHER or not isinstance(result, Tensor):
        session.handwritten.forget_results(result)
        return
    shown = result.detach()
    if operation.func in _COPIES:
        source = operation.args[0]
        if shown.data_ptr() == source.data_ptr():
            return
        shown = shown.view(source.shape)  # as it was before it was reshaped
    elif operation.func is aten.bmm.default and shown.ndim > 3:
        shown = shown.view(-1, *shown.shape[-2:])  # (B,m,n)
    session.operation(operation.func, operation.args, {}, shown)


def _is_layer(watcher: Watcher, func: Any, parts: tuple) -> bool:
    """Whether a factor of a product is a parameter of the model, so that the product is no scores."""
    for x in parts:
        if type(x) is nn.Parameter:
            if func is F.linear or x.untyped_storage().data_ptr() in watcher.parameters:
                return True
        elif func is F.linear and isinstance(x, Tensor) and getattr(x, "_is_param", False):
            return True
    return False


def _writes(args: tuple, kwargs: dict[str, Any]) -> bool:
    """Whether a function may change an argument, by ``out=`` or ``inplace=True``."""
    for x in args:  # a loop, since any() with a generator takes three times as long
        if x is True:
            return True
    return bool(kwargs) and ("out" in kwargs or kwargs.get("inplace") is True)


def _known(
    watcher: Watcher, func: Any, kind: FunctionKind, args: tuple, kwargs: dict[str, Any]
) -> Operation | None:
    if torch._C._is_any_autocast_enabled() or peek_interpreter_stack() is not None:
        return None  # functions cast their arguments, or these are wrapped
    if kind is FunctionKind.PRODUCT:
        return _product(watcher, args, kwargs)
    return _softmax(args, kwargs) if kind is FunctionKind.SOFTMAX else _step(func, args, kwargs)


def _product(watcher: Watcher, args: tuple, kwargs: dict[str, Any]) -> Operation | None:
    if kwargs or len(args) != 2 or not all(map(is_plain, args)):
        return None
    a, b = (x.detach() for x in args)
    if a.ndim != b.ndim or a.ndim < 3 or a.shape[:-2] != b.shape[:-2] or 0 in (*a.shape, *b.shape):
        return None
    if a.ndim == 3:
        return Operation(aten.bmm.default, (a, b))
    joined = tuple(x.reshape(-1, *x.shape[-2:]) for x in (a, b))  # (B,m,n)
    if any(x.data_ptr() != y.data_ptr() and watcher.concerns(x) for x, y in zip((a, b), joined, strict=True)):
        return None  # a copy, whose numbers are not known as scores
    return Operation(aten.bmm.default, joined)


def _softmax(args: tuple, kwargs: dict[str, Any]) -> Operation | None:
    x: Any = args[0] if args else None
    axis = args[1] if len(args) > 1 else kwargs.get("dim")
    if len(args) > 2 or not is_plain(x) or type(axis) is not int or not x.is_floating_point():
        return None
    if kwargs.get("dtype") not in (None, x.dtype) or not _SOFTMAX_OPTIONS.issuperset(kwargs):
        return None
    return Operation(aten._softmax.default, (x.detach(), axis, False))


def _step(func: Any, args: tuple, kwargs: dict[str, Any]) -> Operation | None:
    if func in _DROPPING:
        idle = kwargs.get("training", *args[2:3]) is False
        return UNCHANGED if idle else None
    operation = _OPERATION_OF.get(func, aten.clone.default)  # a reshape copies, or is a view
    if operation in _COPIES:
        fits = is_plain(args[0]) and "memory_format" not in kwargs
        return Operation(operation, (args[0].detach(),)) if fits else None
    if operation is aten.gather.default and kwargs.keys() <= {"dim", "index"}:
        args = (*args, *(kwargs[name] for name in ("dim", "index") if name in kwargs))
        kwargs = {}
    if kwargs or len(args) != (3 if operation in _OF_THREE else 2):
        return None
    if any(isinstance(x, Tensor) and not is_plain(x) for x in args):
        return None
    return Operation(operation, tuple(x.detach() if isinstance(x, Tensor) else x for x in args))


UNCHANGED = Operation(None, ())
"""The result starts at the same number in memory, with the same numbers."""
OTHER = Operation(None, ())
"""The result has nothing to do with scores."""
_IN_PLACE = {func for func, op in _OPERATION_OF.items() if op._schema.is_mutable}
_SOFTMAX_OPTIONS = {"dim", "dtype", "_stacklevel"}
_COPIES = (aten._to_copy.default, aten.clone.default)
_OF_THREE = (aten.where.self, aten.masked_fill.Scalar, aten.masked_fill_.Scalar, aten.gather.default)


def tensors_in(values: Iterable[Any]) -> list[Tensor]:
    """The tensors among some values, and in the lists and dictionaries among them."""
    found: list[Tensor] = []
    for x in values:
        if isinstance(x, Tensor):
            found.append(x)
        elif isinstance(x, (list, tuple)):
            found += tensors_in(x)
        elif isinstance(x, dict) and x:
            found += tensors_in(x.values())
    return found
