"""The attention layers with one head."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from regard.core import attention_with_weights, knows_other_libraries
from regard.errors import ShapeError
from regard.layers.inputs import blank_unseen, check_input, common_batch, document_mask
from regard.masks import Mask
from regard.scores import Tanh
from regard.shapes import Grid, axes, check_tensor, whole_number

__all__ = [
    "AdditiveAttention",
    "BasicAttention",
    "EncoderDecoderAttention",
    "SelfAttention",
    "SimpleAttention",
]


class AdditiveAttention(nn.Module):
    """Additive (Bahdanau) attention with the scores ``v . tanh(query + W key)`` (document 000).

    The query is not projected, so it has the width of the keys. The keys are also the values.

    >>> import torch
    >>> attend = AdditiveAttention(hidden_dim=10)
    >>> context, weights = attend(torch.randn(2, 10), torch.randn(2, 5, 10))
    >>> context.shape, weights.shape
    (torch.Size([2, 10]), torch.Size([2, 5]))
    """

    def __init__(self, hidden_dim: int):
        super().__init__()
        self.hidden_dim = whole_number("hidden_dim", hidden_dim, least=1)
        self.W = nn.Linear(hidden_dim, hidden_dim)
        self.v = nn.Linear(hidden_dim, 1)

    @knows_other_libraries
    def forward(
        self, query: Tensor, keys: Tensor, *, mask: Mask | Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the context ``(b,m)`` and the weights ``(b,k)`` for queries ``(b,m)``.

        For queries ``(b,q,m)`` they are ``(b,q,m)`` and ``(b,q,k)``. ``mask`` is that of :func:`regard.attention`, with
        q = 1 for a single query, such as ``regard.padding(lengths)``.
        """
        check_input("query", query, self.W, self.hidden_dim, "(b,m) or (b,q,m)")
        check_input("keys", keys, self.W, self.hidden_dim, "(b,k,m)")
        if keys.ndim != 3 or query.ndim not in (2, 3):
            raise ShapeError(
                "query",
                f"expected (b,m) or (b,q,m) and keys (b,k,m), got {axes(query.shape)} and {axes(keys.shape)}",
            )
        q, keys = common_batch(query[:, None] if query.ndim == 2 else query, keys)  # (b,q,m), (b,k,m)
        (keys,) = blank_unseen(mask, Grid(q.shape[0], 1, q.shape[1], keys.shape[1]), keys)
        context, weights = attention_with_weights(
            q, self.W(keys), keys, score=Tanh(self._vector(q)), mask=mask
        )
        return (context[:, 0], weights[:, 0]) if query.ndim == 2 else (context, weights)

    def _vector(self, like: Tensor) -> Tensor:
        """Return the vector ``v (m,)`` of the score, for inputs with the dtype and device of ``like``."""
        if type(self.v) is nn.Linear:
            # The bias of v adds the same number to all scores, so it does not change the softmax. It stays in the
            # graph with a gradient of zero, because training in several processes fails on unused parameters.
            return self.v.weight[0] + 0 * self.v.bias
        # A replacement of the linear layer (LoRA, quantization) may have no weight, so it is applied to unit vectors.
        one_each = torch.eye(self.hidden_dim, dtype=like.dtype, device=like.device)  # (m,m)
        return (self.v(one_each) - self.v(torch.zeros_like(one_each)))[:, 0]


class SimpleAttention(nn.Module):
    """Scaled dot-product attention without parameters (document 001).

    Scores are divided by the square root of ``dim``. The inputs may have another width.

    >>> import torch
    >>> x = torch.randn(32, 20, 64)
    >>> output, weights = SimpleAttention(64)(x, x, x)
    >>> output.shape, weights.shape
    (torch.Size([32, 20, 64]), torch.Size([32, 20, 20]))
    """

    def __init__(self, dim: int):
        super().__init__()
        self.dim = whole_number("dim", dim, least=1)

    @knows_other_libraries
    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Mask | Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the output ``(...,q,m)`` and the weights ``(...,q,k)``."""
        # The width is that of the input, so only the type of the tensors is checked here.
        for name, x in (("query", query), ("key", key), ("value", value)):
            check_tensor(name, x)
        query, key, value = common_batch(query, key, value)
        return attention_with_weights(query, key, value, mask=mask, scale=1 / math.sqrt(self.dim))

    def extra_repr(self) -> str:
        """Return the width as text, for ``print(model)``."""
        return f"dim={self.dim}"


class BasicAttention(nn.Module):
    """Scaled dot-product attention of projected query, key and value (document 002).

    ``mask`` may also be a tensor of zeros and ones in any dtype, as in document 002, where 0 is masked. A float mask
    without any 1 is additive.

    >>> import torch
    >>> query, memory = torch.randn(2, 5, 8), torch.randn(2, 7, 8)
    >>> context, weights = BasicAttention(8)(query, memory, memory, mask=torch.ones(5, 7).tril(2))
    >>> context.shape, int((weights[0] > 0).sum())
    (torch.Size([2, 5, 8]), 25)
    """

    def __init__(self, hidden_dim: int):
        super().__init__()
        self.hidden_dim = whole_number("hidden_dim", hidden_dim, least=1)
        self.W_q = nn.Linear(hidden_dim, hidden_dim)
        self.W_k = nn.Linear(hidden_dim, hidden_dim)
        self.W_v = nn.Linear(hidden_dim, hidden_dim)

    @knows_other_libraries
    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Mask | Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the context ``(b,q,m)`` and the weights ``(b,q,k)``.

        The inputs may also have no batch axis, or heads on a second axis. The results then have the same axes.
        """
        for name, x, layer in (
            ("query", query, self.W_q),
            ("key", key, self.W_k),
            ("value", value, self.W_v),
        ):
            check_input(name, x, layer, self.hidden_dim)
        itself = query is key
        query, key, value = common_batch(query, key, value)
        mask = document_mask(mask)
        # In self-attention, a masked key is also a padded query.
        if itself and query.ndim == 3:
            (query,) = blank_unseen(
                mask, Grid(query.shape[0], 1, query.shape[1], key.shape[1]), query, finite=True
            )
        key, value = _blank(mask, query, key, value)
        return attention_with_weights(self.W_q(query), self.W_k(key), self.W_v(value), mask=mask)


class SelfAttention(nn.Module):
    """:class:`BasicAttention` of one sequence to itself (document 002).

    >>> import torch
    >>> from regard import causal
    >>> context, weights = SelfAttention(8)(torch.randn(2, 5, 8), mask=causal())
    >>> weights[0, 0, 1:].tolist()
    [0.0, 0.0, 0.0, 0.0]
    """

    def __init__(self, hidden_dim: int):
        super().__init__()
        self.attention = BasicAttention(hidden_dim)

    @knows_other_libraries
    def forward(self, x: Tensor, mask: Mask | Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the context ``(b,n,m)`` and the weights ``(b,n,n)``."""
        check_input("x", x, self.attention.W_q, self.attention.hidden_dim)
        return self.attention(x, x, x, mask)


class EncoderDecoderAttention(nn.Module):
    """Cross-attention from decoder states to encoder states, with projections without biases (document 004).

    >>> import torch
    >>> output, weights = EncoderDecoderAttention(embed_dim=4)(torch.rand(1, 5, 4), torch.rand(1, 3, 4))
    >>> output.shape, weights.shape
    (torch.Size([1, 3, 4]), torch.Size([1, 3, 5]))
    """

    def __init__(self, embed_dim: int):
        super().__init__()
        self.embed_dim = whole_number("embed_dim", embed_dim, least=1)
        self.W_Q = nn.Linear(embed_dim, embed_dim, bias=False)
        self.W_K = nn.Linear(embed_dim, embed_dim, bias=False)
        self.W_V = nn.Linear(embed_dim, embed_dim, bias=False)

    @knows_other_libraries
    def forward(
        self, encoder_output: Tensor, decoder_input: Tensor, *, mask: Mask | Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the output ``(b,q,m)`` and the weights ``(b,q,k)`` of q decoder tokens over k encoder tokens."""
        check_input("encoder_output", encoder_output, self.W_K, self.embed_dim, "(b,k,m)")
        check_input("decoder_input", decoder_input, self.W_Q, self.embed_dim, "(b,q,m)")
        memory, query = common_batch(encoder_output, decoder_input)
        memory, _ = _blank(mask, query, memory, memory)
        return attention_with_weights(self.W_Q(query), self.W_K(memory), self.W_V(memory), mask=mask)


def _blank(mask: Mask | Tensor | None, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    # A mask with heads may mask a key in some heads only.
    if query.ndim > 3:
        return key, value
    batch = query.shape[0] if query.ndim == 3 else 1
    key, value = blank_unseen(mask, Grid(batch, 1, query.shape[-2], key.shape[-2]), key, value)
    return key, value
