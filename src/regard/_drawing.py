"""What ``plots`` and ``terminal`` share: reading weights and labels, and saying what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from regard.errors import ArgumentError, DtypeError, ShapeError

__all__ = ["as_labels", "as_weights", "printable"]


def as_weights(argument: str, value: Any, axes: str) -> np.ndarray:
    """The weights as a float64 array with one axis for each letter of ``axes``, all finite.

    Takes NumPy arrays, torch tensors of any dtype and device, nested lists, and whatever has a ``.numpy()``.
    Leading axes of size 1 are dropped, since there is nothing to choose.

    >>> as_weights("weights", [[1, 0], [0.5, 0.5]], "qk").tolist()
    [[1.0, 0.0], [0.5, 0.5]]
    """
    array = _as_array(argument, value)
    while array.ndim > len(axes) and len(array) == 1:  # one sequence of a batch of one, one head of one
        array = array[0]
    if array.ndim != len(axes) or 0 in array.shape:
        wanted = f"({','.join(axes)}{',' if len(axes) == 1 else ''})"
        fix = f"pick one, such as {argument}[{', '.join('0' * (array.ndim - len(axes)))}]"
        raise ShapeError(
            argument, f"expected {wanted}, got {array.shape}", fix if array.ndim > len(axes) else ""
        )
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        where = ", ".join(f"{axis}={i}" for axis, i in zip(axes, bad[0].tolist(), strict=True))
        what = f"{array[tuple(bad[0])]} at {where}"
        raise ArgumentError(
            argument, f"expected finite numbers, got {what} ({len(bad)} of {array.size} are not finite)"
        )
    return array


def _as_array(argument: str, value: Any) -> np.ndarray:
    if hasattr(value, "detach"):  # a torch tensor: without its graph, and NumPy has no bfloat16
        value = value.detach().cpu().double().numpy()
    elif hasattr(value, "numpy"):
        value = value.numpy()
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DtypeError(argument, f"expected numbers, got {type(value).__name__}", str(error)) from None


def as_labels(argument: str, tokens: Iterable[Any], count: int, what: str) -> list[str]:
    """One printable label for each of ``count`` rows or columns.

    >>> as_labels("tokens", ["the", "cat"], 3, "rows of attention_weights")
    Traceback (most recent call last):
        ...
    regard.errors.ShapeError: tokens: 2 tokens given, 3 rows of attention_weights: give one token for each
    """
    if isinstance(tokens, str | bytes):
        raise DtypeError(argument, f"expected a list of tokens, got one string {tokens!r}", "split it first")
    labels = [printable(str(token)) for token in tokens]
    if len(labels) != count:
        raise ShapeError(argument, f"{len(labels)} tokens given, {count} {what}", "give one token for each")
    return labels


def printable(token: str) -> str:
    r"""The token on one line: line breaks and other control characters are written as escapes.

    >>> printable("a\tb\n")
    'a\\tb\\n'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in token)
