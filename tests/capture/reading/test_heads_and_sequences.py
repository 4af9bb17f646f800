"""Tests of how the axis of heads and the axis of sequences are told apart."""

import pytest
import torch
from torch import nn

from support.capture_cases import seen_of

D, N = 4, 5  # the width of a head, and tokens


class OwnAttention(nn.Module):
    """Attention on heads ``(b,n,h,d)`` that a function permutes, with the number of heads that it names."""

    def __init__(self, heads, permute, fused, named=None):
        super().__init__()
        self.heads, self.permute, self.fused = heads, permute, fused
        self.num_heads = heads if named is None else named

    def forward(self, x):  # (b,n,h*d)
        q = self.permute(x.unflatten(-1, (self.heads, -1)))
        if self.fused:
            return nn.functional.scaled_dot_product_attention(q, q, q)
        return (q @ q.mT * D**-0.5).softmax(-1) @ q


class EinsumAttention(nn.Module):
    def __init__(self, heads, equation):
        super().__init__()
        self.num_heads, self.equation = heads, equation

    def forward(self, x):
        q = x.unflatten(-1, (self.num_heads, -1))  # (b,n,h,d)
        weights = torch.einsum(self.equation, q, q).softmax(-1)
        return weights @ weights.new_ones(N, D)


def inputs(b, h):
    x = torch.randn(b, N, h * D, generator=torch.Generator().manual_seed(b * h), dtype=torch.float64)
    q = x.unflatten(-1, (h, -1)).transpose(1, 2)  # (b,h,n,d)
    return x, (q @ q.mT * D**-0.5).softmax(-1)


def assert_weights(record, expected):
    assert tuple(record.map.shape) == tuple(expected.shape)
    assert torch.allclose(record.map.weights(), expected, atol=1e-6)


ORDERS = {
    "heads first": lambda x: x.permute(2, 0, 1, 3),
    "heads first, a copy": lambda x: x.permute(2, 0, 1, 3).contiguous(),
    "sequences first": lambda x: x.transpose(1, 2),
    "sequences first, a copy": lambda x: x.transpose(1, 2).contiguous(),
}
FUSED = pytest.mark.parametrize("fused", [False, True], ids=["by hand", "sdpa"])


@FUSED
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("b", "h"), [(4, 2), (3, 5), (2, 2), (3, 3), (1, 3)])
def test_heads_are_found_before_and_after_the_sequences(b, h, order, fused):
    x, expected = inputs(b, h)
    seen, _ = seen_of(OwnAttention(h, ORDERS[order], fused), x)
    assert_weights(seen[0], expected)


@FUSED
@pytest.mark.parametrize("order", ["sequences first", "sequences first, a copy"])
@pytest.mark.parametrize(("b", "h", "named"), [(2, 4, 2), (4, 3, 4), (2, 1, 2)])
def test_heads_are_found_if_the_module_names_the_number_of_sequences(b, h, named, order, fused):
    x, expected = inputs(b, h)
    seen, _ = seen_of(OwnAttention(h, ORDERS[order], fused, named), x)
    assert_weights(seen[0], expected)


@pytest.mark.parametrize("equation", ["bqhd,bkhd->hbqk", "bqhd,bkhd->bhqk", "b q h d, b k h d -> b q h k"])
def test_an_einsum_shows_which_axis_is_heads_if_there_are_as_many_sequences(equation):
    x, _ = inputs(3, 3)
    q = x.unflatten(-1, (3, -1)).transpose(1, 2)
    seen, _ = seen_of(EinsumAttention(3, equation), x)
    assert_weights(seen[0], (q @ q.mT).softmax(-1))


@FUSED
def test_axes_that_cannot_be_told_apart_are_warned_of(fused):
    """The module names two heads, and both axes have the batch size of an argument."""
    x, expected = inputs(2, 3)

    class PairAttention(OwnAttention):
        def forward(self, x, memory):  # type: ignore[override]
            return super().forward(x) + memory.sum()

    model = PairAttention(3, ORDERS["sequences first, a copy"], fused, named=2)
    with pytest.warns(UserWarning, match="are a guess"):
        seen, _ = seen_of(model, x, torch.zeros(3, N, x.shape[-1]))
    assert_weights(seen[0], expected)
