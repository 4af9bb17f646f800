"""Tests of how the axis of heads and the axis of sequences are told apart."""

import pytest
import torch
from torch import nn

import regard
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


# ---- heads of a group as further queries of the same keys


def heads_by_tokens(x):  # (b,g,heads,n,d) -> (b,g,heads*n,d)
    return x.flatten(1, 2).reshape(*x.shape[:2], -1, x.shape[-1])


def heads_by_tokens_of_an_axis(x):
    return x.reshape(*x.shape[:2], -1, x.shape[-1])


def tokens_by_heads(x):  # (b,g,heads,n,d) -> (b,g,n*heads,d)
    return x.transpose(2, 3).reshape(*x.shape[:2], -1, x.shape[-1])


def heads_of_one_token(x):
    return x.squeeze(3)


def visible(n, keys, b, masked):  # (b,n,keys)
    keep = torch.ones(n, keys, dtype=torch.bool).tril(keys - n).expand(b, -1, -1)
    hidden = torch.arange(b)[:, None, None] if masked else 0
    return keep & (torch.arange(keys) >= hidden)


class GroupedAttention(nn.Module):
    """Grouped attention with a cache, which computes the heads of a group as further queries after the prompt."""

    def __init__(self, heads, groups, fold, fused, masked=False, capped=False):
        super().__init__()
        self.num_heads, self.groups, self.fold = heads, groups, fold
        self.fused, self.masked, self.capped = fused, masked, capped
        self.k = torch.empty(0)

    def forward(self, x):  # (b,n,h*d)
        q = x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        new = q[:, :: self.num_heads // self.groups]  # (b,g,n,d)
        self.k = k = torch.cat([self.k, new], dim=2) if len(self.k) else new
        keep, copies = visible(x.shape[1], k.shape[2], len(x), self.masked), self.num_heads // self.groups
        if x.shape[1] == k.shape[2]:  # the prompt
            k = k.repeat_interleave(copies, dim=1)
        else:
            keep = self.fold(keep[:, None, None].expand(-1, self.groups, copies, -1, -1))
            q = self.fold(q.unflatten(1, (self.groups, copies)))  # (b,g,rows,d)
        keep = keep if keep.ndim == 4 else keep[:, None]
        if self.fused:
            return nn.functional.scaled_dot_product_attention(q, k, k, attn_mask=keep)
        scores = (q @ k.mT * D**-0.5).masked_fill(~keep, float("-inf"))
        weights = torch.tanh(scores.softmax(-1)) if self.capped else scores.softmax(-1)
        return weights @ k


def grouped_weights(x, heads, groups, masked, capped):
    q = x.unflatten(-1, (heads, -1)).transpose(1, 2)
    k = q[:, :: heads // groups].repeat_interleave(heads // groups, dim=1)
    keep = visible(x.shape[1], x.shape[1], len(x), masked)[:, None]
    weights = (q @ k.mT * D**-0.5).masked_fill(~keep, float("-inf")).softmax(-1)
    return weights.tanh() if capped else weights


@FUSED
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(
    ("fold", "step"),
    [
        (heads_by_tokens, 1),
        (heads_by_tokens, 2),
        (heads_by_tokens_of_an_axis, 3),
        (tokens_by_heads, 2),
        (tokens_by_heads, 3),
        (heads_of_one_token, 1),
    ],
)
def test_heads_among_the_queries_of_a_step_get_their_axis_back(fold, step, groups, masked, fused):
    b, h = 2, 6
    x = torch.randn(
        b, 5 + 2 * step, h * D, generator=torch.Generator().manual_seed(step), dtype=torch.float64
    )
    model = GroupedAttention(h, groups, fold, fused, masked)
    with torch.no_grad(), regard.capture(model) as seen:
        for part in (x[:, :5], x[:, 5 : 5 + step], x[:, 5 + step :]):
            model(part)
    assert len(seen) == 1
    expected = grouped_weights(x, h, groups, masked, False)
    shown = ~expected.isnan()
    assert tuple(seen[0].map.shape) == tuple(expected.shape)
    assert torch.allclose(seen[0].map.weights()[shown], expected[shown], atol=1e-6)


def test_heads_among_the_queries_get_their_axis_back_where_weights_are_changed():
    x = torch.randn(2, 7, 6 * D, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    model = GroupedAttention(6, 2, heads_by_tokens, False, capped=True)
    with torch.no_grad(), regard.capture(model) as seen:
        for part in (x[:, :5], x[:, 5:]):
            model(part)
    assert_weights(seen[-1], grouped_weights(x, 6, 2, False, True)[:, :, seen[-1].map.shape[2] * -1 :])


class ForgetfulAttention(GroupedAttention):
    def forward(self, x):
        self.k = self.k * 1.5
        return super().forward(x)


def test_steps_that_cannot_be_joined_are_warned_of():
    x, model = torch.randn(2, 6, 6 * D), ForgetfulAttention(6, 6, heads_by_tokens, True)
    told = pytest.warns(
        UserWarning, match="not joined: in 'ForgetfulAttention' the keys of a step do not continue"
    )
    with told, torch.no_grad(), regard.capture(model) as seen:
        model(x[:, :5])
        model(x[:, 5:])
    assert len(seen) == 2
