"""The operators of torch that a capture distinguishes, and the arguments that an operator writes to."""

from __future__ import annotations

from typing import Any, TypeGuard

import torch
from torch import Tensor

from regard.torch_private import flash, private_operators, schema_of

__all__ = [
    "EXPONENTIALS",
    "GIVES_LSE",
    "OPERATOR_ROLES",
    "PRODUCTS",
    "PRODUCTS_WITH_SUM",
    "has_storage",
    "is_mutable",
    "storages_written",
]

aten = torch.ops.aten
GIVES_LSE = flash
"""The kernel whose log-sum-exp is in natural units and without padding."""

_FUSED = private_operators(
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_fused_attention_overrideable",
    "_scaled_dot_product_attention_math_for_mps",
)
_SOFTMAXES = (*private_operators("_softmax", "_softmax.out", "_safe_softmax"), aten.softmax.int_out)
_LOG_SOFTMAXES = private_operators("_log_softmax", "_log_softmax.out")

# All tables have the id of an operator as their key. Operators exist once per process, and hashing one takes longer
# than the rest of a look-up.
OPERATOR_ROLES = {
    **{id(op): "fused" for op in _FUSED},
    **{id(op): "softmax" for op in _SOFTMAXES},
    **{id(op): "log softmax" for op in _LOG_SOFTMAXES},
}
"""The operators that compute attention or a softmax, with their role."""
EXPONENTIALS = {
    id(op)
    for op in (
        aten.exp.default,
        aten.exp_.default,
        aten.exp2.default,
        aten.logsumexp.default,
        aten.logaddexp.default,
        aten.logaddexp2.default,
    )
}
"""Exponentials and the logarithms of their sums."""
PRODUCTS_WITH_SUM = {
    id(op) for op in (aten.baddbmm.default, aten.baddbmm.out, aten.baddbmm_.default, aten.addmm.default)
}
"""Matrix products that add their first argument."""
PRODUCTS = PRODUCTS_WITH_SUM | {
    id(op) for op in (aten.bmm.default, aten.bmm.out, aten.mm.default, aten.mm.out)
}
"""Matrix products, whose factors are the last two arguments."""

_WRITTEN: dict[int, tuple[Any, tuple[tuple[int, str], ...]]] = {}
"""Operators by their id, with the positions and names of the arguments they write to. Reading a schema is slow."""


def _written_arguments(func: Any) -> tuple[tuple[int, str], ...]:
    if id(func) not in _WRITTEN:
        written = tuple(
            (position, x.name)
            for position, x in enumerate(schema_of(func).arguments)
            if x.alias_info is not None and x.alias_info.is_write
        )
        # The operator is kept, so that no other object gets its id.
        _WRITTEN[id(func)] = (func, written)
    return _WRITTEN[id(func)][1]


def is_mutable(func: Any) -> bool:
    """Whether an operator writes to one of its arguments."""
    return bool(_written_arguments(func))


def storages_written(func: Any, args: tuple, kwargs: dict[str, Any]) -> set[int]:
    """The addresses of the storages that a call of an operator has written to."""
    written = [
        args[position] if position < len(args) else kwargs.get(name)
        for position, name in _written_arguments(func)
    ]
    return {x.untyped_storage().data_ptr() for x in written if has_storage(x)}


def has_storage(x: object) -> TypeGuard[Tensor]:
    """Whether a value is a tensor with strides, whose numbers stand in a storage."""
    return isinstance(x, Tensor) and x.layout is torch.strided
