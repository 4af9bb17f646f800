"""Multi-head attention.

The inputs are projected and split into heads, each head attends on its own, and the joined heads are projected
to the output.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ._attention import AttentionGrads, scaled_dot_product_attention, scaled_dot_product_attention_grad
from ._basics import (
    Array,
    as_floats,
    check_matrix,
    check_shape,
    length,
    linear,
    linear_grad,
    shape_text,
    softmax,
)
from ._masks import apply_mask
from ._scores import scaled_dot_scores

_INPUTS = {"q": "query", "k": "key", "v": "value"}


class MultiHeadGrads(NamedTuple):
    """Gradients of `multi_head_attention` with respect to its inputs.

    A gradient is None where the input was None, and for a mask that is not a float mask.
    """

    query: Array
    key: Array
    value: Array
    W_q: Array
    W_k: Array
    W_v: Array
    W_o: Array
    b_q: Array | None
    b_k: Array | None
    b_v: Array | None
    b_o: Array | None
    mask: Array | None


def split_heads(x: Array, num_heads: int) -> Array:
    """Split the width into heads, (...,n,h*d) -> (...,h,n,d)."""
    parts = x.reshape(*x.shape[:-1], num_heads, x.shape[-1] // num_heads)  # (...,n,h,d)
    return np.swapaxes(parts, -2, -3)


def join_heads(x: Array) -> Array:
    """Concatenate the heads, (...,h,n,d) -> (...,n,h*d), as the inverse of `split_heads`."""
    parts = np.swapaxes(x, -2, -3)  # (...,n,h,d)
    return parts.reshape(*parts.shape[:-2], parts.shape[-2] * parts.shape[-1])


def check_heads(num_heads: int, width: int, name: str) -> None:
    """Raise ValueError if the number of heads does not divide the width.

    The message lists the numbers of heads that divide it. `name` says which width it is.
    """
    num_heads = length("num_heads", num_heads, least=1)
    if width % num_heads:
        choices = ", ".join(str(n) for n in range(1, width + 1) if width % n == 0)
        raise ValueError(
            f"num_heads: {num_heads} heads do not divide {name} = {width}: choose one of {choices}"
        )


def _check_multi_head(arrays: dict[str, Any], num_heads: int) -> None:
    for name in _INPUTS.values():
        check_matrix(name, arrays[name], "n,m")
    for letter, name in _INPUTS.items():
        W, width = arrays[f"W_{letter}"], arrays[name].shape[-1]
        if W.ndim != 2 or W.shape[1] != width:
            raise ValueError(
                f"W_{letter}: expected (out,{width}) from the width of {name}, got {shape_text(W.shape)}"
            )
        check_heads(num_heads, W.shape[0], f"the output width of W_{letter}")
    if arrays["W_q"].shape[0] != arrays["W_k"].shape[0]:
        raise ValueError(f"W_k: output width {arrays['W_k'].shape[0]} given, {arrays['W_q'].shape[0]} in W_q")
    joined = arrays["W_v"].shape[0]
    if arrays["W_o"].ndim != 2 or arrays["W_o"].shape[1] != joined:
        raise ValueError(
            f"W_o: expected (out,{joined}) from the output width of W_v, "
            f"got {shape_text(arrays['W_o'].shape)}"
        )
    for letter in "qkvo":
        bias, width = arrays[f"b_{letter}"], arrays[f"W_{letter}"].shape[0]
        if bias is not None and bias.shape != (width,):
            raise ValueError(f"b_{letter}: expected ({width},), got {shape_text(bias.shape)}")


def _prepare(
    inputs: Sequence[ArrayLike],
    matrices: Sequence[ArrayLike],
    biases: Sequence[ArrayLike | None],
    num_heads: int,
) -> tuple[dict[str, Any], bool]:
    """Convert the arguments to floats, check their shapes and add a batch axis if there is none.

    Returns the arrays by name and whether the batch axis was added. With a batch axis, a 3-D mask always means
    (b,q,k).
    """
    names = [*_INPUTS.values(), "W_q", "W_k", "W_v", "W_o", "b_q", "b_k", "b_v", "b_o"]
    arguments = dict(zip(names, (*inputs, *matrices, *biases), strict=True))
    arrays = dict(zip(names, as_floats(**arguments), strict=True))
    _check_multi_head(arrays, num_heads)
    unbatched = all(arrays[name].ndim == 2 for name in _INPUTS.values())
    if unbatched:
        arrays |= {name: arrays[name][None] for name in _INPUTS.values()}
    return arrays, unbatched


def _project(arrays: dict[str, Any], num_heads: int) -> tuple[Array, Array, Array]:
    """Project the inputs to the q, k and v of every head, each (b,h,n,d)."""
    q, k, v = (
        split_heads(linear(arrays[name], arrays[f"W_{letter}"], arrays[f"b_{letter}"]), num_heads)
        for letter, name in _INPUTS.items()
    )
    return q, k, v


def _project_grads(grads: AttentionGrads, arrays: dict[str, Any], unbatched: bool) -> dict[str, Any]:
    """Return the gradients of `_project` with respect to inputs, matrices and biases, by name."""
    named_grads: dict[str, Any] = {}
    for letter, name in _INPUTS.items():
        grad = join_heads(getattr(grads, name))  # (b,n,h*d)
        weight, bias = arrays[f"W_{letter}"], arrays[f"b_{letter}"]
        grad_x, grad_W, grad_b = linear_grad(grad, arrays[name], weight, bias)
        named_grads[name] = grad_x[0] if unbatched else grad_x
        named_grads[f"W_{letter}"], named_grads[f"b_{letter}"] = grad_W, grad_b
    return named_grads


def multi_head_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    W_q: ArrayLike,
    W_k: ArrayLike,
    W_v: ArrayLike,
    W_o: ArrayLike,
    num_heads: int,
    mask: ArrayLike | None = None,
    *,
    b_q: ArrayLike | None = None,
    b_k: ArrayLike | None = None,
    b_v: ArrayLike | None = None,
    b_o: ArrayLike | None = None,
) -> tuple[Array, Array]:
    """Multi-head attention, W_o · concat(heads) + b_o.

    The inputs are (b,n,m), or (n,m) without a batch. Matrices are (out,in), as in W x and in `nn.Linear`. A 3-D
    mask is (b,q,k) and holds for every head. Returns the output (b,q,m) and the weights (b,h,q,k), both without b if
    no input has a batch.

    >>> x, identity = [[1.0, 0.0], [0.0, 1.0]], np.eye(2)
    >>> output, weights = multi_head_attention(x, x, x, identity, identity, identity, identity, num_heads=2)
    >>> output.shape, weights.shape
    ((2, 2), (2, 2, 2))
    """
    matrices, biases = (W_q, W_k, W_v, W_o), (b_q, b_k, b_v, b_o)
    arrays, unbatched = _prepare((query, key, value), matrices, biases, num_heads)
    q, k, v = _project(arrays, num_heads)  # (b,h,n,d)
    heads, weights = scaled_dot_product_attention(q, k, v, mask)  # (b,h,q,d), (b,h,q,k)
    output = linear(join_heads(heads), arrays["W_o"], arrays["b_o"])  # (b,q,m)
    return (output[0], weights[0]) if unbatched else (output, weights)


def multi_head_attention_grad(
    grad_output: ArrayLike,
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    W_q: ArrayLike,
    W_k: ArrayLike,
    W_v: ArrayLike,
    W_o: ArrayLike,
    num_heads: int,
    mask: ArrayLike | None = None,
    *,
    b_q: ArrayLike | None = None,
    b_k: ArrayLike | None = None,
    b_v: ArrayLike | None = None,
    b_o: ArrayLike | None = None,
    grad_weights: ArrayLike | None = None,
) -> MultiHeadGrads:
    """Return the gradients of `multi_head_attention` with respect to all its inputs.

    `grad_output` (b,q,m) and `grad_weights` (b,h,q,k) are the gradients of the loss with respect to the output
    and the weights. `grad_weights` is needed only if the loss depends on the weights directly.

    >>> one, two = [[1.0]], [[2.0]]
    >>> multi_head_attention_grad([[5.0]], one, one, one, one, one, one, two, num_heads=1).value.tolist()
    [[10.0]]
    """
    matrices, biases = (W_q, W_k, W_v, W_o), (b_q, b_k, b_v, b_o)
    arrays, unbatched = _prepare((query, key, value), matrices, biases, num_heads)
    grad, grad_w = as_floats(grad_output=grad_output, grad_weights=grad_weights)
    if unbatched:
        grad, grad_w = grad[None], None if grad_w is None else grad_w[None]
    q, k, v = _project(arrays, num_heads)  # (b,h,n,d)
    joined = join_heads(scaled_dot_product_attention(q, k, v, mask)[0])  # (b,q,h*d)
    check_shape("grad_output", grad, (*joined.shape[:-1], arrays["W_o"].shape[0]))
    grad_joined, grad_W_o, grad_b_o = linear_grad(grad, joined, arrays["W_o"], arrays["b_o"])
    grad_heads = split_heads(grad_joined, num_heads)  # (b,h,q,d)
    inner = scaled_dot_product_attention_grad(grad_heads, q, k, v, mask, grad_weights=grad_w)
    projections = _project_grads(inner, arrays, unbatched)
    return MultiHeadGrads(W_o=grad_W_o, b_o=grad_b_o, mask=inner.mask, **projections)


class MultiHeadAttention:
    """Multi-head attention with random weight matrices W_q, W_k, W_v, W_o, each (d_model,d_model).

    `seed` makes the matrices reproducible. Raises ValueError if `num_heads` does not divide `d_model`.

    >>> mha = MultiHeadAttention(d_model=6, num_heads=2, seed=0)
    >>> x = np.ones((1, 4, 6))
    >>> mha.d_k, mha.forward(x, x, x).shape, mha.attention_weights(x, x).shape
    (3, (1, 4, 6), (1, 2, 4, 4))
    """

    def __init__(self, d_model: int = 128, num_heads: int = 8, seed: int | None = None) -> None:
        d_model, num_heads = length("d_model", d_model, least=1), length("num_heads", num_heads, least=1)
        check_heads(num_heads, d_model, "d_model")
        self.d_model = d_model
        self.num_heads = num_heads
        self.d_k = d_model // num_heads
        # Glorot initialisation keeps the variance of the activations about constant through each product.
        bound = np.sqrt(6 / (d_model + d_model))
        random = np.random.default_rng(seed)
        self.W_q, self.W_k, self.W_v, self.W_o = (
            random.uniform(-bound, bound, (d_model, d_model)) for _ in range(4)
        )

    def __repr__(self) -> str:
        return f"MultiHeadAttention(d_model={self.d_model}, num_heads={self.num_heads})"

    def forward(
        self, query: ArrayLike, key: ArrayLike, value: ArrayLike, mask: ArrayLike | None = None
    ) -> Array:
        """Return the output (b,q,m) without the weights."""
        return multi_head_attention(
            query, key, value, self.W_q, self.W_k, self.W_v, self.W_o, self.num_heads, mask
        )[0]

    def attention_weights(self, query: ArrayLike, key: ArrayLike, mask: ArrayLike | None = None) -> Array:
        """Return the attention weights of every head, (b,h,q,k)."""
        matrices = (self.W_q, self.W_k, self.W_v, self.W_o)
        arrays, unbatched = _prepare((query, key, key), matrices, (None,) * 4, self.num_heads)
        q, k, _ = _project(arrays, self.num_heads)
        weights = softmax(apply_mask(scaled_dot_scores(q, k), mask))
        return weights[0] if unbatched else weights
