"""Registration of the compiled kernels as torch operators, ``torch.ops.regard._…``.

Torch then calls the fake implementation for tensors without memory (fake and meta tensors, tracing,
``torch.compile``) and unwraps functional tensors, so C only ever gets real memory. The operators are defined with
``torch.library.Library``, because the first call of a ``torch.library.custom_op`` loads torch's compiler, which takes
seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.torch_private import BelowAutograd

__all__ = ["below_autograd", "define_operator", "gradients_with_graph", "wants_gradient"]

_LIBRARY = torch.library.Library("regard", "FRAGMENT")

below_autograd = BelowAutograd


def define_operator(
    schema: str,
    compute: Callable[..., Any],
    fake: Callable[..., Any],
    differentiable: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """Define a torch operator and return it.

    schema
        The name and the signature in torch's notation, such as ``"_double(Tensor x) -> Tensor"``.
    compute
        The implementation for tensors with memory, on any device.
    fake
        The implementation for tensors without memory, which returns empty tensors of the right shape and dtype.
    differentiable
        The implementation that autograd records. Without it, the operator raises an error if a gradient is needed.
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
    """Return whether autograd has to record an operator on these arguments."""
    return torch.is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in arguments)


def gradients_with_graph(
    formula: Callable[..., Tensor], inputs: Sequence[Tensor], needed: Sequence[bool], upstream: Tensor
) -> tuple[Tensor | None, ...]:
    """Return gradients of ``formula(*inputs)`` that can be differentiated again, for ``create_graph=True``.

    ``needed`` says which inputs need a gradient. The others get None. ``upstream`` is the gradient of the result.
    """
    with torch.enable_grad():
        # Views, because a tensor that is given twice needs one gradient for each position.
        views = [x.view_as(x) for x in inputs]
        out = formula(*views)
    wanted = [x for x, needs in zip(views, needed, strict=False) if needs]
    gradients = iter(torch.autograd.grad(out, wanted, upstream, create_graph=True))
    return tuple(next(gradients) if needs else None for needs in needed)
