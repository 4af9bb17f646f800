"""Styles that differ in the layout and the mask of the softmax."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from zoo.styled import HEADS, HIDDEN, StyledAttention, alibi, causal, past, plain, scores, style

# ---- layouts


@style(plain)
def matmul(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.transpose(-2, -1) * layer.scale).softmax(dim=-1) @ v


@style(plain)
def einsum_heads_second(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights = (torch.einsum("bhqd,bhkd->bhqk", q, k) * layer.scale).softmax(dim=-1)
    return torch.einsum("bhqk,bhkd->bhqd", weights, v)


@style(plain)
def einsum_heads_third(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # (b,n,h,d)
    weights = (torch.einsum("bqhd,bkhd->bhqk", q, k) * layer.scale).softmax(dim=-1)
    return torch.einsum("bhqk,bkhd->bqhd", weights, v).transpose(1, 2)


@style(plain)
def folded_last(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    b, h = q.shape[:2]
    q, k, v = (x.flatten(0, 1) for x in (q, k, v))  # (b*h,n,d)
    weights = torch.bmm(q * layer.scale, k.transpose(1, 2)).softmax(dim=-1)
    return torch.bmm(weights, v).unflatten(0, (b, h))


@style(plain)
def folded_first(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    b, h = q.shape[:2]
    q, k, v = (x.transpose(0, 1).flatten(0, 1) for x in (q, k, v))  # (h*b,n,d)
    weights = torch.bmm(q * layer.scale, k.transpose(1, 2)).softmax(dim=-1)
    return torch.bmm(weights, v).unflatten(0, (h, b)).transpose(0, 1)


@style(plain)
def folded_by_cat(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    rows = [x.transpose(1, 2).flatten(2) for x in (q, k, v)]  # (b,n,h*d)
    q, k, v = (torch.cat(x.chunk(layer.num_heads, dim=-1)) for x in rows)  # (h*b,n,d)
    weights = (q @ k.mT * layer.scale).softmax(dim=-1)
    return torch.stack((weights @ v).chunk(layer.num_heads), dim=1)


@style(plain)
def heads_on_axis_2(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # (b,n,h,d)
    weights = (torch.einsum("bshd,bthd->bsht", q, k) * layer.scale).softmax(dim=-1)
    return torch.einsum("bsht,bthd->bshd", weights, v).transpose(1, 2)


@style(plain)
def heads_last(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # (b,n,h,d)
    weights = (torch.einsum("bihd,bjhd->bijh", q, k) * layer.scale).softmax(dim=2)
    return torch.einsum("bijh,bjhd->bihd", weights, v).transpose(1, 2)


@style(plain)
def keys_before_queries(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights = (k @ q.mT * layer.scale).softmax(dim=-2)  # (b,h,k,q)
    return weights.mT @ v


@style(plain)
def batch_second(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (x.permute(2, 0, 1, 3) for x in (q, k, v))  # (n,b,h,d)
    weights = (torch.einsum("ibhd,jbhd->bhij", q, k) * layer.scale).softmax(dim=-1)
    return torch.einsum("bhij,jbhd->bhid", weights, v)


def biased(layer: StyledAttention, q: Tensor, k: Tensor) -> Tensor:
    return (scores(layer, q, k) + alibi()).softmax(dim=-1)  # (b,h,q,k)


@style(biased)
def baddbmm(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    b, h = q.shape[:2]
    bias = alibi().expand(b, -1, -1, -1).flatten(0, 1)  # (b*h,q,k)
    products = torch.baddbmm(bias, q.flatten(0, 1), k.flatten(0, 1).mT, beta=1.0, alpha=layer.scale)
    return products.softmax(dim=-1).unflatten(0, (b, h)) @ v


@style(plain)
def log_softmax(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q.mul(layer.scale).matmul(k.mT)).log_softmax(dim=-1).exp() @ v


def one_head_of_keys(layer: StyledAttention, q: Tensor, k: Tensor) -> Tensor:
    return plain(layer, q, k[:, :1])  # (b,h,q,k)


@style(one_head_of_keys)
def multi_query(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    products = torch.einsum("bhqd,bkd->bhqk", q, k[:, 0]) * layer.scale
    return torch.einsum("bhqk,bkd->bhqd", products.softmax(dim=-1), v[:, 0])


@style(one_head_of_keys)
def grouped_on_five_axes(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q = q[:, None]  # (b,groups,h,q,d)
    weights = torch.einsum("bgrqd,bgkd->bgrqk", q * layer.scale, k[:, :1]).softmax(dim=-1)
    return torch.einsum("bgrqk,bgkd->bgrqd", weights, v[:, :1])[:, 0]


@style(plain)
def upcast(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q.float() @ k.float().mT * layer.scale
    return scores.softmax(dim=-1, dtype=torch.float32).to(v.dtype) @ v


@style(plain)
def softmax_by_module(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.nn.Softmax(dim=-1)(torch.matmul(q * layer.scale, k.mT)) @ v


@style(plain)
def dropped(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.dropout((q @ k.mT * layer.scale).softmax(dim=-1), 0.3, training=True) @ v


@style(plain)
def windows_on_five_axes(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (x[:, :, None] for x in (q, k, v))  # (b,h,1,n,d): one window
    return F.scaled_dot_product_attention(q, k, v)[:, :, 0]


# ---- masks


@style(causal)
def causal_by_where(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    products = scores(layer, q, k)
    return torch.where(past(), products, torch.finfo(q.dtype).min).softmax(dim=-1) @ v


@style(causal)
def causal_by_fill_in_place(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return scores(layer, q, k).masked_fill_(~past(), HIDDEN).softmax(dim=-1) @ v


@style(causal)
def causal_by_addition_in_place(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    products = scores(layer, q, k)
    products += torch.full(products.shape[-2:], HIDDEN, dtype=q.dtype).triu(1)
    return products.softmax(dim=-1) @ v


@style(causal)
def causal_by_product(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    keep = past().to(q.dtype)
    return (scores(layer, q, k) * keep - 1e9 * (1 - keep)).softmax(dim=-1) @ v


def padded(layer: StyledAttention, q: Tensor, k: Tensor) -> Tensor:
    return scores(layer, q, k).masked_fill(~layer.keep, HIDDEN).softmax(dim=-1)  # (b,h,q,k)


@style(padded)
def padded_by_addition(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (scores(layer, q, k) + (~layer.keep).to(q.dtype) * -1e9).softmax(dim=-1) @ v


def alibi_weights(layer: StyledAttention, q: Tensor, k: Tensor) -> Tensor:
    hidden = ~(past() & layer.keep)  # (b,1,q,k)
    products = scores(layer, q, k) + alibi()
    return products.masked_fill(hidden, torch.finfo(q.dtype).min).softmax(dim=-1)


@style(alibi_weights, kind="causal")
def alibi_left_padded(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return alibi_weights(layer, q, k) @ v


def alibi_of_tokens(layer: StyledAttention) -> Tensor:
    """Return the index of each token, not counting padding, times the slope of the head, ``(b,h,1,k)``."""
    place = layer.keep.long().cumsum(dim=-1).double()  # (b,1,1,k)
    slopes = 0.5 ** torch.arange(1, HEADS + 1).double()[:, None, None]  # (h,1,1)
    return (place * slopes).masked_fill(~layer.keep, HIDDEN)


def alibi_of_tokens_weights(layer: StyledAttention, q: Tensor, k: Tensor) -> Tensor:
    return (scores(layer, q, k) + alibi_of_tokens(layer)).softmax(dim=-1)  # (b,h,q,k)


@style(alibi_of_tokens_weights)
def alibi_of_tokens_fused(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=alibi_of_tokens(layer), scale=layer.scale)


def plain_then_causal(layer: StyledAttention, q: Tensor, k: Tensor) -> list[Tensor]:
    return [plain(layer, q, k), causal(layer, q, k)]


@style(plain_then_causal)
def mask_changed_through_data(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    added = torch.zeros(q.shape[2], k.shape[2], dtype=q.dtype)
    first = F.scaled_dot_product_attention(q, k, v, attn_mask=added)
    added.data.copy_(torch.full_like(added, HIDDEN).triu(1))
    return first + F.scaled_dot_product_attention(q, k, v, attn_mask=added)
