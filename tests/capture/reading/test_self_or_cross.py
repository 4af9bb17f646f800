"""Tests of how self-attention and cross-attention are told apart."""

import torch
from torch import nn

from regard.capture.reading.kinds import is_cross
from support.capture_cases import B, H, M, Q, seen_of


class Wrapped(nn.Module):
    """A module whose attribute is called multihead_attn, as in torch's own example."""

    def __init__(self):
        super().__init__()
        self.multihead_attn = nn.MultiheadAttention(M, H, batch_first=True)

    def forward(self, x, y):
        return self.multihead_attn(x, y, y, need_weights=False)[0]


class CrossFormerAttention(nn.Module):
    def forward(self, x):
        return nn.functional.scaled_dot_product_attention(x, x, x)


class Conditioned(nn.Module):
    def forward(self, x, context):
        return nn.functional.scaled_dot_product_attention(x, x, x) * context.mean()


def test_self_or_cross_is_decided_by_the_arguments_before_the_name():
    x, y = torch.randn(B, Q, M), torch.randn(B, Q, M)
    assert seen_of(Wrapped(), x, x)[0][0].kind == "self"
    assert seen_of(Wrapped(), x, y)[0][0].kind == "cross"
    assert seen_of(CrossFormerAttention(), x)[0][0].kind == "self"
    assert seen_of(Conditioned(), x, x)[0][0].kind == "self"
    assert seen_of(Conditioned(), x, torch.randn(B, M))[0][0].kind == "self"  # a vector is no sequence
    attend = nn.Identity()
    assert is_cross(attend, "attn", {"context": x}) is None
    assert is_cross(attend, "attn", {"x": x, "context": y})
    assert is_cross(attend, "cross_attn", {"hidden_states": x})  # its keys come from an earlier call
    assert is_cross(attend, "self_attn", {"query": x + 1, "key": x}) is False  # positions on the queries only


def test_equal_query_and_key_are_self_attention():
    attend, norm, x = nn.MultiheadAttention(M, H, batch_first=True), nn.LayerNorm(M), torch.randn(B, Q, M)
    seen, _ = seen_of(attend, norm(x), norm(x), norm(x))
    assert seen[0].kind == "self"
    assert is_cross(attend, "layer", {"query": x, "key": x + 1})
