"""Multi-head attention."""

from __future__ import annotations

import functools
import numbers
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.biases import as_bias, dense_bias
from regard.core import attention, attention_with_weights, knows_other_libraries
from regard.errors import ArgumentError, DtypeError, ShapeError
from regard.layers.cache import KeyValueCache
from regard.layers.inputs import blank_unseen, check_input, document_mask
from regard.layers.torch_weights import copy_from_torch, copy_to_torch
from regard.masks import Mask, split_additive
from regard.positions import Rotary
from regard.shapes import Grid, whole_number

__all__ = ["MultiHeadAttention"]


class MultiHeadAttention(nn.Module):
    """Multi-head attention, with ``hidden_dim / num_heads`` columns in each head (document 002).

    - ``kv_heads`` is the number of heads of keys and values, each shared by a group of query heads (GQA, or MQA if 1).
    - ``rotary`` is True or a :class:`regard.Rotary`, which rotates queries and keys by their positions.
    - ``dropout`` is the dropout of the weights in training mode. The returned weights do not include it.
    - ``bias=False`` makes projections without biases. ``output_bias`` is that of the last projection, by default
      ``bias``.
    - ``key_dim`` and ``value_dim`` are the widths of ``key`` and ``value``, by default ``hidden_dim``.
    - ``add_bias_kv`` appends a learned key and value, and ``add_zero_attn`` after it a key and value of zeros. As in
      torch's layer no mask hides them, and the returned weights have a last column for each.

    ``mask`` may also be a tensor of zeros and ones in any dtype, as in document 002, where 0 is masked. A float mask
    without any 1 is additive, so a mask of zeros masks nothing. A query whose keys are all masked has a context of
    zeros, so its output is the bias of ``W_o``.

    >>> attend = MultiHeadAttention(hidden_dim=12, num_heads=3)
    >>> x = torch.randn(2, 5, 12)
    >>> output, weights = attend(x, x, x)
    >>> output.shape, weights.shape
    (torch.Size([2, 5, 12]), torch.Size([2, 3, 5, 5]))
    """

    def __init__(
        self,
        hidden_dim: int,
        num_heads: int,
        *,
        kv_heads: int | None = None,
        rotary: Rotary | bool | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        output_bias: bool | None = None,
        key_dim: int | None = None,
        value_dim: int | None = None,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
    ):
        super().__init__()
        self.hidden_dim = whole_number("hidden_dim", hidden_dim, least=1)
        self.num_heads = whole_number("num_heads", num_heads, least=1)
        self.kv_heads = whole_number("kv_heads", num_heads if kv_heads is None else kv_heads, least=1)
        self.key_dim = whole_number("key_dim", hidden_dim if key_dim is None else key_dim, least=1)
        self.value_dim = whole_number("value_dim", hidden_dim if value_dim is None else value_dim, least=1)
        if hidden_dim % num_heads:
            fix = f"it takes one of {_divisors(hidden_dim)} heads"
            raise ArgumentError(
                "num_heads", f"{num_heads} heads do not divide hidden_dim = {hidden_dim}", fix
            )
        if num_heads % self.kv_heads:
            fix = f"use one of {_divisors(num_heads)}"
            raise ArgumentError(
                "kv_heads", f"{kv_heads} does not divide the {num_heads} heads of the queries", fix
            )
        if not isinstance(dropout, numbers.Real) or not 0 <= dropout < 1:
            raise ArgumentError("dropout", f"expected a probability from 0 to below 1, got {dropout}")
        self.head_dim = hidden_dim // num_heads
        self.dropout = float(dropout)
        self.rotary = _as_rotary(rotary, self.head_dim)
        self.W_q = nn.Linear(hidden_dim, hidden_dim, bias=bias)
        self.W_k = nn.Linear(self.key_dim, self.kv_heads * self.head_dim, bias=bias)
        self.W_v = nn.Linear(self.value_dim, self.kv_heads * self.head_dim, bias=bias)
        self.W_o = nn.Linear(hidden_dim, hidden_dim, bias=bias if output_bias is None else output_bias)
        self.add_zero_attn = add_zero_attn
        self.bias_k = self.bias_v = None
        if add_bias_kv:
            size = self.kv_heads * self.head_dim
            self.bias_k, self.bias_v = (nn.Parameter(torch.empty(1, 1, size)) for _ in range(2))
            nn.init.xavier_normal_(self.bias_k)
            nn.init.xavier_normal_(self.bias_v)

    @knows_other_libraries
    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        mask: Mask | Tensor | None = None,
        *,
        bias: Any = None,
        need_weights: bool = True,
        cache: KeyValueCache | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output ``(b,q,m)`` and the weights ``(b,h,q,k)``.

        Inputs ``(q,m)`` without a batch axis give ``(q,m)`` and ``(h,q,k)``.

        ``key`` defaults to ``query``, and ``value`` to ``key``. ``bias`` is added to the scores. It is a tensor, a
        :class:`regard.ALiBi` or a :class:`regard.RelativeBias`. With ``need_weights=False`` the weights are None and
        the fused kernel is used.

        ``cache`` holds the keys of earlier calls. The mask then covers all keys, earlier ones first, and ``causal()``
        needs no offset. With ``KeyValueCache(static=True)``, for cross-attention, the keys are computed once, and later
        calls may leave out ``key`` and ``value``.
        """
        check_input("query", query, self.W_q, self.hidden_dim, "(b,q,m)", (2, 3))
        if not isinstance(cache, KeyValueCache | None):
            raise DtypeError("cache", f"expected a KeyValueCache, got {type(cache).__name__}")
        if query.ndim == 2:
            return self._one_sequence(
                query, key, value, mask, bias=bias, need_weights=need_weights, cache=cache
            )
        mask = document_mask(mask)
        k, v = self._keys_and_values(query, key, value, mask, cache)
        # In self-attention, a masked key is also a padded query.
        if cache is None and (key is None or key is query):
            (query,) = blank_unseen(mask, self._grid(query, query), query, finite=True)
        q = self._turn(self.split_heads(self.W_q(query)), k.shape[-2] - query.shape[-2])
        if self.bias_k is not None or self.add_zero_attn:
            k, v, mask, bias = self._with_extra_keys(q, k, v, mask, bias)
        dropout = self.dropout if self.training else 0.0
        weights = None
        if need_weights:
            context, weights = attention_with_weights(q, k, v, mask=mask, bias=bias, dropout=dropout)
        else:
            context = attention(q, k, v, mask=mask, bias=bias, dropout=dropout)
        return self.W_o(context.transpose(1, 2).flatten(2)), weights  # (b,h,q,d) -> (b,q,m)

    def _with_extra_keys(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask | Tensor | None, bias: Any
    ) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """Append the learned key and the key of zeros, which no mask hides and no bias changes.

        Returns the longer keys and values, the boolean mask and the sum of all biases. The last two may be None.
        """
        grid = Grid(max(q.shape[0], k.shape[0]), self.num_heads, q.shape[-2], k.shape[-2])
        hides, added = split_additive(mask)
        parts = (as_bias(added, grid, q), as_bias(bias, grid, q))
        biases = [dense_bias(part, grid, q.device) for part in parts if part is not None]
        learned = () if self.bias_k is None or self.bias_v is None else (self.bias_k, self.bias_v)
        extra = bool(learned) + self.add_zero_attn
        if learned:
            k, v = (
                torch.cat([x, self.split_heads(extra_row).expand(x.shape[0], -1, -1, -1)], dim=-2)
                for x, extra_row in zip((k, v), learned, strict=True)
            )
        if self.add_zero_attn:
            k, v = F.pad(k, (0, 0, 0, 1)), F.pad(v, (0, 0, 0, 1))
        keep = None
        if hides is not None:
            keep = hides.dense(grid, q.device)
            keep = F.pad(keep.expand(*keep.shape[:3], grid.k), (0, extra), value=True)
        total = None
        if biases:
            total = functools.reduce(torch.add, biases)  # (b or 1,h or 1,q or 1,k or 1)
            total = F.pad(total.expand(*total.shape[:3], grid.k), (0, extra))
        return k, v, keep, total

    def split_heads(self, x: Tensor) -> Tensor:
        """Reshape ``(b,n,h*d)`` to ``(b,h,n,d)``."""
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)

    def _keys_and_values(
        self,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        mask: Mask | Tensor | None,
        cache: KeyValueCache | None,
    ) -> tuple[Tensor, Tensor]:
        """Return the projected keys and values ``(b,kv_heads,k,d)``, after those of the cache.

        New keys and values are appended to the cache. A filled static cache is returned as it is.
        """
        if cache is not None and cache.static and self.rotary is not None:
            # The query of each step would be at the last key position, unlike in a full pass.
            raise ArgumentError(
                "cache", "a static cache does not work with rotary", "use rotary=None across sequences"
            )
        if cache is not None and cache.filled:
            return _held(cache, key)
        key = query if key is None else key
        value = key if value is None else value
        check_input("key", key, self.W_k, self.key_dim, "(b,k,m)", (3,))
        check_input("value", value, self.W_v, self.value_dim, "(b,k,m)", (3,))
        past = 0 if cache is None else cache.length
        # With a cache, a later query may attend to a key that is masked now.
        if cache is None:
            key, value = blank_unseen(mask, self._grid(query, key), key, value)
        k = self._turn(self.split_heads(self.W_k(key)), past)
        v = self.split_heads(self.W_v(value))
        return (k, v) if cache is None else cache.append(k, v)

    def _grid(self, query: Tensor, key: Tensor) -> Grid:
        return Grid(max(query.shape[0], key.shape[0]), self.num_heads, query.shape[1], key.shape[1])

    def _turn(self, x: Tensor, first: int) -> Tensor:
        """Rotate ``x (b,h,n,d)``, whose rows are at positions from ``first`` on, if the layer has rotary positions."""
        if self.rotary is None:
            return x
        return self.rotary.rotate(x, torch.arange(first, first + x.shape[-2], device=x.device))

    def _one_sequence(
        self,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        mask: Mask | Tensor | None,
        **options: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Run the layer on inputs ``(q,m)`` without a batch axis, and remove that axis from the results."""
        lifted = [None if x is None else x[None] for x in (query, key, value)]
        output, weights = self.forward(*lifted, mask, **options)  # type: ignore[arg-type]  # query is not None
        return output[0], None if weights is None else weights[0]

    @classmethod
    def from_torch(cls, module: nn.MultiheadAttention) -> MultiHeadAttention:
        """Make a layer with the weights of an ``nn.MultiheadAttention``.

        The inputs of the new layer are ``(b,n,m)``. Convert a ``key_padding_mask``, in which True means masked, with
        ``Mask.from_key_padding_mask(...)``.

        >>> ours = MultiHeadAttention.from_torch(nn.MultiheadAttention(12, 3, batch_first=True))
        >>> ours.num_heads
        3
        """
        return copy_from_torch(cls, module)

    def to_torch(self, *, batch_first: bool = True) -> nn.MultiheadAttention:
        """Make an ``nn.MultiheadAttention`` with the weights of this layer.

        Raises ArgumentError for a layer with rotary positions or with fewer ``kv_heads`` than heads, and DtypeError if
        a projection is no ``nn.Linear``.
        """
        return copy_to_torch(self, batch_first=batch_first)

    def extra_repr(self) -> str:
        """Return the settings as text, for ``print(model)``."""
        groups = "" if self.kv_heads == self.num_heads else f", kv_heads={self.kv_heads}"
        return f"hidden_dim={self.hidden_dim}, num_heads={self.num_heads}{groups}, dropout={self.dropout:g}"


def _held(cache: KeyValueCache, key: Tensor | None) -> tuple[Tensor, Tensor]:
    assert cache.keys is not None  # for the type checker: it is filled
    assert cache.values is not None
    if key is not None and key.shape[-2] != cache.length:
        problem = f"the static cache holds {cache.length} keys, but key has {key.shape[-2]}"
        raise ShapeError(
            "key", problem, "use cache.reset() for another source, or KeyValueCache() to add keys"
        )
    return cache.keys, cache.values


def _as_rotary(rotary: Rotary | bool | None, head_dim: int) -> Rotary | None:
    if rotary is None or rotary is False:
        return None
    if rotary is True:
        return Rotary(head_dim)
    if not isinstance(rotary, Rotary):
        raise ArgumentError("rotary", f"expected True or a Rotary, got {type(rotary).__name__}")
    if rotary.head_dim != head_dim:
        raise ShapeError(
            "rotary", f"rotates heads of width {rotary.head_dim}, but hidden_dim / num_heads is {head_dim}"
        )
    return rotary


def _divisors(n: int) -> str:
    # No layer has more heads, and a mistyped width may be large.
    return ", ".join(str(d) for d in range(1, min(n, 1024) + 1) if n % d == 0)
