"""What every other file of the oracle stands on: floats, softmax, and two careful products.

Axis letters: b batch, h head, q query, k key, d head width, m model width; `...` is any leading axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]

# A masked key may hold NaN or inf. Its score is thrown away afterwards, so NumPy's warning about it is noise.
quiet = np.errstate(invalid="ignore", over="ignore")


def as_floats(**arrays: ArrayLike | None) -> list[Array]:
    """Bring named arrays to one float type: float32 stays float32, integers become float64.

    An optional array that is None stays None, which the return type leaves unsaid.
    """
    found = {name: np.asarray(array) for name, array in arrays.items() if array is not None}
    for name, array in found.items():
        if array.dtype.kind not in "fiub":
            raise ValueError(f"{name}: expected real numbers, got an array of {array.dtype}")
    dtype = np.result_type(*(array.dtype for array in found.values()))
    if dtype.kind != "f":
        dtype = np.dtype(np.float64)
    floats: Any = [found[name].astype(dtype, copy=False) if name in found else None for name in arrays]
    return floats


def shape_text(shape: Sequence[int]) -> str:
    """Write a shape without spaces, as our errors do: `(2,5,6)`."""
    return str(tuple(int(size) for size in shape)).replace(" ", "")


def check_matrix(name: str, array: Array, axes: str) -> None:
    """Refuse an array that has no room for its last two axes."""
    if array.ndim < 2:
        raise ValueError(
            f"{name}: expected (...,{axes}), got {shape_text(array.shape)}: add the missing axis, "
            f"for instance {name}[None, :]"
        )


def check_leading(name: str, array: Array, other_name: str, other: Array) -> None:
    """Refuse leading axes (batch, head) that do not broadcast against each other."""
    try:
        np.broadcast_shapes(array.shape[:-2], other.shape[:-2])
    except ValueError:
        raise ValueError(
            f"{name}: leading axes {shape_text(array.shape[:-2])} do not broadcast with "
            f"{shape_text(other.shape[:-2])} of {other_name}"
        ) from None


def check_shape(name: str, array: Array, expected: Sequence[int]) -> None:
    """Refuse an upstream gradient that does not have the shape of what it is the gradient of."""
    if array.shape != tuple(expected):
        raise ValueError(f"{name}: expected {shape_text(expected)}, got {shape_text(array.shape)}")


@quiet
def softmax(x: ArrayLike, axis: int = -1) -> Array:
    """exp(x) / sum(exp(x)) along `axis`. A row of only -inf gives zeros, where the bare formula gives NaN.

    >>> softmax(np.log([3.0, 1.0])).round(4).tolist()
    [0.75, 0.25]
    >>> softmax([-np.inf, -np.inf]).tolist()
    [0.0, 0.0]
    """
    (x,) = as_floats(x=x)
    highest = np.max(x, axis=axis, keepdims=True, initial=-np.inf)  # `initial` lets an empty axis through
    highest = np.where(highest == -np.inf, 0, highest).astype(x.dtype)
    # Subtracting the highest changes nothing in the quotient, but keeps exp from overflowing.
    exponentials = np.exp(x - highest)
    total = exponentials.sum(axis=axis, keepdims=True)
    return exponentials / np.where(total == 0, 1, total).astype(x.dtype)


def softmax_grad(grad_output: ArrayLike, x: ArrayLike, axis: int = -1) -> Array:
    """Gradient of `softmax(x, axis)` with respect to x: w * (g - sum(g * w)).

    >>> softmax_grad([1.0, 0.0], np.log([3.0, 1.0])).round(4).tolist()
    [0.1875, -0.1875]
    """
    grad_output, x = as_floats(grad_output=grad_output, x=x)
    check_shape("grad_output", grad_output, x.shape)
    return softmax_backward(grad_output, softmax(x, axis), axis)


@quiet
def softmax_backward(grad: Array, weights: Array, axis: int = -1) -> Array:
    """The softmax gradient from weights already known; a zero weight passes nothing on, not even a NaN."""
    grad = np.where(weights == 0, 0, grad).astype(weights.dtype)
    return weights * (grad - (grad * weights).sum(axis=axis, keepdims=True))


@quiet
def zero_wins_matmul(a: Array, b: Array) -> Array:
    """The product a @ b in which a zero in `a` silences NaN and inf in `b`, as a masked value must be."""
    if np.isfinite(b).all():
        return a @ b
    left = a[..., :, :, None]  # (...,i,j,1)
    right = b[..., None, :, :]  # (...,1,j,d)
    return np.where(left == 0, 0, left * right).sum(axis=-2).astype(a.dtype)  # (...,i,d)


def transpose(array: Array) -> Array:
    """Swap the last two axes."""
    return np.swapaxes(array, -1, -2)


def sum_to(grad: Array, shape: Sequence[int]) -> Array:
    """Undo broadcasting: what was used many times receives the sum of its many gradients.

    >>> sum_to(np.ones((2, 3, 5)), (3, 1)).tolist()
    [[10.0], [10.0], [10.0]]
    """
    grad = grad.sum(axis=tuple(range(grad.ndim - len(shape))))
    spread = tuple(axis for axis, size in enumerate(shape) if size == 1 and grad.shape[axis] != 1)
    return grad.sum(axis=spread, keepdims=True)


@quiet
def linear(x: Array, W: Array, b: Array | None = None) -> Array:
    """W x + b for every row x: x is (...,n,i), W is (...,o,i) as `nn.Linear` keeps it, b is (...,o)."""
    y = x @ transpose(W)  # (...,n,o)
    return y if b is None else y + b[..., None, :]


def linear_grad(grad: Array, x: Array, W: Array, b: Array | None = None) -> tuple[Array, Array, Array | None]:
    """Gradients of `linear` with respect to x, W and b."""
    grad_x = sum_to(grad @ W, x.shape)
    grad_W = sum_to(zero_wins_matmul(transpose(grad), x), W.shape)  # (...,o,n) @ (...,n,i)
    grad_b = None if b is None else sum_to(grad.sum(axis=-2), b.shape)
    return grad_x, grad_W, grad_b
