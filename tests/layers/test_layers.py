"""Tests of all named layers, with masks, empty rows, padding, NaN, causality, dropout and errors."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import regard
from regard import (
    AdditiveAttention,
    ALiBi,
    BasicAttention,
    EncoderDecoderAttention,
    MultiHeadAttention,
    RelativeBias,
    Rotary,
    SelfAttention,
    SimpleAttention,
    attention,
    causal,
    padding,
)
from regard.errors import ArgumentError, DtypeError, MaskError, ShapeError
from regard.shapes import Grid

B, H, Q, K, D = 2, 3, 5, 7, 11
# The width of the layer with heads: 3 heads of 4.
M = 12


def cross(module: nn.Module, query, keys, mask=None):
    """Call any layer on ``query (b,q,m)`` and ``keys (b,k,m)``, and return the output and weights ``(b,h,q,k)``."""
    if isinstance(module, EncoderDecoderAttention):
        output, weights = module(keys, query, mask=mask)
    elif isinstance(module, AdditiveAttention):
        output, weights = module(query, keys, mask=mask)
    else:
        output, weights = module(query, keys, keys, mask=mask)
    return output, weights if weights.ndim == 4 else weights[:, None]


class WithoutWeights(MultiHeadAttention):
    """Return the output of the fused path, with the weights of the other path."""

    def forward(self, *args, **options):
        fast, nothing = super().forward(*args, **{**options, "need_weights": False})
        assert nothing is None
        return fast, super().forward(*args, **options)[1]


LAYERS = {
    "additive": lambda: AdditiveAttention(M),
    "simple": lambda: SimpleAttention(M),
    "basic": lambda: BasicAttention(M),
    "multi head": lambda: MultiHeadAttention(M, H),
    "fused": lambda: WithoutWeights(M, H),
    "groups": lambda: MultiHeadAttention(M, 6, kv_heads=2),
    "rotary": lambda: MultiHeadAttention(M, H, rotary=True),
    "encoder-decoder": lambda: EncoderDecoderAttention(M),
}
DOCUMENT_002 = {name: LAYERS[name] for name in ("basic", "multi head", "fused")}
every_layer = pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
every_layer_of_002 = pytest.mark.parametrize("make", DOCUMENT_002.values(), ids=DOCUMENT_002)


def zero_of(module: nn.Module) -> torch.Tensor:
    """Return the output of an empty row, which is zero before the projection W_o, if there is one."""
    return module.W_o.bias if isinstance(module, MultiHeadAttention) else torch.zeros(M)


# ---- masks -------------------------------------------------------------------------------------------


@every_layer
def test_every_shape_of_mask_means_what_it_says(make):
    module = make()
    query, keys = torch.randn(B, Q, M), torch.randn(B, K, M)
    heads = cross(module, query, keys)[1].shape[1]
    full = torch.rand(B, heads, Q, K) < 0.6
    full[..., 0] = True
    for shape in [(1, 1, Q, K), (B, 1, Q, K), (B, 1, 1, K), (B, heads, Q, K)]:
        keep = full[: shape[0], : shape[1], : shape[2]]
        given = keep[0, 0] if shape[0] == 1 else keep[:, 0] if shape[1] == 1 else keep
        assert cross(module, query, keys, given)[1].gt(0).equal(keep.expand(B, heads, Q, K)), shape
    assert cross(module, query, keys, given.int())[1].gt(0).equal(keep)


def test_a_batch_as_large_as_the_number_of_heads_is_not_confused():
    """Document 002 broadcasts (b,q,k) as (h,q,k) when b happens to be h."""
    module, x = MultiHeadAttention(M, H), torch.randn(H, Q, M)
    mask = torch.ones(H, Q, Q, dtype=torch.bool)
    mask[0, :, 1:] = False
    _, weights = module(x, x, x, mask)
    assert weights[0, :, :, 1:].eq(0).all()
    assert weights[1:].gt(0).all()


@every_layer
def test_additive_masks_hide_and_shift(make):
    module = make()
    query, keys = torch.randn(B, Q, M), torch.randn(B, K, M)
    keep = torch.ones(Q, K, dtype=torch.bool).tril(2)
    added = torch.zeros(Q, K).masked_fill(~keep, float("-inf"))
    for wanted, got in zip(cross(module, query, keys, keep), cross(module, query, keys, added), strict=True):
        torch.testing.assert_close(got, wanted, rtol=0, atol=1e-6)
    shifted = cross(module, query, keys, added + 0.5 * torch.arange(K))[1]
    wanted = cross(module, query, keys)[1] * torch.exp(0.5 * torch.arange(K)) * keep
    torch.testing.assert_close(shifted, wanted / wanted.sum(-1, keepdim=True), rtol=0, atol=1e-6)


@every_layer_of_002
def test_floats_of_zeros_and_ones_mean_keep_in_the_layers_of_document_002(make):
    module = make()
    query, keys = torch.randn(B, Q, M), torch.randn(B, K, M)
    keep = torch.ones(Q, K).tril(2)
    for dtype in (torch.float32, torch.float16, torch.float64):
        same = cross(module, query, keys, keep.to(dtype)), cross(module, query, keys, keep.bool())
        assert torch.equal(same[0][0], same[1][0])
    output, weights = cross(module, query, keys, torch.zeros(Q, K).int())  # mask == 0 is hidden: all of it
    assert weights.eq(0).all()
    torch.testing.assert_close(output, zero_of(module).expand(B, Q, M))


def test_self_attention_takes_floats_of_zeros_and_ones_as_keep_masks():
    module, x = SelfAttention(M), torch.randn(B, Q, M)
    assert torch.equal(module(x, torch.ones(Q, Q).tril())[1], module(x, causal())[1])


@pytest.mark.parametrize("name", ["additive", "simple", "encoder-decoder"])
def test_other_layers_refuse_floats_of_zeros_and_ones(name):
    with pytest.raises(MaskError, match=r"mask\.bool\(\)"):
        cross(LAYERS[name](), torch.randn(B, Q, M), torch.randn(B, K, M), torch.ones(Q, K).tril(2))


@every_layer
@pytest.mark.parametrize("n", [1, Q])
def test_a_float_mask_without_a_single_1_is_additive(make, n):
    """``generate_square_subsequent_mask(1)`` is one zero, and so is every first decoding step."""
    module, query, keys = make(), torch.randn(B, n, M), torch.randn(B, n, M)
    mask = nn.Transformer.generate_square_subsequent_mask(n)
    assert not (mask == 1).any()
    found, expected = cross(module, query, keys, mask), cross(module, query, keys, causal())
    for got, want in zip(found, expected, strict=True):
        assert torch.allclose(got, want, atol=1e-6)
    zeros = cross(module, query, keys, torch.zeros(n, n))
    for got, want in zip(zeros, cross(module, query, keys), strict=True):
        assert torch.allclose(got, want, atol=1e-6)


def test_self_attention_starts_decoding_with_a_mask_of_one_zero():
    module, x = SelfAttention(M), torch.randn(B, 1, M)
    context, weights = module(x, nn.Transformer.generate_square_subsequent_mask(1))
    assert torch.equal(weights, torch.ones(B, 1, 1))
    assert torch.allclose(context, module.attention.W_v(x), atol=1e-6)


def test_a_trained_float_mask_keeps_its_gradient():
    learned = torch.zeros(Q, K, requires_grad=True)
    _, weights = BasicAttention(M)(torch.randn(B, Q, M), *[torch.randn(B, K, M)] * 2, learned)
    weights[..., 0].sum().backward()
    assert weights.gt(0).all()
    assert learned.grad is not None
    assert learned.grad.abs().sum() > 0


# ---- empty rows, padding, garbage in it --------------------------------------------------------------


@every_layer
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_row_that_sees_nothing_is_zero_and_has_no_gradient(make, dtype):
    module = make().to(dtype)
    query = torch.randn(B, Q, M, dtype=dtype, requires_grad=True)
    keys = torch.randn(B, K, M, dtype=dtype, requires_grad=True)
    mask = torch.ones(B, Q, K, dtype=torch.bool)
    mask[1, 2] = False
    output, weights = cross(module, query, keys, mask)
    assert weights[1, :, 2].eq(0).all()
    torch.testing.assert_close(output[1, 2], zero_of(module).to(dtype))
    output[1, 2].float().sum().backward()
    assert query.grad.eq(0).all()
    assert keys.grad.eq(0).all()
    for name, parameter in module.named_parameters():
        assert name == "W_o.bias" or parameter.grad is None or parameter.grad.eq(0).all(), name


@every_layer
def test_a_sequence_of_length_zero_gives_no_nan_anywhere(make):
    module = make()
    query, keys = torch.randn(B, Q, M, requires_grad=True), torch.randn(B, K, M, requires_grad=True)
    output, weights = cross(module, query, keys, padding([K, 0]))
    assert weights[1].eq(0).all()
    (output.square().sum() + weights.square().sum()).backward()
    for tensor in (query, keys, *module.parameters()):
        assert tensor.grad is None or tensor.grad.isfinite().all()


@every_layer
def test_a_padded_batch_is_each_sequence_alone(make):
    module = make()
    lengths = [K, 4]
    query, keys = torch.randn(B, Q, M), torch.randn(B, K, M)
    output, weights = cross(module, query, keys, padding(lengths))
    for n, length in enumerate(lengths):
        if getattr(module, "rotary", None) is not None:
            # Fewer keys move the queries, which end with them; the next test is about those.
            continue
        alone, its_weights = cross(module, query[n : n + 1], keys[n : n + 1, :length])
        torch.testing.assert_close(output[n : n + 1], alone, rtol=0, atol=1e-6)
        torch.testing.assert_close(weights[n : n + 1, ..., :length], its_weights, rtol=0, atol=1e-6)
        assert weights[n, ..., length:].eq(0).all()


@pytest.mark.parametrize("rotary", [None, True])
def test_a_padded_batch_of_self_attention_is_each_sequence_alone(rotary):
    module, lengths = MultiHeadAttention(M, H, rotary=rotary), [Q, 3]
    x = torch.randn(B, Q, M)
    output, _ = module(x, mask=padding(lengths))
    for n, length in enumerate(lengths):
        alone, _ = module(x[n : n + 1, :length])
        torch.testing.assert_close(output[n : n + 1, :length], alone, rtol=0, atol=1e-6)


@every_layer
@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_nan_in_the_padding_reaches_neither_output_nor_gradients(make, poison):
    module = make()
    query, keys = torch.randn(B, Q, M), torch.randn(B, K, M)
    keys[1, 4:] = 0
    results = []
    for filling in (0.0, poison):
        asked, filled = query.clone().requires_grad_(), keys.clone()
        filled[1, 4:] = filling
        filled.requires_grad_()
        module.zero_grad()
        output, weights = cross(module, asked, filled, padding([K, 4]))
        (output.square().sum() + weights.square().sum()).backward()
        grads = [p.grad.clone() for p in module.parameters() if p.grad is not None]
        results.append([output, weights, asked.grad, filled.grad, *grads])
    for clean, poisoned in zip(*results, strict=True):
        torch.testing.assert_close(poisoned, clean, rtol=0, atol=0)


@pytest.mark.parametrize(
    "make",
    [lambda: SelfAttention(M), *(LAYERS[name] for name in ("multi head", "fused", "groups", "rotary"))],
    ids=["self", "multi head", "fused", "groups", "rotary"],
)
def test_causal_attention_never_looks_ahead(make):
    module, x = make(), torch.randn(1, Q, M)
    moved = torch.autograd.functional.jacobian(lambda x: module(x, mask=causal())[0], x)  # (1,q,m,1,k,m)
    reached = moved.abs().amax(dim=(0, 2, 3, 5))  # (q,k)
    assert reached.triu(1).eq(0).all()
    assert reached.tril().diagonal().gt(0).all()
    assert reached[-1].gt(0).all()


# ---- dropout -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("need_weights", [True, False])
def test_dropout_acts_in_training_only_and_never_shows(need_weights):
    module, x = MultiHeadAttention(M, H, dropout=0.5), torch.randn(B, Q, M)
    plain = MultiHeadAttention(M, H)
    plain.load_state_dict(module.state_dict())
    dropped, weights = module(x, need_weights=need_weights)
    assert not torch.equal(dropped, module(x, need_weights=need_weights)[0])
    if need_weights:
        torch.testing.assert_close(weights, plain(x)[1], rtol=0, atol=0)
    torch.testing.assert_close(module.eval()(x, need_weights=need_weights)[0], plain(x)[0], rtol=0, atol=1e-6)


# ---- shapes ------------------------------------------------------------------------------------------


def test_additive_many_queries_are_single_queries():
    module = AdditiveAttention(D)
    queries, keys = torch.randn(B, Q, D), torch.randn(B, K, D)
    context, weights = module(queries, keys, mask=padding([K, 4]))
    assert context.shape == (B, Q, D)
    assert weights.shape == (B, Q, K)
    for n in range(Q):
        alone = module(queries[:, n], keys, mask=padding([K, 4]))
        assert alone[0].shape == (B, D)
        assert alone[1].shape == (B, K)
        torch.testing.assert_close(context[:, n], alone[0], rtol=0, atol=1e-6)
        torch.testing.assert_close(weights[:, n], alone[1], rtol=0, atol=1e-6)


@every_layer
def test_weights_of_a_row_sum_to_one(make):
    _, weights = cross(make(), torch.randn(B, Q, M), torch.randn(B, K, M))
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))


def test_inputs_may_lack_the_batch_axis():
    module, x = MultiHeadAttention(M, H), torch.randn(Q, M)
    output, weights = module(x, mask=causal())
    assert output.shape == (Q, M)
    assert weights.shape == (H, Q, Q)
    torch.testing.assert_close(output, module(x[None], mask=causal())[0][0])
    assert BasicAttention(M)(x, x, x, padding([3]))[0].shape == (Q, M)


def test_key_defaults_to_query_and_value_to_key():
    module, x, y = MultiHeadAttention(M, H), torch.randn(B, Q, M), torch.randn(B, K, M)
    assert torch.equal(module(x)[0], module(x, x, x)[0])
    assert torch.equal(module(x, y)[0], module(x, y, y)[0])


def test_keys_and_values_may_have_other_widths():
    module = MultiHeadAttention(M, H, key_dim=D, value_dim=13, bias=False)
    output, _ = module(torch.randn(B, Q, M), torch.randn(B, K, D), torch.randn(B, K, 13))
    assert output.shape == (B, Q, M)
    assert not [name for name in module.state_dict() if name.endswith("bias")]


def test_groups_are_heads_repeated():
    grouped = MultiHeadAttention(M, 6, kv_heads=2)
    full = MultiHeadAttention(M, 6)
    state = grouped.state_dict()
    for name in ("W_k.weight", "W_k.bias", "W_v.weight", "W_v.bias"):
        heads = state[name].unflatten(0, (2, 2))  # (group, width of a head, ...)
        state[name] = heads.repeat_interleave(3, dim=0).flatten(0, 1)
    full.load_state_dict(state)
    x = torch.randn(B, Q, M)
    for wanted, got in zip(full(x, mask=causal()), grouped(x, mask=causal()), strict=True):
        torch.testing.assert_close(got, wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize("need_weights", [True, False])
def test_biases_reach_the_scores_and_learn(need_weights):
    module, x = MultiHeadAttention(M, H), torch.randn(B, Q, M)
    grid = Grid(B, H, Q, Q)
    for bias in (ALiBi(H), RelativeBias(H)):
        rule, _ = module(x, mask=causal(), bias=bias, need_weights=need_weights)
        dense, _ = module(x, mask=causal(), bias=bias(grid).detach(), need_weights=True)
        torch.testing.assert_close(rule, dense, rtol=0, atol=1e-6)
    module(x, bias=bias, need_weights=need_weights)[0].square().sum().backward()
    assert bias.table.weight.grad.abs().sum() > 0


# ---- errors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (
            lambda: MultiHeadAttention(M, 5),
            ArgumentError,
            r"num_heads: 5 heads do not divide hidden_dim = 12: .*1, 2, 3",
        ),
        (
            lambda: MultiHeadAttention(M, 6, kv_heads=4),
            ArgumentError,
            r"kv_heads: 4 does not divide the 6 heads",
        ),
        (lambda: MultiHeadAttention(M, 0), ArgumentError, r"num_heads: expected a whole number of 1"),
        (lambda: MultiHeadAttention(M, H, dropout=1.5), ArgumentError, r"dropout: expected a probability"),
        (
            lambda: MultiHeadAttention(M, 4, rotary=True),
            ArgumentError,
            r"head_dim: expected an even number, got 3",
        ),
        (
            lambda: MultiHeadAttention(M, H, rotary=Rotary(6)),
            ShapeError,
            r"rotary: rotates heads of width 6, .* is 4",
        ),
        (
            lambda: MultiHeadAttention(M, H, rotary="yes"),
            ArgumentError,
            r"rotary: expected True or a Rotary, got str",
        ),
        (lambda: AdditiveAttention(0), ArgumentError, "hidden_dim"),
        (lambda: SimpleAttention(-1), ArgumentError, "dim"),
        (lambda: EncoderDecoderAttention(2.0), ArgumentError, "embed_dim"),
    ],
)
def test_bad_settings_are_named(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_bad_inputs_are_named():
    x, wide = torch.randn(B, Q, M), torch.randn(B, Q, D)
    multi, basic = MultiHeadAttention(M, H), BasicAttention(M)
    for name, call in {
        "query": lambda: multi(wide),
        "key": lambda: multi(x, wide),
        "value": lambda: basic(x, x, wide),
        "x": lambda: SelfAttention(M)(wide),
        "keys": lambda: AdditiveAttention(M)(x, wide),
        "encoder_output": lambda: EncoderDecoderAttention(M)(wide, x),
        "decoder_input": lambda: EncoderDecoderAttention(M)(x, wide),
    }.items():
        with pytest.raises(ShapeError, match=rf"^{name}: expected .* m = 12, got \(2,5,11\)"):
            call()
    with pytest.raises(DtypeError, match=r"query: expected a torch\.Tensor, got list"):
        basic([1.0], x, x)
    with pytest.raises(ShapeError, match=r"query: expected \(b,m\) or \(b,q,m\) and keys \(b,k,m\)"):
        AdditiveAttention(M)(x[None], x)
    with pytest.raises(ShapeError, match=r"mask: cannot broadcast \(2,5,7\) to \(b,h,q,k\) = \(2,3,5,5\)"):
        multi(x, mask=torch.ones(B, Q, K, dtype=torch.bool))


def test_padding_that_is_nan_reaches_no_parameter_of_self_attention():
    x = torch.randn(2, 6, 8)
    x[0, 4:] = float("nan")
    for layer in (regard.SelfAttention(8), regard.MultiHeadAttention(8, 2)):
        out = layer(x, mask=padding([4, 6]))[0]
        loss = out[0, :4].sum() + out[1].sum()
        for grad in torch.autograd.grad(loss, list(layer.parameters()), allow_unused=True):
            assert grad is None or torch.isfinite(grad).all()
    clean = torch.randn(2, 6, 8)
    leaf = x.clone().requires_grad_()
    out = attention(leaf, leaf, leaf, mask=padding([4, 6]))
    assert torch.isfinite(torch.autograd.grad(out.sum(), leaf)[0]).all()
    # Padding that is finite still asks, as it does in torch.
    other = clean.clone()
    assert torch.allclose(
        attention(clean, clean, clean, mask=padding([4, 6])),
        attention(other, clean, clean, mask=padding([4, 6])),
    )


def test_layers_name_what_is_wrong_with_their_inputs():
    x = torch.randn(2, 5, 8)
    layer = regard.MultiHeadAttention(8, 2)
    for bad, message in {
        "long": (
            lambda: regard.BasicAttention(8)(x.long(), x, x),
            "query: expected a floating dtype, got torch.int64",
        ),
        "double": (lambda: layer(x.double(), x, x), "query: torch.float64, but the layer is torch.float32"),
        "meta": (
            lambda: regard.BasicAttention(8)(x, x.to("meta"), x),
            "key: on meta, but the layer is on cpu",
        ),
        "list": (lambda: layer([1], x, x), "query: expected a torch.Tensor, got list"),
        "four": (lambda: layer(x[None], x, x), r"query: expected \(b,q,m\) with m = 8, got \(1,2,5,8\)"),
        "length": (lambda: layer(x, x, x[:, :3], mask=causal()), "v: 3 values for 5 keys"),
    }.values():
        with pytest.raises(regard.RegardError, match=message):
            bad()
