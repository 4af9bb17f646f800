"""The effect that a function of torch may have on scores, known from its name."""

from __future__ import annotations

import re
from enum import IntEnum
from types import (
    BuiltinFunctionType,
    FunctionType,
    MethodDescriptorType,
    MethodWrapperType,
    WrapperDescriptorType,
)
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.torch_private import private_operators, schema_of

__all__ = [
    "DROPOUTS",
    "FUNCTION_KINDS",
    "OPERATOR_OF",
    "FunctionKind",
    "holds_product",
    "kind_of_function",
    "returns_no_tensor",
]

aten = torch.ops.aten
_BUILT_IN = (BuiltinFunctionType, MethodDescriptorType, MethodWrapperType, WrapperDescriptorType)
# Names of functions that may compute a product, a softmax or an exponential.
_MAY_PRODUCE_SCORES = re.compile(
    r"attention|softm|mm|mat|dot|ein|inner|linear|transformer|dist|cov|corr|^exp2?_?$|^log(sum|add)exp2?$"
)


class FunctionKind(IntEnum):
    """The effect of a function on scores. Kinds from ``LINEAR`` on may produce scores."""

    READS_ATTRIBUTE = 0  # reads a shape or another attribute
    VIEW = 1  # returns a view that starts at the same address
    RESHAPE = 2  # returns a view of contiguous numbers, else a copy
    ARITHMETIC = 3  # calls one operator, which is known
    IN_PLACE = 4  # writes to one of its arguments
    UNRELATED = 5  # computes neither a product nor a softmax
    SHARES_MEMORY = 6  # gives its memory to code that torch does not see, such as NumPy
    LINEAR = 7  # computes a product, which is a layer if a parameter takes part in it
    PRODUCT = 8  # computes a product of two tensors
    SOFTMAX = 9
    ATTENTION = 10  # F.scaled_dot_product_attention
    UNKNOWN = 11  # may call any operators


_READING = (
    "size",
    "dim",
    "ndimension",
    "numel",
    "nelement",
    "stride",
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
_SHARING = ("numpy", "__array__", "__dlpack__", "storage", "data_ptr")
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
_OPERATORS: dict[str, Any] = {
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
    **{
        name: op
        for op in private_operators("_to_copy")
        for name in ("to", "type", "type_as", "float", "double", "half", "bfloat16")
    },
    **dict.fromkeys(("clone", "contiguous"), aten.clone.default),
}
_Operator = type(aten.exp.default)
_PRODUCTS = ("matmul", "__matmul__", "bmm")
_SOFTMAXES = (F.softmax, torch.softmax, Tensor.softmax)


def _functions(name: str) -> list[Any]:
    """The function and the method of torch that have a name."""
    candidates = (vars(torch).get(name), getattr(Tensor, name, None), vars(F).get(name))
    # Tensor.where has its arguments in another order than torch.where.
    return [func for func in candidates if callable(func) and func is not Tensor.where]


FUNCTION_KINDS: dict[Any, FunctionKind] = {
    **{func: FunctionKind.READS_ATTRIBUTE for name in _READING for func in _functions(name)},
    **{func: FunctionKind.SHARES_MEMORY for name in _SHARING for func in _functions(name)},
    **{func: FunctionKind.VIEW for name in _VIEWING for func in _functions(name)},
    **{func: FunctionKind.ARITHMETIC for name in _OPERATORS for func in _functions(name)},
    **dict.fromkeys(_functions("dropout"), FunctionKind.ARITHMETIC),
    **{func: FunctionKind.RESHAPE for name in ("reshape", "flatten") for func in _functions(name)},
    **{func: FunctionKind.LINEAR for name in ("addmm", "mm", "baddbmm") for func in _functions(name)},
    **{func: FunctionKind.PRODUCT for name in _PRODUCTS for func in _functions(name)},
    **dict.fromkeys(_SOFTMAXES, FunctionKind.SOFTMAX),
    F.linear: FunctionKind.LINEAR,
    F.scaled_dot_product_attention: FunctionKind.ATTENTION,
}
"""The kinds of the functions that were called so far. :func:`kind_of_function` adds others."""
OPERATOR_OF = {func: op for name, op in _OPERATORS.items() for func in _functions(name)}
"""The operators that functions of the kind ``ARITHMETIC`` call."""
DROPOUTS = set(_functions("dropout"))


def kind_of_function(func: Any) -> FunctionKind:
    """The effect of a function on scores. It is known only for functions of torch, from their name."""
    try:
        kind = FUNCTION_KINDS.get(func)
    except TypeError:  # functions of torch can be hashed, this one cannot
        return FunctionKind.UNKNOWN
    if kind is None:
        kind = FUNCTION_KINDS[func] = _kind_by_name(func)
    return kind


def returns_no_tensor(operator: Any) -> bool:
    """Whether an operator only reads a number, such as a size, and writes to no argument."""
    schema = schema_of(operator)
    return not schema.is_mutable and not any("Tensor" in str(x.type) for x in schema.returns)


def _kind_by_name(func: Any) -> FunctionKind:
    # Scripted functions call operators.
    if isinstance(func, _Operator) and returns_no_tensor(func):
        return FunctionKind.READS_ATTRIBUTE
    module = getattr(func, "__module__", None) or ""
    in_torch = isinstance(func, FunctionType) and module.startswith("torch.")
    if not in_torch and not isinstance(func, _BUILT_IN):
        return FunctionKind.UNKNOWN
    name = func.__name__
    if name == "__get__":
        attribute = getattr(getattr(func, "__self__", None), "__name__", "")
        return (
            FunctionKind.VIEW if attribute in ("T", "mT", "H", "mH", "data") else FunctionKind.READS_ATTRIBUTE
        )
    if _MAY_PRODUCE_SCORES.search(name):
        return FunctionKind.UNKNOWN
    if name in ("__invert__", "__int__", "__index__"):
        return FunctionKind.UNRELATED
    writes = (name.endswith("_") and not name.endswith("__")) or name.startswith(("__i", "__set"))
    return FunctionKind.IN_PLACE if writes else FunctionKind.UNRELATED


# Results of holds_product by the id of a function. The function is kept, so that no other object gets its id.
_SCRIPTED: dict[int, tuple[Any, bool]] = {}


def holds_product(function: Any) -> bool:
    """Whether a scripted function may produce scores or writes to a tensor."""
    if id(function) not in _SCRIPTED:
        called = re.findall(r"= (?:aten|prim)::(\w+)", str(function.inlined_graph))
        holds = any(_MAY_PRODUCE_SCORES.search(name) or name.endswith("_") for name in called)
        _SCRIPTED[id(function)] = (function, holds or "CallFunction" in called or "CallMethod" in called)
    return _SCRIPTED[id(function)][1]
