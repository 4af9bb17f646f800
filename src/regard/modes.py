"""Detection of autocast, tracing, ``torch.func`` transforms and forward-mode differentiation around a call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

from regard.torch_private import (
    TransformType,
    any_autocast,
    in_forward_mode,
    is_traced_by_mode,
    transform_on_top,
    transforms,
)

__all__ = ["autocasting", "exported", "exporting", "needs_plain_formula", "readable", "transformed"]

_exporting: ContextVar[bool] = ContextVar("exporting", default=False)

# The `__torch_dispatch__` of ordinary tensors, unlike fake, distributed and quantized ones.
_NO_DISPATCH: Any = Tensor.__torch_dispatch__  # type: ignore[misc]


def autocasting(device: torch.device) -> bool:
    """Return whether ``torch.autocast`` is on for a device.

    Devices without autocast, such as meta, give False.

    >>> autocasting(torch.device("meta"))
    False
    """
    # This test is cheaper than the one for the device.
    if not torch.compiler.is_compiling() and not any_autocast():
        return False
    try:
        return torch.is_autocast_enabled(device.type)
    except RuntimeError:
        return False


def readable(*tensors: Tensor | None) -> bool:
    """Return whether control flow may depend on the values of these tensors.

    It may not for tensors without values (fake and meta tensors), while operations are traced to be run on other
    values (``torch.compile``, ``torch.export``, ``make_fx``), and inside ``torch.func`` transforms.

    >>> readable(torch.ones(2)), readable(torch.ones(2, device="meta"))
    (True, False)
    """
    if torch.compiler.is_compiling() or transform_on_top() is not None:
        return False
    if torch.jit.is_tracing() or is_traced_by_mode():
        return False
    for x in tensors:
        if x is not None and (x.is_meta or getattr(type(x), "__torch_dispatch__", None) is not _NO_DISPATCH):
            return False
    return True


@contextmanager
def exporting() -> Iterator[None]:
    """Return a context in which attention is computed by the plain formula, for a graph that other programs run.

    The graph then has only common operations, and a fully masked row gives zeros in every program.
    """
    token = _exporting.set(True)
    try:
        yield
    finally:
        _exporting.reset(token)


def exported() -> bool:
    """Return whether the call is inside :func:`exporting`.

    >>> exported()
    False
    """
    # torch.compile cannot trace a context variable.
    return not torch.compiler.is_dynamo_compiling() and _exporting.get()


def transformed() -> bool:
    """Return whether a ``torch.func`` transform (grad, vmap, jvp) or forward-mode differentiation is active."""
    if torch.compiler.is_compiling():
        return False
    return in_forward_mode() or transform_on_top() is not None


def needs_plain_formula() -> bool:
    """Return whether a ``torch.func`` transform or forward-mode differentiation is active that torch's kernel lacks.

    The fused kernel supports one level of ``torch.func.grad``. It does not support ``vmap``, forward-mode
    differentiation and nested transforms. The plain formula of attention supports all. It is also used in
    :func:`exporting`.
    """
    if exported():
        return True
    if not transformed():
        return False
    levels = [level.key() for level in transforms() or []]
    return levels not in ([TransformType.Grad], [TransformType.Functionalize])
