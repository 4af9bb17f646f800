"""Decoding step by step with a cache is the full causal pass."""

from __future__ import annotations

import pytest
import torch

from regard import ALiBi, MultiHeadAttention, Rotary, causal, padding, window
from regard.errors import ArgumentError, ShapeError
from regard.layers import KeyValueCache

B, H, Q, K = 2, 3, 5, 7
M = 12  # 3 heads of 4
CACHED = {
    "plain": {},
    "rotary": {"rotary": True},
    "rotary halves": {"rotary": Rotary(4, layout="llama")},
    "groups": {"kv_heads": 1},
    "groups, rotary": {"kv_heads": 1, "rotary": True},
}


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("options", CACHED.values(), ids=CACHED)
def test_step_by_step_is_the_full_causal_pass(options, need_weights):
    module, x = MultiHeadAttention(M, H, **options), torch.randn(B, K, M)
    whole, weights = module(x, mask=causal(), need_weights=need_weights)
    cache, start = KeyValueCache(), 0
    for count in (1, 3, 1, 2):  # single steps and whole pieces
        step, its_weights = module(
            x[:, start : start + count], mask=causal(), cache=cache, need_weights=need_weights
        )
        start += count
        assert cache.length == start
        torch.testing.assert_close(step, whole[:, start - count : start], rtol=0, atol=1e-6)
        if need_weights:
            torch.testing.assert_close(
                its_weights, weights[:, :, start - count : start, :start], rtol=0, atol=1e-6
            )


@pytest.mark.parametrize(
    "options", [{}, {"bias": ALiBi(H)}, {"mask": window(2, 0)}], ids=["none", "alibi", "window"]
)
def test_rules_about_positions_follow_the_cache(options):
    module, x = MultiHeadAttention(M, H), torch.randn(B, K, M)
    options = {"mask": causal(), **options}
    whole, _ = module(x, **options)
    cache = KeyValueCache()
    steps = [module(x[:, n : n + 1], cache=cache, **options)[0] for n in range(K)]
    torch.testing.assert_close(torch.cat(steps, dim=1), whole, rtol=0, atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"kv_heads": 1}], ids=["plain", "groups"])
def test_cross_attention_computes_its_keys_once(options):
    module = MultiHeadAttention(M, H, **options)
    x, memory = torch.randn(B, Q, M), torch.randn(B, K, M)
    whole, _ = module(x, memory, mask=padding([K, 4]))
    projected = []
    module.W_k.register_forward_hook(lambda *_: projected.append(1))
    cache = KeyValueCache(static=True)
    for n in range(Q):
        given = [memory] if n % 2 == 0 else []  # may be given again or left out
        step, _ = module(x[:, n : n + 1], *given, mask=padding([K, 4]), cache=cache)
        torch.testing.assert_close(step, whole[:, n : n + 1], rtol=0, atol=1e-6)
    assert len(projected) == 1
    assert cache.length == K


def test_a_key_that_is_not_visible_yet_is_cached():
    module, x = MultiHeadAttention(M, H), torch.randn(B, K, M)
    # Each sees what came before it, not itself.
    earlier = torch.ones(K, K, dtype=torch.bool).tril(-1)
    whole, _ = module(x, mask=earlier)
    growing, static = KeyValueCache(), KeyValueCache(static=True)
    for n in range(K):
        grown, _ = module(x[:, n : n + 1], mask=earlier[n : n + 1, : n + 1], cache=growing)
        fixed, _ = module(x[:, n : n + 1], x, mask=earlier[n : n + 1], cache=static)
        torch.testing.assert_close(grown, whole[:, n : n + 1], rtol=0, atol=1e-6)
        torch.testing.assert_close(fixed, whole[:, n : n + 1], rtol=0, atol=1e-6)


def test_a_cache_of_a_padded_batch_ignores_nan_in_the_padding():
    module, x = MultiHeadAttention(M, H), torch.randn(B, Q, M)
    keep = torch.ones(B, Q, dtype=torch.bool)
    keep[1, :2] = False  # padded on the left, as for generation
    whole, _ = module(x, mask=causal() & padding(keep))
    x[1, :2] = float("nan")
    cache = KeyValueCache()
    module(x[:, :3], mask=causal() & padding(keep[:, :3]), cache=cache)
    step, _ = module(x[:, 3:], mask=causal() & padding(keep), cache=cache)
    torch.testing.assert_close(step, whole[:, 3:], rtol=0, atol=1e-6)


def test_a_cache_is_reordered_reset_and_differentiable():
    module, x = MultiHeadAttention(M, H), torch.randn(B, Q, M, requires_grad=True)
    cache = KeyValueCache()
    module(x[:, :4], mask=causal(), cache=cache)
    cache.reorder(torch.tensor([1, 1, 0]))
    step, _ = module(x[[1, 1, 0], 4:], mask=causal(), cache=cache)
    whole, _ = module(x[[1, 1, 0]], mask=causal())
    torch.testing.assert_close(step, whole[:, 4:], rtol=0, atol=1e-6)
    (wanted,) = torch.autograd.grad(whole[:, 4:].square().sum(), x)
    (got,) = torch.autograd.grad(step.square().sum(), x)  # through the cached keys and values
    torch.testing.assert_close(got, wanted, rtol=0, atol=1e-5)
    cache.reset()
    assert cache.length == 0
    assert "empty" in repr(cache)


def test_a_layer_keeps_nothing_of_a_call():
    module = MultiHeadAttention(M, H, rotary=True)
    before = set(vars(module))
    module(torch.randn(B, Q, M), mask=causal(), cache=KeyValueCache())
    assert set(vars(module)) == before


def test_wrong_caches_are_named():
    module = MultiHeadAttention(M, H)
    cache = KeyValueCache()
    module(torch.randn(B, Q, M), cache=cache)
    with pytest.raises(ShapeError, match=r"cache: k of \(1,3,5,4\) does not continue \(2,3,5,4\): .*reset"):
        module(torch.randn(1, Q, M), cache=cache)
    static = KeyValueCache(static=True)
    module(torch.randn(B, 1, M), torch.randn(B, K, M), cache=static)
    with pytest.raises(ShapeError, match=r"key: the static cache holds 7 keys, but key has 5"):
        module(torch.randn(B, 1, M), torch.randn(B, Q, M), cache=static)
    with pytest.raises(ArgumentError, match="static cache does not work with rotary"):
        MultiHeadAttention(M, H, rotary=True)(torch.randn(B, Q, M), cache=KeyValueCache(static=True))
