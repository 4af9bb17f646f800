"""Styles whose weights are not the plain softmax of a product."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from zoo.styled import HEADS, HIDDEN, TOKENS, StyledAttention, past, plain, scores, style

# ---- weights that are changed between the softmax and the product with v


def renormalised(layer: StyledAttention, q: Tensor, k: Tensor) -> Tensor:
    weights = plain(layer, q, k).tril()  # (b,h,q,k)
    return weights / weights.sum(dim=-1, keepdim=True)


@style(renormalised)
def tril_and_renormalise(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return renormalised(layer, q, k) @ v


def mixed(layer: StyledAttention, q: Tensor, k: Tensor) -> Tensor:
    return torch.einsum("bhqk,hg->bgqk", plain(layer, q, k), layer.mix.softmax(dim=0))


@style(mixed)
def talking_heads_after(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return mixed(layer, q, k) @ v


def mixed_before(layer: StyledAttention, q: Tensor, k: Tensor) -> Tensor:
    return torch.einsum("bhqk,hg->bgqk", scores(layer, q, k), layer.mix).softmax(dim=-1)


@style(mixed_before)
def talking_heads_before(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return mixed_before(layer, q, k) @ v


def gated(layer: StyledAttention, q: Tensor, k: Tensor) -> Tensor:
    return plain(layer, q, k) * layer.sinks.sigmoid()[:, None, None]  # (b,h,q,k)


@style(gated)
def gate_on_the_weights(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return gated(layer, q, k) @ v


def difference(layer: StyledAttention, q: Tensor, k: Tensor) -> Tensor:
    return plain(layer, q, k) - 0.3 * plain(layer, q.roll(1, dims=1), k)  # (b,h,q,k)


@style(difference)
def differential(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return difference(layer, q, k) @ v


def two_softmaxes_a_head(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Compute differential attention with the softmaxes of all heads in one tensor."""
    twice = torch.stack([q, q.roll(1, dims=1)], dim=2).flatten(1, 2)  # (b,2*h,n,d)
    weights = plain(layer, twice, k.repeat_interleave(2, dim=1)).unflatten(1, (-1, 2))  # (b,h,2,q,k)
    return (weights[:, :, 0] - 0.3 * weights[:, :, 1]) @ v


@style(difference)
def differential_in_one_tensor(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return two_softmaxes_a_head(layer, q, k, v)


@style(difference, batch=HEADS)
def differential_with_as_many_sequences(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return two_softmaxes_a_head(layer, q, k, v)


# ---- sinks


def with_sink(layer: StyledAttention, q: Tensor, k: Tensor, sink: Tensor) -> Tensor:
    products = scores(layer, q, k)
    column = sink.to(q.dtype).view(1, -1, 1, 1).expand(*products.shape[:3], 1)
    return torch.cat([products, column], dim=-1).softmax(dim=-1)[..., :-1]


def learned(layer: StyledAttention, q: Tensor, k: Tensor) -> Tensor:
    return with_sink(layer, q, k, layer.sinks)


@style(learned, sink=True)
def learned_sinks(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return learned(layer, q, k) @ v


def off_by_one(layer: StyledAttention, q: Tensor, k: Tensor) -> Tensor:
    return with_sink(layer, q, k, torch.zeros(layer.num_heads))


@style(off_by_one, sink=True)
def softmax_off_by_one(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    padded = F.pad(scores(layer, q, k), (1, 0))  # (b,h,q,1+k)
    return padded.softmax(dim=-1)[..., 1:] @ v


# ---- softmax without torch's softmax


@style(plain)
def exp_and_sum(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    products = scores(layer, q, k)
    powers = (products - products.amax(dim=-1, keepdim=True)).exp()
    return powers / powers.sum(dim=-1, keepdim=True) @ v


@style(plain)
def exp_then_divided_output(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    powers = scores(layer, q, k).exp()
    return (powers @ v) / powers.sum(dim=-1, keepdim=True)


@style(plain)
def logsumexp(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    products = scores(layer, q, k)
    return (products - products.logsumexp(dim=-1, keepdim=True)).exp() @ v


@style(plain)
def online_softmax(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    largest = q.new_full((*q.shape[:3], 1), HIDDEN)
    total, out = torch.zeros_like(largest), torch.zeros_like(q)
    for start in range(0, TOKENS, 3):
        products = scores(layer, q, k[:, :, start : start + 3])
        higher = torch.maximum(largest, products.amax(dim=-1, keepdim=True))
        powers, kept = (products - higher).exp(), (largest - higher).exp()
        total = total * kept + powers.sum(dim=-1, keepdim=True)
        out = out * kept + powers @ v[:, :, start : start + 3]
        largest = higher
    return out / total


def by_sigmoid(layer: StyledAttention, q: Tensor, k: Tensor) -> Tensor:
    return scores(layer, q, k).sigmoid()  # (b,h,q,k)


@style(by_sigmoid)
def sigmoid(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return by_sigmoid(layer, q, k) @ v


def by_relu(layer: StyledAttention, q: Tensor, k: Tensor) -> Tensor:
    return scores(layer, q, k).relu() / TOKENS  # (b,h,q,k)


@style(by_relu)
def relu(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return by_relu(layer, q, k) @ v


def by_squared_relu(layer: StyledAttention, q: Tensor, k: Tensor) -> Tensor:
    positive = scores(layer, q, k).relu() ** 2  # (b,h,q,k)
    return F.normalize(positive, p=1, dim=-1)


@style(by_squared_relu)
def squared_relu(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return by_squared_relu(layer, q, k) @ v


def by_feature_maps(layer: StyledAttention, q: Tensor, k: Tensor) -> Tensor:
    return q.softmax(dim=-1) @ k.softmax(dim=-2).mT  # (b,h,q,k)


@style(by_feature_maps)
def linear_attention(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return q.softmax(dim=-1) @ (k.softmax(dim=-2).mT @ v)


# ---- scores that are more than a scaled product


def cosine_weights(layer: StyledAttention, q: Tensor, k: Tensor) -> Tensor:
    scale = layer.sinks.exp()[:, None, None] * 5
    return (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT * scale).softmax(dim=-1)


@style(cosine_weights)
def cosine_with_learned_scale(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return cosine_weights(layer, q, k) @ v


def capped(layer: StyledAttention, q: Tensor, k: Tensor) -> Tensor:
    products = 2 * (scores(layer, q, k) / 2).tanh()
    return products.masked_fill(~past(), HIDDEN).softmax(dim=-1)


@style(capped)
def soft_capped(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return capped(layer, q, k) @ v


def additive_weights(layer: StyledAttention, q: Tensor, k: Tensor) -> Tensor:
    return ((q[:, :, :, None] + k[:, :, None]).tanh() @ layer.additive[0]).softmax(dim=-1)


@style(additive_weights)
def additive(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return additive_weights(layer, q, k) @ v


def relative_weights(layer: StyledAttention, q: Tensor, k: Tensor) -> Tensor:
    place = torch.arange(TOKENS)
    table = layer.relative[place[None, :] - place[:, None] + TOKENS - 1]  # (q,k,d)
    return (scores(layer, q, k) + torch.einsum("bhqd,qkd->bhqk", q, table)).softmax(dim=-1)


@style(relative_weights)
def relative_positions(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return relative_weights(layer, q, k) @ v


def negative_distance(layer: StyledAttention, q: Tensor, k: Tensor) -> Tensor:
    return (-(torch.cdist(q, k) ** 2) * layer.scale).softmax(dim=-1)  # (b,h,q,k)


@style(negative_distance)
def distance(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return negative_distance(layer, q, k) @ v


def largest_three(layer: StyledAttention, q: Tensor, k: Tensor) -> Tensor:
    products = scores(layer, q, k)
    smallest = products.topk(3, dim=-1).values[..., -1:]
    return products.masked_fill(products < smallest, HIDDEN).softmax(dim=-1)


@style(largest_three)
def top_k(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return largest_three(layer, q, k) @ v


# ---- weights that meet the values in another way than by one product


def gathered(v: Tensor, keys: Tensor) -> Tensor:
    """Return the values ``(b,h,q,n,d)`` of keys ``(b,h,q,n)``."""
    values = v[:, :, None].expand(-1, -1, TOKENS, -1, -1)  # (b,h,q,k,d)
    return values.gather(3, keys[..., None].expand(*keys.shape, v.shape[-1]))


@style(largest_three)
def top_k_with_gathered_values(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    products, keys = scores(layer, q, k).topk(3, dim=-1)  # (b,h,q,3)
    return (products.softmax(dim=-1)[..., None, :] @ gathered(v, keys)).squeeze(-2)


def largest_three_weights(layer: StyledAttention, q: Tensor, k: Tensor) -> Tensor:
    weights = plain(layer, q, k)
    return weights.masked_fill(weights < weights.topk(3, dim=-1).values[..., -1:], 0.0)


@style(largest_three_weights)
def top_k_of_the_weights(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights, keys = plain(layer, q, k).topk(3, dim=-1)  # (b,h,q,3)
    return (weights[..., None] * gathered(v, keys)).sum(dim=-2)


@style(plain)
def elementwise_product(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (plain(layer, q, k).unsqueeze(-1) * v.unsqueeze(-3)).sum(dim=-2)


@style(gated)
def gated_elementwise_product(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (gated(layer, q, k).unsqueeze(-1) * v.unsqueeze(-3)).sum(dim=-2)


@style(gated)
def gated_head_by_head(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights, gates = plain(layer, q, k), layer.sinks.sigmoid()
    return torch.stack([(weights[:, n] * gates[n]) @ v[:, n] for n in range(layer.num_heads)], dim=1)


def without_the_first(layer: StyledAttention, q: Tensor, k: Tensor) -> Tensor:
    weights = plain(layer, q, k)[..., 1:]
    return F.pad(weights / weights.sum(dim=-1, keepdim=True), (1, 0))


@style(without_the_first)
def first_key_left_out(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights = plain(layer, q, k)[..., 1:]
    return weights / weights.sum(dim=-1, keepdim=True) @ v[:, :, 1:]


@style(gated)
def gated_behind_dropout(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.dropout(plain(layer, q, k), 0.4, training=True) * layer.sinks.sigmoid()[:, None, None] @ v


@style(mixed)
def mean_of_heads_mixed(layer: StyledAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights = plain(layer, q, k)
    mix = layer.mix.softmax(dim=0)  # (h,g)
    parts = [(weights * mix[:, n, None, None]).sum(dim=1) @ v[:, n] for n in range(layer.num_heads)]
    return torch.stack(parts, dim=1)
