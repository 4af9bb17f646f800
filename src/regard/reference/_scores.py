"""The dot, scaled dot, additive and bilinear scores of queries and keys, each with its gradient."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ._basics import (
    Array,
    as_floats,
    check_leading,
    check_matrix,
    check_shape,
    linear,
    linear_grad,
    quiet,
    shape_text,
    sum_to,
    transpose,
    zero_wins_matmul,
)


class DotScoresGrads(NamedTuple):
    """Gradients of `dot_scores` and `scaled_dot_scores`, each with the shape of its input."""

    q: Array
    k: Array


class AdditiveScoresGrads(NamedTuple):
    """Gradients of `additive_scores`, each with the shape of its input or None where the input was None."""

    q: Array
    k: Array
    W_q: Array | None
    W_k: Array
    v: Array
    b: Array | None


class BilinearScoresGrads(NamedTuple):
    """Gradients of `bilinear_scores`, each with the shape of its input."""

    q: Array
    k: Array
    W: Array


def _check_pair(q: Array, k: Array) -> None:
    check_matrix("q", q, "q,d")
    check_matrix("k", k, "k,d")
    check_leading("k", k, "q", q)


def _check_width(name: str, width: int, other_name: str, expected: int) -> None:
    if width != expected:
        raise ValueError(f"{name}: width {width} given, {expected} in {other_name}")


def default_scale(width: int) -> float:
    """Return 1 / sqrt(width) as a Python float, which leaves float32 scores in float32."""
    return 1 / math.sqrt(max(width, 1))


@quiet
def dot_scores(q: ArrayLike, k: ArrayLike) -> Array:
    """Return the dot product q·k of every query and key, (...,q,d), (...,k,d) -> (...,q,k).

    >>> dot_scores([[1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]).tolist()
    [[1.0, 0.0, 1.0]]
    """
    q, k = as_floats(q=q, k=k)
    _check_pair(q, k)
    _check_width("k", k.shape[-1], "q", q.shape[-1])
    return q @ transpose(k)  # (...,q,k)


def dot_scores_grad(grad_scores: ArrayLike, q: ArrayLike, k: ArrayLike) -> DotScoresGrads:
    """Return the gradients of `dot_scores` with respect to q and k.

    They follow from d(q·k)/dq = k and d(q·k)/dk = q.

    >>> dot_scores_grad([[2.0]], [[3.0]], [[5.0]])
    DotScoresGrads(q=array([[10.]]), k=array([[6.]]))
    """
    grad, q, k = as_floats(grad_scores=grad_scores, q=q, k=k)
    check_shape("grad_scores", grad, dot_scores(q, k).shape)
    return DotScoresGrads(
        q=sum_to(zero_wins_matmul(grad, k), q.shape),
        k=sum_to(zero_wins_matmul(transpose(grad), q), k.shape),
    )


def scaled_dot_scores(q: ArrayLike, k: ArrayLike, scale: float | None = None) -> Array:
    """Return the scaled dot product q·k * scale of every query and key, (...,q,k).

    The default scale is 1 / sqrt(d).

    >>> scaled_dot_scores([[2.0, 0.0, 0.0, 0.0]], [[3.0, 0.0, 0.0, 0.0]]).tolist()
    [[3.0]]
    """
    scores = dot_scores(q, k)
    return scores * (default_scale(np.shape(q)[-1]) if scale is None else float(scale))


def scaled_dot_scores_grad(
    grad_scores: ArrayLike, q: ArrayLike, k: ArrayLike, scale: float | None = None
) -> DotScoresGrads:
    """Return the gradients of `scaled_dot_scores`, which are those of `dot_scores` times the scale.

    >>> scaled_dot_scores_grad([[2.0]], [[3.0]], [[5.0]], scale=0.5)
    DotScoresGrads(q=array([[5.]]), k=array([[3.]]))
    """
    (grad,) = as_floats(grad_scores=grad_scores)
    return dot_scores_grad(grad * (default_scale(np.shape(q)[-1]) if scale is None else float(scale)), q, k)


def _check_additive(q: Array, k: Array, W_q: Array | None, W_k: Array, v: Array, b: Array | None) -> None:
    _check_pair(q, k)
    check_matrix("W_k", W_k, "a,d")
    _check_width("W_k", W_k.shape[-1], "k", k.shape[-1])
    inner = W_k.shape[-2]  # a, the width inside the tanh
    if W_q is None:
        if q.shape[-1] != inner:
            raise ValueError(
                f"q: width {q.shape[-1]} given, {inner} in W_k k: an unprojected query (W_q=None) "
                f"must have that width, or give W_q of shape ({inner},{q.shape[-1]})"
            )
    else:
        check_matrix("W_q", W_q, "a,d")
        _check_width("W_q", W_q.shape[-1], "q", q.shape[-1])
        _check_width("W_q q", W_q.shape[-2], "W_k k", inner)
    for name, vector in (("v", v), ("b", b)):
        if vector is not None and (vector.ndim == 0 or vector.shape[-1] != inner):
            raise ValueError(f"{name}: expected ({inner},), got {shape_text(vector.shape)}")


def _tanh_inside(q: Array, k: Array, W_q: Array | None, W_k: Array, b: Array | None) -> Array:
    """Return tanh(W_q q + W_k k + b) for every query and key, (...,q,k,a)."""
    from_query = q if W_q is None else linear(q, W_q)  # (...,q,a)
    from_key = linear(k, W_k)  # (...,k,a)
    inside = from_query[..., :, None, :] + from_key[..., None, :, :]  # (...,q,k,a)
    return np.tanh(inside if b is None else inside + b[..., None, None, :])


@quiet
def additive_scores(
    q: ArrayLike,
    k: ArrayLike,
    W_q: ArrayLike | None,
    W_k: ArrayLike,
    v: ArrayLike,
    b: ArrayLike | None = None,
) -> Array:
    """Return Bahdanau's additive score v·tanh(W_q q + W_k k + b) of every query and key.

    The shapes are q (...,q,d), k (...,k,e) -> (...,q,k), where W_q is (a,d), W_k is (a,e), v and b are (a,).
    `W_q=None` uses the query without a projection, which requires d = a. The score has no bias outside the
    tanh, because the softmax cancels a constant added to every score.

    >>> additive_scores([[0.0]], [[0.0], [50.0]], W_q=[[1.0]], W_k=[[1.0]], v=[2.0]).tolist()
    [[0.0, 2.0]]
    """
    q, k, W_q, W_k, v, b = as_floats(q=q, k=k, W_q=W_q, W_k=W_k, v=v, b=b)
    _check_additive(q, k, W_q, W_k, v, b)
    return (_tanh_inside(q, k, W_q, W_k, b) * v[..., None, None, :]).sum(axis=-1)  # (...,q,k)


@quiet
def additive_scores_grad(
    grad_scores: ArrayLike,
    q: ArrayLike,
    k: ArrayLike,
    W_q: ArrayLike | None,
    W_k: ArrayLike,
    v: ArrayLike,
    b: ArrayLike | None = None,
) -> AdditiveScoresGrads:
    """Return the gradients of `additive_scores` with respect to its inputs.

    The derivative of the tanh is tanh'(x) = 1 - tanh(x)^2.

    >>> additive_scores_grad([[3.0]], [[0.0]], [[0.0]], W_q=[[1.0]], W_k=[[1.0]], v=[2.0]).q.tolist()
    [[6.0]]
    """
    grad, q, k, W_q, W_k, v, b = as_floats(grad_scores=grad_scores, q=q, k=k, W_q=W_q, W_k=W_k, v=v, b=b)
    check_shape("grad_scores", grad, additive_scores(q, k, W_q, W_k, v, b).shape)
    upstream = grad[..., None]  # (...,q,k,1)
    hidden = _tanh_inside(q, k, W_q, W_k, b)  # (...,q,k,a)
    # A masked key may have made `hidden` NaN, and its upstream gradient is 0.
    hidden = np.where(upstream == 0, 0, hidden).astype(grad.dtype)
    grad_v = (upstream * hidden).sum(axis=(-3, -2))  # (...,a)
    grad_inside = upstream * v[..., None, None, :] * (1 - hidden**2)  # (...,q,k,a)
    grad_from_query = grad_inside.sum(axis=-2)  # (...,q,a)
    grad_from_key = grad_inside.sum(axis=-3)  # (...,k,a)
    if W_q is None:
        grad_q, grad_W_q = sum_to(grad_from_query, q.shape), None
    else:
        grad_q, grad_W_q, _ = linear_grad(grad_from_query, q, W_q)
    grad_k, grad_W_k, _ = linear_grad(grad_from_key, k, W_k)
    grad_b = None if b is None else sum_to(grad_inside.sum(axis=(-3, -2)), b.shape)
    return AdditiveScoresGrads(grad_q, grad_k, grad_W_q, grad_W_k, sum_to(grad_v, v.shape), grad_b)


def _check_bilinear(q: Array, k: Array, W: Array) -> None:
    _check_pair(q, k)
    check_matrix("W", W, "d,e")
    if W.shape[-2:] != (q.shape[-1], k.shape[-1]):
        raise ValueError(
            f"W: expected (...,{q.shape[-1]},{k.shape[-1]}) from the widths of q and k, "
            f"got {shape_text(W.shape)}"
        )


@quiet
def bilinear_scores(q: ArrayLike, k: ArrayLike, W: ArrayLike) -> Array:
    """Return the bilinear score q·W·k (Luong's "general" score) of every query and key.

    The shapes are q (...,q,d), k (...,k,e), W (d,e) -> (...,q,k).

    >>> bilinear_scores([[1.0, 2.0]], [[3.0]], W=[[10.0], [100.0]]).tolist()
    [[630.0]]
    """
    q, k, W = as_floats(q=q, k=k, W=W)
    _check_bilinear(q, k, W)
    return (q @ W) @ transpose(k)  # (...,q,e) @ (...,e,k)


@quiet
def bilinear_scores_grad(
    grad_scores: ArrayLike, q: ArrayLike, k: ArrayLike, W: ArrayLike
) -> BilinearScoresGrads:
    """Return the gradients of `bilinear_scores` with respect to q, k and W.

    >>> bilinear_scores_grad([[1.0]], [[2.0]], [[3.0]], W=[[5.0]])
    BilinearScoresGrads(q=array([[15.]]), k=array([[10.]]), W=array([[6.]]))
    """
    grad, q, k, W = as_floats(grad_scores=grad_scores, q=q, k=k, W=W)
    check_shape("grad_scores", grad, bilinear_scores(q, k, W).shape)
    grad_qW = zero_wins_matmul(grad, k)  # (...,q,e)
    return BilinearScoresGrads(
        q=sum_to(grad_qW @ transpose(W), q.shape),
        k=sum_to(zero_wins_matmul(transpose(grad), q @ W), k.shape),
        # q^T grad_qW, computed as (grad_qW^T q)^T because `zero_wins_matmul` needs the zeros on the left.
        W=sum_to(transpose(zero_wins_matmul(transpose(grad_qW), q)), W.shape),
    )
