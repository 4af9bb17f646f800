"""Tests that torch.compile has no graph breaks and gives the same numbers."""

import pytest
import torch

import regard
from regard import attention, causal, global_tokens, padding, scores, window

B, H, Q, K, D = 2, 3, 5, 7, 8
CALLS = {
    "plain": {},
    "dot": {"score": "dot"},
    "causal": {"mask": causal()},
    "padding": {"mask": padding(torch.tensor([7, 4]))},
    "both": {"mask": causal() & padding(torch.tensor([7, 4]))},
    "window": {"mask": window(2, 1) | global_tokens([1])},
    "tensor": {"mask": torch.rand(B, 1, Q, K) < 0.7},
    "float mask": {"mask": torch.zeros(Q, K).masked_fill(torch.rand(Q, K) < 0.3, float("-inf"))},
    "bias": {"bias": torch.randn(H, Q, K)[None]},
    "alibi": {"bias": regard.positions.ALiBi(H)},
    "blocks": {"mask": regard.blocks([[1, 0], [1, 1]], 4)},
    "bilinear": {"score": scores.Bilinear(D, D)},
    "additive": {"score": scores.Additive(D, D, 4)},
    "large additive": {"score": scores.Additive(D, D, 9000)},
}


def _check(backend: str, name: str, n: int = 1) -> None:
    torch._dynamo.reset()
    options = CALLS[name]
    q, k, v = (torch.randn(B, H, m, D, requires_grad=True) for m in (Q, K, K))
    compiled = torch.compile(lambda q, k, v: attention(q, k, v, **options), fullgraph=True, backend=backend)
    out, expected = compiled(q, k, v), attention(q, k, v, **options)
    assert torch.allclose(out, expected, atol=1e-5)
    grads = torch.autograd.grad(out.sum(), (q, k, v))
    for got, want in zip(grads, torch.autograd.grad(expected.sum(), (q, k, v)), strict=True):
        assert torch.allclose(got, want, atol=1e-5)


@pytest.mark.parametrize("name", CALLS)
def test_compiled_attention_has_no_graph_breaks(name):
    _check("aot_eager", name)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit")  # from within torch, while it compiles
@pytest.mark.parametrize("name", ["plain", "causal", "both", "window", "bias", "large additive"])
def test_compiled_numbers_are_the_same(name):
    _check("inductor", name)


def test_a_long_window_compiles_too():
    torch._dynamo.reset()
    q, k, v = (torch.randn(1, 1, 700, D) for _ in range(3))
    compiled = torch.compile(
        lambda q, k, v: attention(q, k, v, mask=window(9, 0)), fullgraph=True, backend="aot_eager"
    )
    assert torch.allclose(compiled(q, k, v), attention(q, k, v, mask=window(9, 0)), atol=1e-5)


def test_a_layer_compiles_whole():
    torch._dynamo.reset()
    layer = regard.MultiHeadAttention(12, 3)
    x = torch.randn(2, 5, 12)
    compiled = torch.compile(
        lambda x: layer(x, x, x, mask=causal(), need_weights=False)[0], fullgraph=True, backend="aot_eager"
    )
    assert torch.allclose(compiled(x), layer(x, x, x, mask=causal())[0], atol=1e-5)


@pytest.mark.parametrize("mask", [torch.ones(5, 5).tril(), torch.randn(5, 5), torch.zeros(5, 5)])
def test_a_layer_reads_float_masks_alike_when_compiled(mask):
    torch._dynamo.reset()
    layer = regard.MultiHeadAttention(12, 3)
    x = torch.randn(2, 5, 12)
    compiled = torch.compile(lambda x, mask: layer(x, x, x, mask=mask), fullgraph=True, backend="aot_eager")
    for got, want in zip(compiled(x, mask), layer(x, x, x, mask=mask), strict=True):
        assert torch.allclose(got, want, atol=1e-5)


def test_a_map_can_be_made_while_compiled():
    torch._dynamo.reset()
    q, k, v = (torch.randn(1, 2, 6, D) for _ in range(3))
    compiled = torch.compile(
        lambda q, k, v: attention(q, k, v, mask=causal(), return_map=True),
        fullgraph=True,
        backend="aot_eager",
    )
    out, seen = compiled(q, k, v)
    assert torch.allclose(seen.weights() @ v, out, atol=1e-5)
