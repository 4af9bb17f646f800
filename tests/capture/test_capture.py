"""Tests of capture() with plain PyTorch modules and with the layers of Regard."""

import contextlib
import random
import subprocess
import sys
import threading
import types

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules import module as nn_module
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

import regard
from regard import core
from regard.errors import ArgumentError, CaptureError, DtypeError, UnknownNameError
from support.capture_cases import ADDED, HEADS, B, Checkpointed, D, H, K, M, Plain, Q, encoder, qkv, seen_of


class ByHand(nn.Module):
    def __init__(self, form="plain"):
        super().__init__()
        self.form = form
        self.soft = nn.Softmax(dim=-1)

    def forward(self, q, k, v, keep=None):
        if self.form == "einsum":
            scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / D**0.5
        else:
            scores = q @ k.transpose(-2, -1)
            scores = scores.mul_(D**-0.5) if self.form == "in place" else scores * D**-0.5
        if keep is not None:
            value = float("-inf") if self.form != "finite" else -1e9
            scores = (
                torch.where(keep, scores, value) if self.form == "where" else scores.masked_fill(~keep, value)
            )
        if self.form == "capped":
            scores = torch.tanh(scores) * 2
        weights = self.soft(scores) if self.form == "module" else torch.softmax(scores, dim=-1)
        return weights @ v, weights


class Mixer(ByHand):
    pass


class HandAttention(ByHand):
    pass


def weights_of(q, k, scale=None, added=None):
    """The formula, on its own."""
    scores = q.double() @ k.double().transpose(-2, -1) * (D**-0.5 if scale is None else scale)
    scores = scores if added is None else scores + added
    return torch.softmax(scores, dim=-1).nan_to_num().float()


def hidden(keep):
    return torch.zeros(keep.shape, dtype=torch.float64).masked_fill(~keep, float("-inf"))


# ---- torch's function, however it is called


UPPER = torch.ones(Q, K, dtype=torch.bool).tril()
CASES = {
    "plain": ({}, None),
    "scale": ({"scale": 0.7}, None),
    "boolean": ({"attn_mask": HEADS}, hidden(HEADS)),
    "padding": ({"attn_mask": HEADS[:, :1, :1]}, hidden(HEADS[:, :1, :1])),
    "added": ({"attn_mask": ADDED}, ADDED.double()),
    "causal, upper left": ({"is_causal": True}, hidden(UPPER)),
    "two axes": ({"attn_mask": UPPER}, hidden(UPPER)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("grad", [False, True])
def test_maps_of_scaled_dot_product_attention_are_its_weights(case, grad):
    options, added = CASES[case]
    q, k, v = (x.requires_grad_(grad) for x in qkv())
    plain = Plain()(q, k, v, **options)
    seen, out = seen_of(Plain(), q, k, v, **options)
    assert torch.equal(out, plain)
    assert seen[0].map.shape == (B, H, Q, K)
    expected = weights_of(q.detach(), k.detach(), options.get("scale"), added)
    assert (seen[0].map.weights() - expected).abs().max() < 1e-6
    assert out.requires_grad == grad


def test_a_mask_and_is_causal_apply_together():
    q, k, v = qkv(keys=Q)
    keep = HEADS[..., :Q]
    options = {"attn_mask": keep, "is_causal": True}
    try:
        plain = Plain()(q, k, v, **options)
    except RuntimeError:
        pytest.skip("this torch refuses both")
    seen, out = seen_of(Plain(), q, k, v, **options)
    both = hidden(keep & torch.ones(Q, Q, dtype=torch.bool).tril())
    assert torch.equal(out, plain)
    assert torch.allclose(seen[0].map.weights() @ v, out, atol=1e-6)
    assert torch.allclose(seen[0].map.weights(), weights_of(q, k, added=both), atol=1e-6)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_the_map_is_without_dropout(dropout):
    q, k, v = qkv()
    torch.manual_seed(5)
    plain = Plain()(q, k, v, dropout_p=dropout)
    torch.manual_seed(5)
    seen, out = seen_of(Plain(), q, k, v, dropout_p=dropout)
    assert torch.equal(out, plain)
    assert torch.allclose(seen[0].map.weights(), weights_of(q, k), atol=1e-6)


def test_values_may_have_another_width_and_any_strides():
    q, k, _ = qkv()
    v = torch.randn(B, H, K, 4)
    seen, _ = seen_of(Plain(), q.transpose(1, 2).contiguous().transpose(1, 2), k, v)
    assert torch.allclose(seen[0].map.weights(), weights_of(q, k), atol=1e-6)


@pytest.mark.parametrize("shape", [(Q, D), (B, Q, D), (B, 2, H, Q, D)])
def test_inputs_with_two_three_and_five_axes_are_recorded_on_four_axes(shape):
    torch.manual_seed(0)
    q = torch.randn(shape)
    seen, out = seen_of(Plain(), q, q, q)
    found = seen[0].map
    lead = {2: (1, 1), 3: (B, 1), 5: (B * 2, H)}[len(shape)]
    assert found.shape == (*lead, Q, Q)
    assert torch.allclose((found.weights() @ q.reshape(*lead, Q, D)).reshape(shape), out, atol=1e-6)


@pytest.mark.parametrize("how", ["flag", "repeated"])
def test_grouped_heads_are_kept_once(how):
    torch.manual_seed(0)
    q, k = torch.randn(B, 6, Q, D), torch.randn(B, 2, K, D)
    many = k.repeat_interleave(3, dim=1)
    options = {"enable_gqa": True} if how == "flag" else {}
    given = k if how == "flag" else many
    seen, _ = seen_of(Plain(), q, given, given, **options)
    assert torch.allclose(seen[0].map.weights(), weights_of(q, many), atol=1e-6)
    assert seen[0].map._source.ready.k.shape == k.shape


@pytest.mark.parametrize("queries", [0, 1])
@pytest.mark.parametrize("model", [Plain(), HandAttention()])
def test_inputs_without_queries_or_keys_give_an_empty_map(model, queries):
    q, k = torch.randn(B, H, queries, D), torch.randn(B, H, 1 - queries, D)
    seen, _ = seen_of(model, q, k, k)
    assert seen[0].map.shape == (B, H, queries, 1 - queries)


def test_rows_without_keys_are_zero():
    q, k, v = qkv()
    keep = torch.ones(B, 1, Q, K, dtype=torch.bool)
    keep[1, :, 2] = False
    seen, _ = seen_of(Plain(), q, k, v, attn_mask=keep)
    weights = seen[0].map.weights()
    assert (weights[1, :, 2] == 0).all()
    assert torch.allclose(weights[0].sum(-1), torch.ones(()))


def test_rows_hidden_by_a_finite_number_are_uniform():
    q, k, v = qkv()
    mask = torch.zeros(B, 1, Q, K)
    mask[1, :, 2] = torch.finfo(torch.float32).min
    mask[0, :, :, -2:] = torch.finfo(torch.float32).min
    seen, out = seen_of(Plain(), q, k, v, attn_mask=mask)
    weights = seen[0].map.weights()
    assert torch.allclose(weights[1, :, 2], torch.full((H, K), 1 / K))
    assert torch.allclose(weights @ v, out, atol=1e-6)


@pytest.mark.parametrize("number", [-1e9, 1e9, -3000.0])
def test_large_numbers_on_a_whole_row_leave_its_weights_right(number):
    q, k, v = qkv()
    mask = torch.zeros(Q, K)
    mask[2] = number
    seen, out = seen_of(Plain(), q, k, v, attn_mask=mask)
    found = seen[0].map
    expected = torch.softmax(q @ k.transpose(-2, -1) * D**-0.5 + mask, dim=-1)
    assert (found.weights() - expected).abs().max() < 1e-6
    assert (found[:, :, 1:4, 2:5] - expected[:, :, 1:4, 2:5]).abs().max() < 1e-6  # a part of the row
    assert (found.topk(K).weights - expected.sort(descending=True).values).abs().max() < 1e-6
    assert torch.allclose((found.weights() @ v)[:, :, 2], out[:, :, 2], atol=1e-3)


def test_large_scores_leave_the_weights_right():
    q, k, v = qkv()
    # Scores of about 2,600, of which float32 keeps three digits behind the point.
    q, k = q + 28.0, k + 28.0
    seen, _ = seen_of(Plain(), q, k, v)
    expected = torch.softmax(torch.matmul(q, k.transpose(2, 3)) * D**-0.5, dim=-1)
    assert (seen[0].map.weights() - expected).abs().max() < 1e-6
    assert (seen[0].map[:, :, :, 2:5].sum(-1) - expected[..., 2:5].sum(-1)).abs().max() < 2e-3


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_maps_of_half_precision_inputs_are_close_to_the_weights(dtype):
    q, k, v = qkv(dtype)
    seen, _ = seen_of(Plain(), q, k, v)
    assert torch.allclose(seen[0].map.weights().sum(-1), torch.ones(()), atol=2e-3)
    assert torch.allclose(seen[0].map.weights(), weights_of(q, k), atol=2e-3)


def test_under_autocast_the_map_is_that_of_the_cast_inputs():
    q, k, v = qkv()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        seen, out = seen_of(Plain(), q, k, v)
    assert out.dtype == torch.bfloat16
    assert seen[0].map._source.ready.q.dtype == torch.bfloat16
    assert torch.allclose(seen[0].map.weights().sum(-1), torch.ones(()), atol=2e-3)


def test_capture_works_in_inference_mode():
    with torch.inference_mode():
        q, k, v = qkv()
        seen, _ = seen_of(Plain(), q, k, v, attn_mask=HEADS)
    assert torch.allclose(seen[0].map.weights(), weights_of(q, k, added=hidden(HEADS)), atol=1e-6)
    assert not seen[0].map._source.ready.q.is_inference()


def test_inputs_changed_later_do_not_change_the_map():
    q, k, v = qkv()
    mask, flags = ADDED.clone(), HEADS.clone()
    for given in (mask, flags):
        seen, _ = seen_of(Plain(), q, k, v, attn_mask=given)
        before = seen[0].map.weights().clone()
        q.add_(1.0)
        k.zero_()
        given.zero_()
        assert torch.equal(seen[0].map.weights(), before)
        q, k, v = qkv()


def test_a_mask_that_changes_between_the_layers_is_read_again():
    class Changing(nn.Module):
        def forward(self, q, k, v, mask):
            F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            mask[..., 1:] = False
            return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    seen, _ = seen_of(Changing(), *qkv(), HEADS.clone())
    assert (seen[0].map.weights()[..., 1:] > 0).any()
    assert (seen[1].map.weights()[..., 1:] == 0).all()


# ---- nn.MultiheadAttention and nn.Transformer


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("cross", [True, False])
def test_maps_of_multihead_attention_are_its_weights(need_weights, training, cross):
    torch.manual_seed(0)
    model = nn.MultiheadAttention(M, H, dropout=0.3, batch_first=True).train(training)
    x, y = torch.randn(B, Q, M), torch.randn(B, K, M)
    keys = y if cross else x
    padding = torch.zeros(B, keys.shape[1], dtype=torch.bool)
    padding[1, -2:] = True
    call = {"key_padding_mask": padding, "need_weights": need_weights, "average_attn_weights": False}
    seen, _ = seen_of(model, x, keys, keys, **call)
    expected = model.eval()(x, keys, keys, **call | {"need_weights": True})[1]
    assert (seen[0].map.weights() - expected).abs().max() < 1e-6
    assert seen[0].kind == ("cross" if cross else "self")
    assert isinstance(seen[0].map._source, regard.maps.Recomputed)


@pytest.mark.parametrize("need_weights", [True, False])
def test_extra_keys_of_a_causal_multihead_attention_are_recorded(need_weights):
    torch.manual_seed(0)
    model = nn.MultiheadAttention(M, H, add_bias_kv=True, add_zero_attn=True, batch_first=True)
    x = torch.randn(B, Q, M)
    mask = nn.Transformer.generate_square_subsequent_mask(Q)
    call = {"attn_mask": mask, "average_attn_weights": False}
    seen, _ = seen_of(model, x, x, x, need_weights=need_weights, **call)
    expected = model(x, x, x, need_weights=True, **call)[1]
    assert seen[0].map.shape == (B, H, Q, Q + 2)
    assert torch.allclose(seen[0].map.weights(), expected, atol=1e-6)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_the_encoder_fast_path_is_seen_and_back_afterwards():
    model, x = encoder(2), torch.randn(B, Q, 2 * D)
    padding = torch.zeros(B, Q, dtype=torch.bool)
    padding[1, -2:] = True
    with torch.no_grad():
        seen, out = seen_of(model, x, src_key_padding_mask=padding)
        plain = model(x, src_key_padding_mask=padding)
        proof = seen.verify(x, src_key_padding_mask=padding)
    assert torch.backends.mha.get_fastpath_enabled()
    assert (out - plain)[~padding].abs().max() < 2e-6
    assert proof.maps == 2
    assert proof.row_error < 1e-6
    assert [record.name for record in seen] == ["layers.0.self_attn", "layers.1.self_attn"]
    assert (seen[1].map.weights()[1, ..., -2:] == 0).all()


def test_records_of_a_transformer_have_their_kinds():
    torch.manual_seed(0)
    model = nn.Transformer(2 * D, 2, 2, 2, 13, batch_first=True).eval()
    mask = nn.Transformer.generate_square_subsequent_mask(Q)
    seen, _ = seen_of(
        model, torch.randn(B, K, 2 * D), torch.randn(B, Q, 2 * D), tgt_mask=mask, tgt_is_causal=True
    )
    assert [(r.kind, r.layer, r.map.shape[2:]) for r in seen] == [
        ("self", 0, (K, K)),
        ("self", 1, (K, K)),
        ("causal", 0, (Q, Q)),
        ("cross", 0, (Q, K)),
        ("causal", 1, (Q, Q)),
        ("cross", 1, (Q, K)),
    ]
    assert [r.name for r in seen.by(kind="cross", layer=1)] == ["decoder.layers.1.multihead_attn"]


def test_cross_attention_between_equal_lengths_is_still_cross():
    model = nn.TransformerDecoderLayer(2 * D, 2, 13, batch_first=True).eval()
    x, y = torch.randn(B, Q, 2 * D), torch.randn(B, Q, 2 * D)
    assert [record.kind for record in seen_of(model, x, y)[0]] == ["self", "cross"]
    attend = nn.MultiheadAttention(M, H, batch_first=True)
    one, other = torch.randn(B, Q, M), torch.randn(B, Q, M)
    assert seen_of(attend, one, one, one)[0][0].kind == "self"
    assert seen_of(attend, one, other, other)[0][0].kind == "cross"
    memory = regard.EncoderDecoderAttention(D)
    assert seen_of(memory, torch.randn(B, Q, D), torch.randn(B, Q, D))[0][0].kind == "cross"


# ---- attention by hand


@pytest.mark.parametrize("form", ["plain", "einsum", "in place", "where", "finite", "module", "capped"])
@pytest.mark.parametrize("masked", [True, False])
def test_handwritten_attention_is_found_in_a_module_named_attention(form, masked):
    model = HandAttention(form)
    seen, (_, weights) = seen_of(model, *qkv(), HEADS if masked else None)
    assert (seen[0].map.weights() - weights).abs().max() < 1e-6
    traced = isinstance(seen[0].map._source, regard.maps.Recomputed)
    assert traced == (form != "capped")


def test_handwritten_attention_is_found_in_modules_given_by_the_user():
    model = nn.ModuleDict({"mix": Mixer()})
    q, k, v = qkv()
    hint = r"softmax in 'mix' \(2,3,5,7\).*modules=\['mix'\]"
    with pytest.raises(CaptureError, match=hint), regard.capture(model):
        model["mix"](q, k, v)
    for named in ("mix", model["mix"], Mixer, [Mixer]):
        with regard.capture(model, modules=named) as seen:
            _, weights = model["mix"](q, k, v)
        assert torch.allclose(seen["mix"].map.weights(), weights, atol=1e-6)


def test_a_softmax_without_a_product_is_kept_as_weights_in_given_modules():
    class Bahdanau(nn.Module):
        def __init__(self):
            super().__init__()
            self.score = nn.Linear(D, 1)

        def forward(self, keys):
            weights = torch.softmax(self.score(torch.tanh(keys)), dim=1)  # (b,k,1)
            return (weights * keys).sum(1), weights

    model = Bahdanau()
    seen, (_, weights) = seen_of(model, torch.randn(B, K, D), options={"modules": Bahdanau})
    assert seen[0].map.shape == (B, 1, 1, K)
    assert torch.equal(seen[0].map.weights()[:, 0, 0], weights[..., 0])


def test_the_softmax_of_a_router_is_not_recorded():
    class AttentionRouter(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = nn.Linear(M, 4, bias=False)

        def forward(self, x):
            return torch.softmax(self.gate(x), dim=-1)

    with pytest.raises(CaptureError, match="no attention was found"):
        seen_of(AttentionRouter(), torch.randn(B, Q, M))


# ---- Regard's own


def test_regard_layers_are_recorded_with_every_kernel():
    torch.manual_seed(0)
    x = torch.randn(B, Q, M)
    layer = regard.MultiHeadAttention(M, H, rotary=False, dropout=0.2).eval()
    for need_weights in (True, False):
        seen, (out, _) = seen_of(layer, x, x, x, regard.causal(), need_weights=need_weights)
        expected = layer(x, x, x, regard.causal())[1]
        assert len(seen) == 1
        assert seen[0].kind == "causal"
        assert torch.allclose(seen[0].map.weights(), expected, atol=1e-6)
        assert torch.equal(out, layer(x, x, x, regard.causal(), need_weights=need_weights)[0])
    additive = regard.AdditiveAttention(M)
    seen, (_, weights) = seen_of(additive, x, x)
    assert torch.allclose(seen[0].map.weights()[:, 0], weights, atol=1e-6)


@pytest.mark.parametrize("heads", [H, 1])
def test_the_block_sparse_kernel_is_recorded_once(heads):
    class Local(nn.Module):
        def forward(self, q, k, v):
            return regard.attention(q, k, v, mask=regard.window(9, 0))

    torch.manual_seed(0)
    q, k = torch.randn(1, H, 601, 8), torch.randn(1, heads, 601, 8)
    plain = Local()(q, k, k)
    seen, out = seen_of(Local(), q, k, k)
    assert torch.equal(out, plain)
    assert len(seen) == 1
    assert torch.allclose(seen[0].map.weights() @ k.expand(-1, H, -1, -1), out, atol=1e-5)


def test_a_user_defined_score_is_recorded():
    class Own(nn.Module):
        def forward(self, q, k):
            return regard.attention_with_weights(q, k, k, score=lambda a, b: -torch.cdist(a, b))[1]

    class Entangled(nn.Module):
        def forward(self, q, k):
            score = lambda a, b: (a @ b.transpose(-2, -1)) / b.norm()  # noqa: E731
            return regard.attention_with_weights(q, k, k, score=score)[1]

    q, k, _ = qkv()
    for model in (Own(), Entangled()):
        seen, weights = seen_of(model, q, k)
        assert torch.allclose(seen[0].map.weights(), weights, atol=1e-6)


def test_steps_with_a_regard_cache_are_joined_into_one_map():
    from regard.layers import KeyValueCache

    torch.manual_seed(0)
    layer = regard.MultiHeadAttention(M, H, kv_heads=1).eval()
    x = torch.randn(B, K, M)
    cache = KeyValueCache()
    with regard.capture(layer) as seen:
        layer(x[:, :4], mask=regard.causal(), cache=cache, need_weights=False)
        for n in range(4, K):
            layer(x[:, n : n + 1], mask=regard.causal(), cache=cache, need_weights=False)
    expected = layer(x, mask=regard.causal())[1]
    assert len(seen) == 1
    assert seen[0].kind == "causal"
    assert torch.allclose(seen[0].map.weights(), expected, atol=1e-6)


# ---- training


def test_gradient_checkpointing_records_one_pass():
    torch.manual_seed(0)
    model, x = Checkpointed(), torch.randn(B, Q, M)
    model(x).sum().backward()
    plain = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    with regard.capture(model) as seen:
        model(x).sum().backward()
    # The second forward pass is not another call.
    assert len(seen) == 1
    for p, before in zip(model.parameters(), plain, strict=True):
        assert torch.equal(p.grad, before)


def test_a_second_pass_is_a_second_record():
    model = nn.MultiheadAttention(M, H, batch_first=True)
    x, y = torch.randn(B, Q, M), torch.randn(B, K, M)
    with regard.capture(model) as seen:
        for _ in range(2):
            model(x, y, y, need_weights=False)
    assert [record.map.shape[2:] for record in seen] == [(Q, K), (Q, K)]
    assert torch.equal(seen[0].map.weights(), seen[1].map.weights())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit")  # from within torch, while it compiles
def test_a_compiled_model_is_recorded():
    torch.manual_seed(0)
    model = nn.TransformerEncoderLayer(M, H, batch_first=True).eval()
    compiled = torch.compile(model)
    x = torch.randn(B, Q, M)
    plain = compiled(x)
    seen, out = seen_of(compiled, x)
    assert seen[0].name == "self_attn"
    assert (out - plain).abs().max() < 2e-6
    assert torch.allclose(compiled(x), plain)


# ---- options


def test_layers_and_heads_can_be_selected():
    model, x = encoder(3), torch.randn(B, Q, 2 * D)
    whole, _ = seen_of(model, x)
    for layers, expected in ((1, [1]), ([0, 2], [0, 2]), (slice(1, None), [1, 2]), (range(2), [0, 1])):
        seen, _ = seen_of(model, x, options={"layers": layers})
        assert [record.layer for record in seen] == expected
    seen, _ = seen_of(model, x, options={"heads": [1, 0]})
    assert torch.equal(seen[1].map.weights(), whole[1].map.weights()[:, [1, 0]])
    q, k, v = qkv()
    seen, _ = seen_of(Plain(), q, k, v, attn_mask=HEADS, options={"heads": [-1]})
    assert torch.allclose(seen[0].map.weights(), weights_of(q, k, added=hidden(HEADS))[:, -1:], atol=1e-6)
    with pytest.raises(ArgumentError, match=r"layer 7 was asked for, but seen were \[0, 1, 2\]"):
        seen_of(model, x, options={"layers": [7]})
    with pytest.raises(ArgumentError, match="heads: head 3 was asked for, but there are 2"):
        seen_of(model, x, options={"heads": [3]})


def test_records_are_kept_on_the_given_device():
    seen, _ = seen_of(Plain(), *qkv(), options={"device": "cpu"})
    assert seen[0].map._source.ready.q.device.type == "cpu"


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Plain(), Plain()])

    def forward(self, *args, **kwargs):
        return [layer(*args, **kwargs) for layer in self.layers]


def test_a_tensor_that_several_maps_share_counts_once():
    q, k, v = qkv()
    bias = torch.randn(1, H, q.shape[2], k.shape[2])
    one, _ = seen_of(Plain(), q, k, v, attn_mask=bias)
    two, _ = seen_of(Twice(), q, k, v, attn_mask=bias)
    assert two.nbytes == 2 * one.nbytes - bias.nbytes


def test_records_past_the_memory_budget_are_dropped_with_a_warning():
    model, x = encoder(3), torch.randn(B, Q, 2 * D)
    whole, out = seen_of(model, x)
    each = whole[0].map.nbytes
    told = (
        r"not recorded, or not to the end: 'layers.2.self_attn', past the memory budget of .*: raise memory="
    )
    with pytest.warns(UserWarning, match=told):
        seen, same = seen_of(model, x, options={"memory": 2 * each + each // 2})
    assert torch.equal(out, same)
    assert [record.dropped is None for record in seen] == [True, True, False]
    assert seen.nbytes <= 2 * each + each // 2
    assert seen[2].map.shape == (B, 2, Q, Q)
    assert "memory budget" in seen.dropped[0]
    with pytest.raises(CaptureError, match=r"layers.2.self_attn was dropped, past the memory budget of"):
        seen[2].map.weights()
    with pytest.raises(ArgumentError, match="memory: expected a number of bytes"):
        regard.capture(model, memory=0)


def test_a_record_holds_queries_keys_and_row_sums_alone():
    n, width = 512, 64
    q = torch.randn(1, 2, n, width)
    seen, _ = seen_of(Plain(), q, q, q, is_causal=True)
    # At 4,096 tokens this is 1/20 of the weights.
    assert seen.nbytes * 20 <= 2 * 4096 * 4 * n
    assert seen.nbytes == 2 * n * (2 * width + 1) * 4


# ---- nothing found, wrong calls


def test_captures_that_record_nothing_say_why():
    model = nn.TransformerEncoderLayer(M, H, batch_first=True)
    x = torch.randn(B, Q, M)
    with pytest.raises(CaptureError, match="not called inside the with block"), regard.capture(model):
        pass
    with pytest.raises(
        CaptureError, match="no attention was found in Linear: the model may have none. Seen are"
    ):
        seen_of(nn.Linear(M, M), x)
    with pytest.warns((DeprecationWarning, FutureWarning), match="script"):
        scripted = torch.jit.script(nn.Linear(2, 2))
    with pytest.raises(CaptureError, match="scripted or traced"):
        regard.capture(scripted)
    with pytest.raises(CaptureError, match="'0' is scripted, and only its operations are seen"):
        seen_of(nn.Sequential(scripted), torch.randn(3, 2))
    with pytest.raises(DtypeError, match="expected an nn.Module, got SimpleNamespace: pass its .model"):
        regard.capture(types.SimpleNamespace(model=model))
    with pytest.raises(UnknownNameError, match="modules: unknown name 'self_atn': did you mean 'self_attn'"):
        regard.capture(model, modules="self_atn")
    with pytest.raises(DtypeError, match="tokenizer: expected a tokenizer"):
        regard.capture(model, tokenizer=3)


def run_in_a_thread(model, x, here):
    with regard.capture(model):
        if here:
            model(x)
        worker = threading.Thread(target=model, args=(x,))
        worker.start()
        worker.join()


def test_a_call_in_another_thread_is_an_error():
    model = nn.TransformerEncoderLayer(M, H, batch_first=True)
    x = torch.randn(B, Q, M)
    for here in (False, True):
        with pytest.raises(CaptureError, match="ran in another thread"):
            run_in_a_thread(model, x, here)


def test_a_wrong_call_gives_torchs_own_error():
    q, k, v = qkv()
    with pytest.raises(RuntimeError) as plain:
        Plain()(q, k[..., :3], v)
    with pytest.raises(RuntimeError) as watched:
        seen_of(Plain(), q, k[..., :3], v)
    assert str(watched.value) == str(plain.value)
    with pytest.raises(TypeError):
        seen_of(Plain(), q, k, v, nonsense=3)


def test_calls_outside_the_model_are_not_recorded():
    q, k, v = qkv()
    model, other = Plain(), Plain()
    with regard.capture(model) as seen:
        F.scaled_dot_product_attention(q, k, v)
        other(q, k, v)
        regard.attention(q, k, v)
        model(q, k, v)
    assert len(seen) == 1


def test_captures_can_be_nested_and_repeated():
    q, k, v = qkv()
    model = Plain()
    once = regard.capture(model)
    with once as outer, regard.capture(model) as inner:
        model(q, k, v)
        with pytest.raises(CaptureError, match="active already"):
            once.__enter__()
    with once as again:
        model(q, k, v)
        assert len(again) == 1  # can be looked at before the end
        model(q, k, v)
    assert (len(outer), len(inner), len(again)) == (1, 1, 2)


# ---- nothing is left behind


def state(model):
    hooks = [(len(m._forward_hooks), len(m._forward_pre_hooks)) for m in model.modules()]
    modes = (len(_get_current_function_mode_stack()), len(_get_current_dispatch_mode_stack()))
    everywhere = (len(nn_module._global_forward_hooks), len(nn_module._global_forward_pre_hooks))
    fast = torch.backends.mha.get_fastpath_enabled()
    calls = (nn.Module.__call__, nn.Module._call_impl)
    return hooks, modes, everywhere, calls, fast, len(core.OBSERVERS)


class Broken(Exception):
    pass


def run_often(model, x, kept):
    with regard.capture(model) as seen:
        kept.append(seen)
        for _ in range(12):
            model(x)


def test_patches_and_modes_are_undone_after_an_exception():
    model, x = encoder(2), torch.randn(B, Q, 2 * D)
    before, plain = state(model), model(x)
    chance = random.Random(7)
    modules = [
        m for name, m in model.named_modules() if not name.endswith(("out_proj", "layers"))
    ]  # all called
    for n in range(100):
        calls, at = [0], chance.randrange(1, 12)

        def fail(*_, calls=calls, at=at):
            calls[0] += 1
            if calls[0] == at:
                raise Broken

        where = chance.choice(modules)
        register = where.register_forward_hook if n % 2 else where.register_forward_pre_hook
        handle = register(fail)
        seen = []
        with pytest.raises(Broken):
            run_often(model, x, seen)
        handle.remove()
        assert state(model) == before
        assert all(record.map.weights().sum(-1).allclose(torch.ones(())) for record in seen[0])
    assert torch.equal(model(x), plain)


def test_a_model_may_catch_its_own_exceptions():
    class Careful(nn.Module):
        def __init__(self):
            super().__init__()
            self.first_attn, self.second_attn = HandAttention(), Plain()

        def forward(self, q, k, v):
            with contextlib.suppress(RuntimeError):
                self.first_attn(q, k[..., :3], v)
            return self.second_attn(q, k, v)

    seen, _ = seen_of(Careful(), *qkv())
    assert [record.name for record in seen] == ["second_attn"]


def test_an_error_while_switching_on_leaves_nothing_behind(monkeypatch):
    model = nn.TransformerEncoderLayer(M, H, batch_first=True)
    before = state(model)
    monkeypatch.setattr(torch.backends.mha, "get_fastpath_enabled", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError), regard.capture(model):
        pass
    monkeypatch.undo()
    assert state(model) == before


def test_capture_does_not_load_the_compiler():
    code = (
        "import sys, torch, regard\nm = torch.nn.MultiheadAttention(4, 2)\nx = torch.randn(3, 1, 4)\n"
        "with regard.capture(m): m(x, x, x)\nassert 'torch._dynamo' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


# ---- the name


@pytest.mark.parametrize(
    "lines",
    [
        "import regard; f = regard.capture; import regard.capture",
        "from regard.capture import Recording; import regard; f = regard.capture",
    ],
)
def test_regard_capture_is_callable_after_any_order_of_imports(lines):
    code = f"{lines}\nimport regard.capture as package\nassert f is package is regard.capture\nf.Recording\n"
    code += "import torch; f(torch.nn.Linear(2, 2)); import inspect; assert 'tokenizer' in str(inspect.signature(f))"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
