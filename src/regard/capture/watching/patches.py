"""The end of a replacement of functions and methods of torch and Transformers during a capture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["restore"]


def restore(owner: object, name: str, replacement: Callable[..., Any], before: Callable[..., Any]) -> None:
    """Put a function or method back in place of its replacement, unless another patch has replaced that in turn.

    The other patch stays and may go on calling the replacement, which has to pass its calls on from then on.
    """
    if vars(owner).get(name) is replacement:
        setattr(owner, name, before)
