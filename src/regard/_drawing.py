"""Conversion and checks of weights and labels, shared by ``plots`` and ``terminal``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from regard._tokens import label_of, token_texts
from regard.errors import ArgumentError, DtypeError, ShapeError

__all__ = ["as_labels", "as_weights", "row_marks"]

NO_WEIGHTS = "no weights"


def as_weights(argument: str, value: Any, axes: str) -> np.ndarray:
    """Convert weights to a finite float64 array with one axis for each letter of ``axes``.

    ``value`` is a NumPy array, a torch tensor of any dtype and device, a nested list, or an object with ``.numpy()``.
    Leading axes of size 1 beyond these are dropped. Raises an error that names ``argument`` for other shapes, an empty
    array, NaN and infinity. A masked array stays one if some of its weights are masked, which were never computed.

    >>> as_weights("weights", [[1, 0], [0.5, 0.5]], "qk").tolist()
    [[1.0, 0.0], [0.5, 0.5]]
    """
    array = _as_array(argument, value)
    if np.ma.is_masked(value):
        array = np.ma.masked_array(array, np.ma.getmaskarray(value))
    while array.ndim > len(axes) and len(array) == 1:
        array = array[0]
    if array.ndim != len(axes) or 0 in array.shape:
        expected = f"({','.join(axes)}{',' if len(axes) == 1 else ''})"
        fix = f"pick one, such as {argument}[{', '.join('0' * (array.ndim - len(axes)))}]"
        raise ShapeError(
            argument, f"expected {expected}, got {array.shape}", fix if array.ndim > len(axes) else ""
        )
    not_finite = np.argwhere(~np.ma.filled(np.isfinite(array), True))
    if len(not_finite):
        first = not_finite[0]
        position = ", ".join(f"{axis}={i}" for axis, i in zip(axes, first.tolist(), strict=True))
        raise ArgumentError(
            argument,
            f"expected finite numbers, got {array[tuple(first)]} at {position} "
            f"({len(not_finite)} of {array.size} are not finite)",
        )
    return array


def _as_array(argument: str, value: Any) -> np.ndarray:
    # A torch tensor may require a gradient, or be bfloat16, which NumPy does not have.
    if hasattr(value, "detach"):
        value = value.detach().cpu().double().numpy()
    elif hasattr(value, "numpy"):
        value = value.numpy()
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DtypeError(argument, f"expected numbers, got {type(value).__name__}", str(error)) from None


def row_marks(argument: str, weights: np.ndarray, marks: Iterable[str] | None) -> list[str]:
    """Return the text that stands in the place of each row of masked weights, and "" for other rows.

    ``marks`` has a text for each row, by default "no weights".

    >>> row_marks("marks", np.ma.masked_array([[1.0], [0.5]], [[True], [False]]), None)
    ['no weights', '']
    """
    absent = [bool(row.all()) for row in np.ma.getmaskarray(weights)]
    texts = (
        [""] * len(absent) if marks is None else as_labels(argument, marks, len(absent), "rows of weights")
    )
    return [(text or NO_WEIGHTS) if is_absent else "" for text, is_absent in zip(texts, absent, strict=True)]


def as_labels(argument: str, tokens: Iterable[Any], count: int, what: str) -> list[str]:
    """Convert tokens to visible labels of limited length, or raise ShapeError if there are not ``count`` of them.

    ``what`` says in that error what is counted, such as "rows of attention_weights". A single string raises DtypeError.

    >>> as_labels("tokens", ["the", "cat"], 3, "rows of attention_weights")
    Traceback (most recent call last):
        ...
    regard.errors.ShapeError: tokens: 2 tokens given, 3 rows of attention_weights: give one token for each
    """
    if isinstance(tokens, str | bytes):
        raise DtypeError(argument, f"expected a list of tokens, got one string {tokens!r}", "split it first")
    labels = [label_of(text) if text else "" for text in token_texts(str(token) for token in tokens)]
    if len(labels) != count:
        raise ShapeError(argument, f"{len(labels)} tokens given, {count} {what}", "give one token for each")
    return labels
