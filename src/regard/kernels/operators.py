"""The compiled kernels as operators of torch, so that nothing but a tensor with memory ever reaches C.

Torch calls the fake form where tensors have no numbers (fake and meta tensors, tracing, ``torch.compile``) and unwraps
functional ones. The operators are ``torch.ops.regard._…``. They are defined through ``torch.library.Library``:
calling what ``torch.library.custom_op`` makes would load torch's compiler, which takes seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = ["below_autograd", "define_operator", "gradients_with_graph", "wants_gradient"]

_LIBRARY = torch.library.Library("regard", "FRAGMENT")

below_autograd = torch._C._AutoDispatchBelowAutograd


def define_operator(
    schema: str,
    compute: Callable[..., Any],
    fake: Callable[..., Any],
    differentiable: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """Define an operator of torch, and give the function that calls it.

    compute
        Runs on tensors with memory, on any device.
    fake
        Gives results of the right shape and dtype without numbers.
    differentiable
        Runs in place of ``compute`` where autograd is not switched off. By default gradients are refused.
    """
    name = schema.partition("(")[0]
    _LIBRARY.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
    _LIBRARY.impl(name, compute, "CompositeExplicitAutograd")
    _LIBRARY.impl(name, fake, "Meta")
    operator = getattr(torch.ops.regard, name).default

    def without_gradient(*arguments: Any) -> Any:
        if wants_gradient(*arguments):
            raise RuntimeError(f"regard::{name} has no derivative of its own")
        with below_autograd():
            return operator(*arguments)

    _LIBRARY.impl(name, differentiable or without_gradient, "Autograd")
    return operator


def wants_gradient(*arguments: Any) -> bool:
    """Whether autograd has to record an operator on these arguments."""
    return torch.is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in arguments)


def gradients_with_graph(
    formula: Callable[..., Tensor], inputs: Sequence[Tensor], needed: Sequence[bool], upstream: Tensor
) -> tuple[Tensor | None, ...]:
    """Gradients of a formula in torch that can be differentiated again, for a backward pass with ``create_graph``."""
    with torch.enable_grad():
        own = [x.view_as(x) for x in inputs]  # one tensor may be given twice, and has a gradient for each
        out = formula(*own)
    wanted = [x for x, needs in zip(own, needed, strict=False) if needs]
    found = iter(torch.autograd.grad(out, wanted, upstream, create_graph=True))
    return tuple(next(found) if needs else None for needs in needed)
