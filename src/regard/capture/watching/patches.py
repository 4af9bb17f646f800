"""Functions and methods of torch and Transformers that are replaced while a capture is active."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["restore"]


def restore(owner: object, name: str, replacement: Callable[..., Any], before: Callable[..., Any]) -> None:
    """Put a function or method back in place of its replacement, unless another patch was made over it in the meantime.

    The other patch stays, and may go on calling the replacement. The replacement has to pass its calls on from then on.
    """
    if vars(owner).get(name) is replacement:
        setattr(owner, name, before)
