"""Attention (score, mask, softmax, weighted sum) for each of the four scores, forward and backward."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ._basics import (
    Array,
    as_floats,
    check_leading,
    check_matrix,
    check_shape,
    quiet,
    shape_text,
    softmax,
    softmax_backward,
    sum_to,
    transpose,
    zero_wins_matmul,
)
from ._masks import align_mask, apply_mask
from ._scores import (
    additive_scores,
    additive_scores_grad,
    bilinear_scores,
    bilinear_scores_grad,
    dot_scores,
    dot_scores_grad,
    scaled_dot_scores,
    scaled_dot_scores_grad,
)


class AttendGrads(NamedTuple):
    """Gradients of `attend` with respect to its inputs.

    `mask` is None unless the mask was a float mask, that is, a bias.
    """

    scores: Array
    value: Array
    mask: Array | None


class AttentionGrads(NamedTuple):
    """Gradients of `dot_attention` and `scaled_dot_product_attention` with respect to their inputs.

    `mask` is None unless the mask was a float mask.
    """

    query: Array
    key: Array
    value: Array
    mask: Array | None


class AdditiveAttentionGrads(NamedTuple):
    """Gradients of `additive_attention` with respect to its inputs.

    A gradient is None where the input was None. `mask` is also None unless the mask was a float mask.
    """

    query: Array
    key: Array
    value: Array
    W_q: Array | None
    W_k: Array
    v: Array
    b: Array | None
    mask: Array | None


class BilinearAttentionGrads(NamedTuple):
    """Gradients of `bilinear_attention` with respect to its inputs.

    `mask` is None unless the mask was a float mask.
    """

    query: Array
    key: Array
    value: Array
    W: Array
    mask: Array | None


def _check_attend(scores: Array, value: Array) -> None:
    check_matrix("scores", scores, "q,k")
    check_matrix("value", value, "k,d")
    if value.shape[-2] != scores.shape[-1]:
        raise ValueError(
            f"value: {value.shape[-2]} values given, {scores.shape[-1]} in k: "
            f"scores are {shape_text(scores.shape)}, value is {shape_text(value.shape)}"
        )
    check_leading("value", value, "scores", scores)


def attend(scores: ArrayLike, value: ArrayLike, mask: ArrayLike | None = None) -> tuple[Array, Array]:
    """Mask the scores, take the softmax, and average the values with the resulting weights.

    All four attention functions share this step. The shapes are scores (...,q,k), value (...,k,d) -> output
    (...,q,d), weights (...,q,k). A query whose keys are all masked gets zero weights and a zero output.

    >>> output, weights = attend([np.log([3.0, 1.0])], [[4.0], [8.0]])
    >>> weights.round(4).tolist(), output.round(4).tolist()
    ([[0.75, 0.25]], [[5.0]])
    >>> attend([[1.0, 2.0]], [[4.0], [8.0]], mask=[[False, False]])[0].tolist()
    [[0.0]]
    """
    scores, value = as_floats(scores=scores, value=value)
    _check_attend(scores, value)
    weights = softmax(apply_mask(scores, mask))  # (...,q,k)
    return zero_wins_matmul(weights, value), weights


@quiet
def attend_grad(
    grad_output: ArrayLike,
    scores: ArrayLike,
    value: ArrayLike,
    mask: ArrayLike | None = None,
    *,
    grad_weights: ArrayLike | None = None,
) -> AttendGrads:
    """Return the gradients of `attend` with respect to scores, value and a float mask.

    `grad_output` (...,q,d) and `grad_weights` (...,q,k) are the gradients of the loss with respect to the output
    and the weights. `grad_weights` is needed only if the loss depends on the weights directly.

    >>> attend_grad([[1.0]], [np.log([3.0, 1.0])], [[4.0], [8.0]]).scores.round(4).tolist()
    [[-0.75, 0.75]]
    """
    grad, scores, value, extra = as_floats(
        grad_output=grad_output, scores=scores, value=value, grad_weights=grad_weights
    )
    output, weights = attend(scores, value, mask)
    check_shape("grad_output", grad, output.shape)
    through_weights = sum_to(grad @ transpose(value), weights.shape)  # (...,q,d) @ (...,d,k)
    if extra is not None:
        check_shape("grad_weights", extra, weights.shape)
        through_weights = through_weights + extra
    grad_masked = softmax_backward(through_weights, weights)  # (...,q,k), exactly 0 where masked
    grad_mask = None
    if mask is not None and np.asarray(mask).dtype.kind == "f":
        aligned = align_mask(np.asarray(mask), scores.shape)
        grad_mask = sum_to(grad_masked, aligned.shape).reshape(np.shape(mask))
    return AttendGrads(
        # The derivative of scores + bias with respect to the scores is 1.
        scores=grad_masked,
        value=sum_to(zero_wins_matmul(transpose(weights), grad), value.shape),
        mask=grad_mask,
    )


def scaled_dot_product_attention(
    Q: ArrayLike, K: ArrayLike, V: ArrayLike, mask: ArrayLike | None = None, *, scale: float | None = None
) -> tuple[Array, Array]:
    """Scaled dot-product attention, softmax(Q K^T / sqrt(d) + mask) V.

    Q is (...,q,d), K is (...,k,d), V is (...,k,e). Returns the output (...,q,e) and the weights (...,q,k).
    `scale` replaces the factor 1 / sqrt(d).

    >>> Q, K = [[1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
    >>> V = [[10.0, 0.0], [0.0, 20.0], [30.0, 0.0]]
    >>> output, weights = scaled_dot_product_attention(Q, K, V)
    >>> weights.round(4).tolist(), output.round(4).tolist()
    ([[0.4011, 0.1978, 0.4011]], [[16.0445, 3.9555]])
    """
    Q, K, V = as_floats(Q=Q, K=K, V=V)
    return attend(scaled_dot_scores(Q, K, scale), V, mask)


def scaled_dot_product_attention_grad(
    grad_output: ArrayLike,
    Q: ArrayLike,
    K: ArrayLike,
    V: ArrayLike,
    mask: ArrayLike | None = None,
    *,
    scale: float | None = None,
    grad_weights: ArrayLike | None = None,
) -> AttentionGrads:
    """Return the gradients of `scaled_dot_product_attention`.

    `grad_output` and `grad_weights` are the gradients of the loss, as in `attend_grad`.

    >>> scaled_dot_product_attention_grad([[1.0]], [[1.0]], [[0.0], [0.0]], [[4.0], [8.0]]).key.tolist()
    [[-1.0], [1.0]]
    """
    Q, K, V = as_floats(Q=Q, K=K, V=V)
    grads = attend_grad(grad_output, scaled_dot_scores(Q, K, scale), V, mask, grad_weights=grad_weights)
    return AttentionGrads(*scaled_dot_scores_grad(grads.scores, Q, K, scale), grads.value, grads.mask)


def dot_attention(
    query: ArrayLike, key: ArrayLike, value: ArrayLike, mask: ArrayLike | None = None
) -> tuple[Array, Array]:
    """Dot-product attention, with the score q·k and no scaling.

    Returns the output (...,q,d) and the weights (...,q,k).

    >>> dot_attention([[np.log(3.0)]], [[1.0], [0.0]], [[4.0], [8.0]])[0].round(4).tolist()
    [[5.0]]
    """
    query, key, value = as_floats(query=query, key=key, value=value)
    return attend(dot_scores(query, key), value, mask)


def dot_attention_grad(
    grad_output: ArrayLike,
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    mask: ArrayLike | None = None,
    *,
    grad_weights: ArrayLike | None = None,
) -> AttentionGrads:
    """Return the gradients of `dot_attention`.

    `grad_output` and `grad_weights` are the gradients of the loss, as in `attend_grad`.

    >>> dot_attention_grad([[1.0]], [[np.log(3.0)]], [[1.0], [0.0]], [[4.0], [8.0]]).query.round(4).tolist()
    [[-0.75]]
    """
    query, key, value = as_floats(query=query, key=key, value=value)
    grads = attend_grad(grad_output, dot_scores(query, key), value, mask, grad_weights=grad_weights)
    return AttentionGrads(*dot_scores_grad(grads.scores, query, key), grads.value, grads.mask)


def additive_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    W_q: ArrayLike | None,
    W_k: ArrayLike,
    v: ArrayLike,
    b: ArrayLike | None = None,
    mask: ArrayLike | None = None,
) -> tuple[Array, Array]:
    """Additive (Bahdanau) attention, with the score v·tanh(W_q q + W_k k + b).

    `v` is the vector of the score, not the values. The parameters are those of `additive_scores`. Returns the
    output (...,q,d) and the weights (...,q,k).

    >>> _, weights = additive_attention(
    ...     [[0.0]], [[50.0], [0.0]], [[4.0], [8.0]], W_q=[[1.0]], W_k=[[1.0]], v=[np.log(3.0)])
    >>> weights.round(4).tolist()
    [[0.75, 0.25]]
    """
    query, key, value, W_q, W_k, v, b = as_floats(
        query=query, key=key, value=value, W_q=W_q, W_k=W_k, v=v, b=b
    )
    return attend(additive_scores(query, key, W_q, W_k, v, b), value, mask)


def additive_attention_grad(
    grad_output: ArrayLike,
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    W_q: ArrayLike | None,
    W_k: ArrayLike,
    v: ArrayLike,
    b: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    *,
    grad_weights: ArrayLike | None = None,
) -> AdditiveAttentionGrads:
    """Return the gradients of `additive_attention`.

    `grad_output` and `grad_weights` are the gradients of the loss, as in `attend_grad`.

    >>> additive_attention_grad(
    ...     [[1.0]], [[0.0]], [[0.0], [0.0]], [[4.0], [8.0]], W_q=[[1.0]], W_k=[[1.0]], v=[2.0]).key.tolist()
    [[-2.0], [2.0]]
    """
    query, key, value, W_q, W_k, v, b = as_floats(
        query=query, key=key, value=value, W_q=W_q, W_k=W_k, v=v, b=b
    )
    scores = additive_scores(query, key, W_q, W_k, v, b)
    grads = attend_grad(grad_output, scores, value, mask, grad_weights=grad_weights)
    inner = additive_scores_grad(grads.scores, query, key, W_q, W_k, v, b)
    return AdditiveAttentionGrads(inner.q, inner.k, grads.value, *inner[2:], grads.mask)


def bilinear_attention(
    query: ArrayLike, key: ArrayLike, value: ArrayLike, W: ArrayLike, mask: ArrayLike | None = None
) -> tuple[Array, Array]:
    """Bilinear attention, with the score q·W·k (Luong's "general" score).

    Returns the output (...,q,d) and the weights (...,q,k).

    >>> bilinear_attention([[1.0]], [[1.0], [0.0]], [[4.0], [8.0]], W=[[np.log(3.0)]])[0].round(4).tolist()
    [[5.0]]
    """
    query, key, value, W = as_floats(query=query, key=key, value=value, W=W)
    return attend(bilinear_scores(query, key, W), value, mask)


def bilinear_attention_grad(
    grad_output: ArrayLike,
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    W: ArrayLike,
    mask: ArrayLike | None = None,
    *,
    grad_weights: ArrayLike | None = None,
) -> BilinearAttentionGrads:
    """Return the gradients of `bilinear_attention`.

    `grad_output` and `grad_weights` are the gradients of the loss, as in `attend_grad`.

    >>> bilinear_attention_grad([[1.0]], [[1.0]], [[1.0], [0.0]], [[4.0], [8.0]], W=[[0.0]]).W.tolist()
    [[-1.0]]
    """
    query, key, value, W = as_floats(query=query, key=key, value=value, W=W)
    grads = attend_grad(grad_output, bilinear_scores(query, key, W), value, mask, grad_weights=grad_weights)
    inner = bilinear_scores_grad(grads.scores, query, key, W)
    return BilinearAttentionGrads(inner.q, inner.k, grads.value, inner.W, grads.mask)
