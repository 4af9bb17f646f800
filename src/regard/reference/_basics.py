"""Shared helpers of the NumPy reference for input checks, softmax and matrix products.

The axis letters are b batch, h head, q query, k key, d head width and m model width. `...` stands for any
leading axes.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]

# A masked key may hold NaN or inf. Its score is discarded later, so NumPy's warning about it is suppressed.
quiet = np.errstate(invalid="ignore", over="ignore")


def as_array(name: str, value: ArrayLike) -> Array:
    """Return `np.asarray(value)`, or raise ValueError that names the argument.

    >>> as_array("mask", [[1, 1], [1]])
    Traceback (most recent call last):
        ...
    ValueError: mask: expected an array or lists of equal length, got [[1, 1], [1]]
    """
    try:
        return np.asarray(value)
    # A tensor that NumPy cannot read raises RuntimeError or TypeError.
    except (ValueError, TypeError, RuntimeError) as error:
        got = shortened(value) if isinstance(value, list | tuple) else type(value).__name__
        raise ValueError(f"{name}: expected an array or lists of equal length, got {got}") from error


def shortened(value: object) -> str:
    """Return the text of a value for an error message, cut after 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def length(name: str, value: object, least: int = 0) -> int:
    """Return a whole number of `least` or more as an int, or raise ValueError that names the argument.

    >>> length("size", 3.5)
    Traceback (most recent call last):
        ...
    ValueError: size: expected a whole number of 0 or more, got 3.5
    """
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError):
        number = None
    if number is not None and number >= 2**31:
        raise ValueError(f"{name}: expected a number below 2**31, got {shortened(value)}")
    if number is None or isinstance(value, bool) or number < least:
        raise ValueError(f"{name}: expected a whole number of {least} or more, got {shortened(value)}")
    return number


def as_floats(**arrays: ArrayLike | None) -> list[Array]:
    """Convert named arrays to one common float dtype, in the order of the arguments.

    float32 stays float32 and integers become float64. An argument that is None stays None in the list, although
    the return type does not say so. Raises ValueError for an array that does not hold real numbers.
    """
    present = {name: as_array(name, array) for name, array in arrays.items() if array is not None}
    for name, array in present.items():
        if array.dtype.kind not in "fiub":
            raise ValueError(f"{name}: expected real numbers, got an array of {array.dtype}")
    if not present:
        raise ValueError(f"{next(iter(arrays))}: expected an array of numbers, got None")
    dtype = np.result_type(*(array.dtype for array in present.values()))
    if dtype.kind != "f":
        dtype = np.dtype(np.float64)
    floats: Any = [present[name].astype(dtype, copy=False) if name in present else None for name in arrays]
    return floats


def shape_text(shape: Sequence[int]) -> str:
    """Format a shape without spaces, for example `(2,5,6)`."""
    return str(tuple(int(size) for size in shape)).replace(" ", "")


def check_matrix(name: str, array: Array, axes: str) -> None:
    """Raise ValueError if the array has fewer than two axes, whose letters in the message are ``axes``."""
    # An argument that is None stays None in `as_floats`.
    if array is None:
        raise ValueError(f"{name}: expected (...,{axes}), got None")
    if array.ndim < 2:
        raise ValueError(
            f"{name}: expected (...,{axes}), got {shape_text(array.shape)}: add the missing axis, "
            f"for instance {name}[None, :]"
        )


def check_leading(name: str, array: Array, other_name: str, other: Array) -> None:
    """Raise ValueError if the leading axes (batch, head) of two arrays do not broadcast together."""
    try:
        np.broadcast_shapes(array.shape[:-2], other.shape[:-2])
    except ValueError:
        raise ValueError(
            f"{name}: leading axes {shape_text(array.shape[:-2])} do not broadcast with "
            f"{shape_text(other.shape[:-2])} of {other_name}"
        ) from None


def check_shape(name: str, array: Array, expected: Sequence[int]) -> None:
    """Raise ValueError if an upstream gradient does not have the shape of the array it belongs to."""
    if array.shape != tuple(expected):
        raise ValueError(f"{name}: expected {shape_text(expected)}, got {shape_text(array.shape)}")


@quiet
def softmax(x: ArrayLike, axis: int = -1) -> Array:
    """Return exp(x) / sum(exp(x)) along `axis`.

    A row of only -inf (fully masked) gives zeros instead of NaN.

    >>> softmax(np.log([3.0, 1.0])).round(4).tolist()
    [0.75, 0.25]
    >>> softmax([-np.inf, -np.inf]).tolist()
    [0.0, 0.0]
    """
    (x,) = as_floats(x=x)
    # Without `initial`, np.max raises an error on an empty axis.
    highest = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    highest = np.where(highest == -np.inf, 0, highest).astype(x.dtype)
    # Subtracting the maximum leaves the quotient unchanged and keeps exp from overflowing.
    exponentials = np.exp(x - highest)
    total = exponentials.sum(axis=axis, keepdims=True)
    return exponentials / np.where(total == 0, 1, total).astype(x.dtype)


def softmax_grad(grad_output: ArrayLike, x: ArrayLike, axis: int = -1) -> Array:
    """Return the gradient of the loss with respect to the input x of `softmax(x, axis)`.

    With the weights w = softmax(x) and the upstream gradient g, it is w * (g - sum(g * w)).

    >>> softmax_grad([1.0, 0.0], np.log([3.0, 1.0])).round(4).tolist()
    [0.1875, -0.1875]
    """
    grad_output, x = as_floats(grad_output=grad_output, x=x)
    check_shape("grad_output", grad_output, x.shape)
    return softmax_backward(grad_output, softmax(x, axis), axis)


@quiet
def softmax_backward(grad: Array, weights: Array, axis: int = -1) -> Array:
    """Return the softmax gradient, computed from the weights that the softmax returned.

    Where a weight is 0 the gradient is 0, even if the upstream gradient is NaN there.
    """
    grad = np.where(weights == 0, 0, grad).astype(weights.dtype)
    return weights * (grad - (grad * weights).sum(axis=axis, keepdims=True))


@quiet
def zero_wins_matmul(a: Array, b: Array) -> Array:
    """Return a @ b, where a zero in `a` times NaN or inf in `b` counts as 0.

    A masked value has weight 0, so its NaN or inf must not reach the output.
    """
    if np.isfinite(b).all():
        return a @ b
    left = a[..., :, :, None]  # (...,i,j,1)
    right = b[..., None, :, :]  # (...,1,j,d)
    return np.where(left == 0, 0, left * right).sum(axis=-2).astype(a.dtype)  # (...,i,d)


def transpose(array: Array) -> Array:
    """Swap the last two axes."""
    return np.swapaxes(array, -1, -2)


def sum_to(grad: Array, shape: Sequence[int]) -> Array:
    """Sum a gradient over the axes that were broadcast, so that it has the given shape.

    >>> sum_to(np.ones((2, 3, 5)), (3, 1)).tolist()
    [[10.0], [10.0], [10.0]]
    """
    grad = grad.sum(axis=tuple(range(grad.ndim - len(shape))))
    spread = tuple(axis for axis, size in enumerate(shape) if size == 1 and grad.shape[axis] != 1)
    return grad.sum(axis=spread, keepdims=True)


@quiet
def linear(x: Array, W: Array, b: Array | None = None) -> Array:
    """Return W x + b for every row of x, as (...,n,o).

    x is (...,n,i), W is (...,o,i) as in `nn.Linear`, b is (...,o).
    """
    y = x @ transpose(W)  # (...,n,o)
    return y if b is None else y + b[..., None, :]


def linear_grad(grad: Array, x: Array, W: Array, b: Array | None = None) -> tuple[Array, Array, Array | None]:
    """Return the gradients of `linear` with respect to x, W and b (None if there is no b).

    `grad` (...,n,o) is the gradient of the loss with respect to the result of `linear`.
    """
    grad_x = sum_to(grad @ W, x.shape)
    grad_W = sum_to(zero_wins_matmul(transpose(grad), x), W.shape)  # (...,o,n) @ (...,n,i)
    grad_b = None if b is None else sum_to(grad.sum(axis=-2), b.shape)
    return grad_x, grad_W, grad_b
