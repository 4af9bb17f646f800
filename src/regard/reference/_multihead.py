"""Many heads: project, split the width into heads, attend in each, join, project back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ._attention import AttentionGrads, scaled_dot_product_attention, scaled_dot_product_attention_grad
from ._basics import Array, as_floats, check_matrix, check_shape, linear, linear_grad, shape_text, softmax
from ._masks import apply_mask
from ._scores import scaled_dot_scores

_INPUTS = {"q": "query", "k": "key", "v": "value"}


class MultiHeadGrads(NamedTuple):
    """Gradients of `multi_head_attention`; None where the input was None or cannot have one."""

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
    """(...,n,h*d) -> (...,h,n,d): each head takes its own slice of the width."""
    parts = x.reshape(*x.shape[:-1], num_heads, x.shape[-1] // num_heads)  # (...,n,h,d)
    return np.swapaxes(parts, -2, -3)


def join_heads(x: Array) -> Array:
    """(...,h,n,d) -> (...,n,h*d), the inverse of `split_heads`."""
    parts = np.swapaxes(x, -2, -3)  # (...,n,h,d)
    return parts.reshape(*parts.shape[:-2], parts.shape[-2] * parts.shape[-1])


def check_heads(num_heads: int, width: int, name: str) -> None:
    """Refuse a number of heads that does not divide the width, and list those that do."""
    if num_heads < 1:
        raise ValueError(f"num_heads: expected 1 or more, got {num_heads}")
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
    """Floats by name, checks, and a batch axis if there is none: a 3-D mask must always mean (b,q,k)."""
    names = [*_INPUTS.values(), "W_q", "W_k", "W_v", "W_o", "b_q", "b_k", "b_v", "b_o"]
    arrays = dict(zip(names, (*inputs, *matrices, *biases), strict=True))
    ready = dict(zip(names, as_floats(**arrays), strict=True))
    _check_multi_head(ready, num_heads)
    unbatched = all(ready[name].ndim == 2 for name in _INPUTS.values())
    if unbatched:
        ready |= {name: ready[name][None] for name in _INPUTS.values()}
    return ready, unbatched


def _project(a: dict[str, Any], num_heads: int) -> tuple[Array, Array, Array]:
    """Project the inputs to the q, k and v of every head, each (b,h,n,d)."""
    q, k, v = (
        split_heads(linear(a[name], a[f"W_{letter}"], a[f"b_{letter}"]), num_heads)
        for letter, name in _INPUTS.items()
    )
    return q, k, v


def _project_grads(grads: AttentionGrads, a: dict[str, Any], unbatched: bool) -> dict[str, Any]:
    """Gradients of `_project` by name: inputs, matrices and biases."""
    found: dict[str, Any] = {}
    for letter, name in _INPUTS.items():
        grad = join_heads(getattr(grads, name))  # (b,n,h*d)
        grad_x, grad_W, grad_b = linear_grad(grad, a[name], a[f"W_{letter}"], a[f"b_{letter}"])
        found[name] = grad_x[0] if unbatched else grad_x
        found[f"W_{letter}"], found[f"b_{letter}"] = grad_W, grad_b
    return found


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
    """W_o · join(attention in each head) + b_o -> output (b,q,m), weights (b,h,q,k).

    Matrices are (out,in), as in W x and as `nn.Linear` keeps them. A 3-D mask is (b,q,k) for every head.

    >>> x, one = [[1.0, 0.0], [0.0, 1.0]], np.eye(2)
    >>> output, weights = multi_head_attention(x, x, x, one, one, one, one, num_heads=2)
    >>> output.shape, weights.shape
    ((2, 2), (2, 2, 2))
    """
    a, unbatched = _prepare((query, key, value), (W_q, W_k, W_v, W_o), (b_q, b_k, b_v, b_o), num_heads)
    q, k, v = _project(a, num_heads)  # (b,h,n,d)
    heads, weights = scaled_dot_product_attention(q, k, v, mask)  # (b,h,q,d), (b,h,q,k)
    output = linear(join_heads(heads), a["W_o"], a["b_o"])  # (b,q,m)
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
    """Gradients of `multi_head_attention`, from the last step back to the first.

    >>> one, two = [[1.0]], [[2.0]]
    >>> multi_head_attention_grad([[5.0]], one, one, one, one, one, one, two, num_heads=1).value.tolist()
    [[10.0]]
    """
    a, unbatched = _prepare((query, key, value), (W_q, W_k, W_v, W_o), (b_q, b_k, b_v, b_o), num_heads)
    grad, extra = as_floats(grad_output=grad_output, grad_weights=grad_weights)
    if unbatched:
        grad, extra = grad[None], None if extra is None else extra[None]
    q, k, v = _project(a, num_heads)  # (b,h,n,d)
    joined = join_heads(scaled_dot_product_attention(q, k, v, mask)[0])  # (b,q,h*d)
    check_shape("grad_output", grad, (*joined.shape[:-1], a["W_o"].shape[0]))
    grad_joined, grad_W_o, grad_b_o = linear_grad(grad, joined, a["W_o"], a["b_o"])
    grad_heads = split_heads(grad_joined, num_heads)  # (b,h,q,d)
    inner = scaled_dot_product_attention_grad(grad_heads, q, k, v, mask, grad_weights=extra)
    return MultiHeadGrads(W_o=grad_W_o, b_o=grad_b_o, mask=inner.mask, **_project_grads(inner, a, unbatched))


class MultiHeadAttention:
    """Multi-head attention with its own random matrices W_q, W_k, W_v, W_o, each (d_model,d_model).

    >>> mha = MultiHeadAttention(d_model=6, num_heads=2, seed=0)
    >>> x = np.ones((1, 4, 6))
    >>> mha.d_k, mha.forward(x, x, x).shape, mha.attention_weights(x, x).shape
    (3, (1, 4, 6), (1, 2, 4, 4))
    """

    def __init__(self, d_model: int = 128, num_heads: int = 8, seed: int | None = None) -> None:
        if d_model < 1:
            raise ValueError(f"d_model: expected 1 or more, got {d_model}")
        check_heads(num_heads, d_model, "d_model")
        self.d_model = d_model
        self.num_heads = num_heads
        self.d_k = d_model // num_heads
        # Glorot's bound keeps the size of the numbers about the same before and after each product.
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
        """The output (b,q,m) alone; `attention_weights` gives the weights."""
        return multi_head_attention(
            query, key, value, self.W_q, self.W_k, self.W_v, self.W_o, self.num_heads, mask
        )[0]

    def attention_weights(self, query: ArrayLike, key: ArrayLike, mask: ArrayLike | None = None) -> Array:
        """The weights of every head, (b,h,q,k); values play no part in them."""
        matrices = (self.W_q, self.W_k, self.W_v, self.W_o)
        a, unbatched = _prepare((query, key, key), matrices, (None,) * 4, self.num_heads)
        q, k, _ = _project(a, self.num_heads)
        weights = softmax(apply_mask(scaled_dot_scores(q, k), mask))
        return weights[0] if unbatched else weights
