"""Tests that inputs mean the same as in torch, with autocast dtypes, batches of one and causal biases."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention.bias import causal_lower_right, causal_upper_left

import regard
from regard import attention, causal, global_tokens, positions, scores, window
from regard.errors import ShapeError


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_has_one_rule_for_dtypes(dtype):
    """As in torch's attention, everything but float64 is in autocast's dtype, also outputs and weights."""
    x, linear = torch.randn(2, 3, 5, 8), nn.Linear(8, 8)
    calls = {
        "attention": lambda x: attention(x, x, x),
        "map": lambda x: attention(x, x, x, mask=causal(), return_map=True)[0],
        "weights": lambda x: regard.attention_weights(x, x),
        "output beside weights": lambda x: regard.attention_with_weights(x, x, x)[0],
        "weights beside output": lambda x: regard.attention_with_weights(x, x, x)[1],
        "additive": lambda x: attention(x, x, x, score=scores.Tanh(torch.ones(8))),
        "block-sparse": lambda x: attention(x, x, x, mask=window(1, 0)),
    }
    for name, call in calls.items():
        with torch.autocast("cpu", dtype):
            assert F.scaled_dot_product_attention(x, x, x).dtype == call(x).dtype == dtype, name
            if name != "additive":
                wide = x.double()
                assert (
                    F.scaled_dot_product_attention(wide, wide, wide).dtype
                    == call(wide).dtype
                    == torch.float64
                )
        assert call(x).dtype == torch.float32, name
    with torch.autocast(
        "cpu", dtype
    ):  # a callable with layers of its own runs under the autocast of the call
        out = attention(x, x, x, score=lambda q, k: linear(q) @ k.mT)
    assert out.dtype == dtype
    assert torch.allclose(out.float(), attention(x, x, x, score=lambda q, k: linear(q) @ k.mT), atol=0.05)


@pytest.mark.parametrize("sizes", [(3, 1, 1), (1, 3, 3), (3, 1, 3), (3, 3, 1), (1, 1, 3)])
@pytest.mark.parametrize("n", [5, 600])
def test_a_batch_of_one_is_repeated_as_in_torch(sizes, n):
    q, k, v = (torch.randn(b, 2, n, 8, requires_grad=True) for b in sizes)
    expected = F.scaled_dot_product_attention(*(x.expand(3, -1, -1, -1) for x in (q, k, v)))
    out = attention(q, k, v)
    assert torch.allclose(out, expected, atol=1e-6)
    for x, got, want in zip(
        (q, k, v), torch.autograd.grad(out.sin().sum(), (q, k, v)),
        torch.autograd.grad(expected.sin().sum(), (q, k, v)), strict=True,
    ):  # fmt: skip
        assert got.shape == x.shape
        assert torch.allclose(got, want, atol=1e-5)
    mask = regard.padding([n, n - 1, 2]) & window(3, 0)
    whole = [x.expand(3, -1, -1, -1) for x in (q, k, v)]
    out, seen = attention(q, k, v, mask=mask, return_map=True)
    assert torch.allclose(out, attention(*whole, mask=mask), atol=1e-5)
    assert seen.shape == (3, 2, n, n)


def test_layers_repeat_a_batch_of_one():
    query, memory = torch.randn(3, 5, 8), torch.randn(1, 7, 8)
    mask = regard.padding([7, 4, 2])
    for layer in (regard.MultiHeadAttention(8, 2), regard.BasicAttention(8)):
        for got, want in zip(
            layer(query, memory, memory, mask),
            layer(query, *[memory.expand(3, -1, -1)] * 2, mask),
            strict=True,
        ):
            assert torch.allclose(got, want, atol=1e-6)
    layer = regard.AdditiveAttention(8)
    assert layer(query, memory, mask=mask)[0].shape == (3, 5, 8)


def test_unequal_batches_are_still_an_error():
    with pytest.raises(ShapeError, match=r"k: batch of 2, but q has 3: q is \(3,5,8\), k is \(2,7,8\)"):
        attention(torch.randn(3, 5, 8), *[torch.randn(2, 7, 8)] * 2)
    with pytest.raises(ShapeError, match="v: batch of 2, but k has 3"):
        attention(torch.randn(1, 5, 8), torch.randn(3, 7, 8), torch.randn(2, 7, 8))


@pytest.mark.parametrize("make", [causal_upper_left, causal_lower_right])
@pytest.mark.parametrize("sizes", [(5, 5), (5, 7), (1, 7), (600, 600)])
def test_the_causal_biases_of_torch_are_masks(make, sizes):
    """A CausalBias is a tensor whose numbers and shape mean nothing."""
    q, k = torch.randn(2, 3, sizes[0], 8), torch.randn(2, 3, sizes[1], 8)
    mask = make(*sizes)
    expected = F.scaled_dot_product_attention(q, k, k, attn_mask=mask)
    for given in (mask, mask & regard.padding([sizes[1]] * 2), regard.padding([sizes[1]] * 2) & mask):
        out, seen = attention(q, k, k, mask=given, return_map=True)
        assert torch.allclose(out, expected, atol=1e-5)
    assert torch.allclose(seen.weights() @ k, expected, atol=1e-5)
    keep = torch.ones(sizes, dtype=torch.bool).tril(0 if make is causal_upper_left else sizes[1] - sizes[0])
    layer = regard.MultiHeadAttention(8, 2)
    for got, want in zip(layer(q[0], k[0], mask=mask), layer(q[0], k[0], mask=keep), strict=True):
        assert torch.allclose(got, want, atol=1e-6)


def test_a_causal_bias_of_other_sizes_is_refused():
    x = torch.randn(2, 5, 8)
    with pytest.raises(ShapeError, match=r"a CausalBias made for \(q,k\) = \(4,5\), but here it is \(5,5\)"):
        attention(x, x, x, mask=causal_upper_left(4, 5))


def test_training_works_after_a_call_in_inference_mode():
    bias = positions.RelativeBias(2)
    q = torch.randn(1, 2, 600, 16, requires_grad=True)
    for mask in (window(8, 0), window(9, 0) & causal(), window(1, 0) & ~global_tokens([3])):
        for extra in (None, bias):
            with torch.inference_mode():
                attention(q, q, q, mask=mask, bias=extra)
            attention(q, q, q, mask=mask, bias=extra).sum().backward()
            assert torch.isfinite(q.grad).all()
    layer = regard.BasicAttention(8)
    x, y = torch.randn(1, 3, 8), torch.randn(1, 9, 8)
    with torch.inference_mode():
        layer(x, y, y, mask=window(2, 0) & causal())
    layer(x, y, y, mask=window(2, 0) & causal())[0].sum().backward()


def test_autocast_casts_once_and_everywhere():
    x = torch.randn(2, 5, 8)
    exact = attention(x, x, x)
    calls = {
        "plain": lambda: attention(x, x, x),
        "map": lambda: attention(x, x, x, return_map=True)[0],
        "dropout path": lambda: attention(x, x, x, bias=torch.zeros(5, 5, requires_grad=True)),
        "mixed": lambda: attention(x, x.bfloat16(), x),
    }
    with torch.autocast("cpu", torch.bfloat16):
        for name, call in calls.items():
            out = call()
            assert out.dtype == torch.bfloat16, name
            assert torch.allclose(out.float(), exact, atol=0.05), name
        for layer in (regard.AdditiveAttention(8), regard.BasicAttention(8), regard.MultiHeadAttention(8, 2)):
            out = layer(x, x)[0] if isinstance(layer, regard.AdditiveAttention) else layer(x, x, x)[0]
            out.float().sum().backward()
        for score in (scores.Bilinear(8, 8), scores.Additive(8, 8, 4), lambda q, k: q @ k.mT):
            attention(x, x, x, score=score, return_map=True)[1].weights()
