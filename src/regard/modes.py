"""What a call runs under: autocast, tracing, transforms of ``torch.func``, forward-mode derivatives."""

from __future__ import annotations

from typing import Any

import torch
import torch.autograd.forward_ad as forward_ad
from torch import Tensor

__all__ = ["autocasting", "needs_plain_formula", "readable", "transformed"]

_autocast_somewhere: Any = getattr(torch._C, "_is_any_autocast_enabled", lambda: True)
_functorch: Any = torch._C._functorch  # type: ignore[attr-defined]  # no stubs
_KINDS = torch._C._TorchDispatchModeKey
_TRACING_MODES = (_KINDS.FAKE, _KINDS.PROXY, _KINDS.FUNCTIONAL)
_ONE_LEVEL = ([_functorch.TransformType.Grad], [_functorch.TransformType.Functionalize])
_NO_DISPATCH: Any = torch._C._disabled_torch_dispatch_impl  # of tensors that do not stand for others


def autocasting(device: torch.device) -> bool:
    """Whether ``torch.autocast`` is on for a device; some devices, such as meta, have no autocast.

    >>> autocasting(torch.device("meta"))
    False
    """
    if not torch.compiler.is_compiling() and not _autocast_somewhere():  # cheaper than asking for the device
        return False
    try:
        return torch.is_autocast_enabled(device.type)
    except RuntimeError:
        return False


def readable(*tensors: Tensor | None) -> bool:
    """Whether the numbers of these tensors may decide what is computed.

    They may not where there are none (fake and meta tensors), where operations are recorded to be run again on other
    numbers (``torch.compile``, ``torch.export``, ``make_fx``), and inside the transforms of ``torch.func``.

    >>> readable(torch.ones(2)), readable(torch.ones(2, device="meta"))
    (True, False)
    """
    if torch.compiler.is_compiling() or _functorch.peek_interpreter_stack() is not None:
        return False
    if torch._C._get_tracing_state() is not None:  # torch.jit.trace
        return False
    if torch._C._len_torch_dispatch_stack() and any(
        torch._C._get_dispatch_mode(kind) is not None for kind in _TRACING_MODES
    ):
        return False
    for x in tensors:  # an ordinary tensor, and not one that stands for others (fake, distributed, quantized)
        if x is not None and (x.is_meta or getattr(type(x), "__torch_dispatch__", None) is not _NO_DISPATCH):
            return False
    return True


def transformed() -> bool:
    """Whether a transform of ``torch.func`` (grad, vmap, jvp) or a forward-mode derivative is being computed."""
    if torch.compiler.is_compiling():
        return False
    return forward_ad._current_level >= 0 or _functorch.peek_interpreter_stack() is not None


def needs_plain_formula() -> bool:
    """Whether derivatives are wanted that torch's fused kernel does not have.

    That is so under ``vmap``, under forward-mode derivatives, and under nested transforms; one level of
    ``torch.func.grad`` is what the fused kernel can do.
    """
    if not transformed():
        return False
    levels = [level.key() for level in _functorch.get_interpreter_stack() or []]
    return levels not in _ONE_LEVEL
