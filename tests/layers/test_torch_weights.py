"""Tests of the exchange of weights with nn.MultiheadAttention, with equal outputs or an error."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard import ALiBi, Mask, MultiHeadAttention, causal
from regard.errors import ArgumentError, DtypeError
from regard.layers import KeyValueCache

B, H, Q, K, M = 2, 3, 5, 7, 12
CASES = {
    "plain": {},
    "no bias": {"bias": False},
    "widths": {"kdim": 11, "vdim": 13},
    "widths, no bias": {"kdim": 11, "bias": False},
    "batch second": {"batch_first": False},
    "dropout": {"dropout": 0.3},
    "learned key": {"add_bias_kv": True},
    "zero key": {"add_zero_attn": True},
    "both keys": {"add_bias_kv": True, "add_zero_attn": True, "kdim": 11, "vdim": 13},
}


def torch_module(**options) -> nn.MultiheadAttention:
    module = nn.MultiheadAttention(M, H, **{"batch_first": True, **options})
    if module.in_proj_bias is not None:
        # Torch starts them at zero, where a swap would not show.
        nn.init.normal_(module.in_proj_bias)
        nn.init.normal_(module.out_proj.bias)
    return module.eval()


def run(module: nn.MultiheadAttention, query, key, value, **options):
    """Run a module on inputs (b,n,m), also if it is not batch_first, and return the weights of all heads."""
    if not module.batch_first:
        query, key, value = (x.transpose(0, 1) for x in (query, key, value))
    output, weights = module(query, key, value, average_attn_weights=False, **options)
    return (output if module.batch_first else output.transpose(0, 1)), weights


def inputs(module: nn.MultiheadAttention) -> tuple[torch.Tensor, ...]:
    return torch.randn(B, Q, M), torch.randn(B, K, module.kdim), torch.randn(B, K, module.vdim)


def check_same(wanted, got) -> None:
    for one, other in zip(wanted, got, strict=True):
        torch.testing.assert_close(other, one, rtol=0, atol=1e-6)


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_from_torch_gives_the_same_numbers(options):
    module = torch_module(**options)
    x = inputs(module)
    check_same(run(module, *x), MultiHeadAttention.from_torch(module)(*x))


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_weights_survive_from_torch_and_to_torch(options, batch_first):
    module = torch_module(**options)
    again = MultiHeadAttention.from_torch(module).to_torch(batch_first=batch_first)
    assert again.batch_first is batch_first
    assert again.dropout == module.dropout
    assert {k: v.shape for k, v in again.state_dict().items()} == {
        k: v.shape for k, v in module.state_dict().items()
    }
    for name, tensor in module.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor)
    x = inputs(module)
    check_same(run(module, *x), run(again, *x))


@pytest.mark.parametrize("options", [{}, {"add_bias_kv": True}, {"add_bias_kv": True, "add_zero_attn": True}])
def test_masks_are_translated(options):
    module = torch_module(**options)
    ours = MultiHeadAttention.from_torch(module)
    x = torch.randn(B, Q, M)
    padded = torch.tensor([[False] * Q, [False] * 3 + [True] * 2])
    forbidden = torch.ones(Q, Q, dtype=torch.bool).triu(1)
    wanted = run(module, x, x, x, key_padding_mask=padded, attn_mask=forbidden)
    check_same(wanted, ours(x, mask=causal() & Mask.from_key_padding_mask(padded)))


@pytest.mark.parametrize("mode", [True, False])
def test_copies_keep_mode_and_dtype_and_are_copies(mode):
    module = torch_module().double().train(mode)
    ours = MultiHeadAttention.from_torch(module)
    assert ours.training is mode
    assert ours.W_o.weight.dtype == torch.float64
    again = ours.to_torch()
    assert again.training is mode
    assert again.in_proj_weight.dtype == torch.float64
    assert again.in_proj_weight.is_leaf
    assert again.in_proj_weight.requires_grad
    with torch.no_grad():
        module.in_proj_weight.zero_()
    assert ours.W_q.weight.abs().sum() > 0
    assert again.in_proj_weight.abs().sum() > 0


def test_dropout_is_carried_over_and_acts():
    ours = MultiHeadAttention.from_torch(torch_module(dropout=0.5).train())
    x = torch.randn(B, Q, M)
    assert ours.dropout == 0.5
    assert not torch.equal(ours(x)[0], ours(x)[0])


def test_unsupported_options_are_refused_by_name():
    with pytest.raises(ArgumentError, match="rotary"):
        MultiHeadAttention(M, H, rotary=True).to_torch()
    with pytest.raises(ArgumentError, match="kv_heads"):
        MultiHeadAttention(M, H, kv_heads=1).to_torch()
    with pytest.raises(DtypeError, match=r"module: expected nn\.MultiheadAttention, got Linear"):
        MultiHeadAttention.from_torch(nn.Linear(2, 2))
    wrapped = MultiHeadAttention(M, H)
    wrapped.W_k = nn.Sequential(wrapped.W_k)
    with pytest.raises(DtypeError, match=r"W_k: is a Sequential, .*merge it into an nn.Linear first"):
        wrapped.to_torch()


@pytest.mark.parametrize("need_weights", [True, False])
def test_extra_keys_stand_behind_a_bias_and_a_cache(need_weights):
    """A bias and a float mask do not apply to the extra keys, and steps with a cache equal the whole pass."""
    ours = MultiHeadAttention(M, H, kv_heads=1, add_bias_kv=True, add_zero_attn=True).eval()
    x = torch.randn(B, Q, M)
    whole, weights = ours(x, mask=causal(), bias=ALiBi(H), need_weights=need_weights)
    if weights is not None:
        assert weights.shape == (B, H, Q, Q + 2)
        torch.testing.assert_close(weights.sum(-1), torch.ones(B, H, Q))
        assert weights[..., -2:].gt(0).all()
        assert weights[:, :, 0, 1:Q].eq(0).all()
    cache = KeyValueCache()
    steps = [
        ours(x[:, i : i + 1], mask=causal(), bias=ALiBi(H), cache=cache, need_weights=need_weights)[0]
        for i in range(Q)
    ]
    torch.testing.assert_close(torch.cat(steps, dim=1), whole)
    added = torch.zeros(Q, Q).masked_fill(torch.ones(Q, Q).triu(1) > 0, float("-inf"))
    torch.testing.assert_close(ours(x, mask=added, bias=ALiBi(H))[0], whole)
