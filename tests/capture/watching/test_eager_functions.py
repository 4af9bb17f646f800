"""Tests of the eager attention functions of Hugging Face, which are recorded as a whole if that is exact."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import regard
from regard.capture.watching import eager_functions as hf_eager

transformers = pytest.importorskip("transformers")
llama = pytest.importorskip("transformers.models.llama.modeling_llama")

B, H, G, N, D = 2, 6, 3, 5, 4


@pytest.fixture
def model():
    config = transformers.LlamaConfig(
        vocab_size=31,
        hidden_size=H * D,
        intermediate_size=7,
        num_hidden_layers=2,
        num_attention_heads=H,
        num_key_value_heads=G,
        initializer_range=0.5,
        attn_implementation="eager",
    )
    torch.manual_seed(0)
    return transformers.LlamaModel(config).eval()


@pytest.fixture
def ids():
    return torch.randint(0, 31, (B, N), generator=torch.Generator().manual_seed(1))


@pytest.fixture
def wholes(monkeypatch):
    """Counts the calls that are recorded as a whole."""
    calls = []
    read = hf_eager._read

    def counted(*args):
        calls.append(read(*args))
        return calls[-1]

    monkeypatch.setattr(hf_eager, "_read", counted)
    return calls


def captured(model, ids, **options):
    with torch.no_grad(), regard.capture(model) as seen:
        output = model(ids, **options)
    return seen, output


def check(seen, weights):
    assert len(seen) == len(weights) == 2
    for record, expected in zip(seen, weights, strict=True):
        torch.testing.assert_close(record.map[:], expected, atol=1e-5, rtol=0)


def test_a_plain_function_is_recorded_as_a_whole(model, ids, wholes):
    padded = torch.ones(B, N, dtype=torch.long)
    padded[1, 3:] = 0
    before = llama.eager_attention_forward
    with torch.no_grad():
        plain = model(ids, attention_mask=padded, output_attentions=True)
    seen, output = captured(model, ids, attention_mask=padded)
    assert llama.eager_attention_forward is before
    assert torch.equal(output.last_hidden_state, plain.last_hidden_state)
    assert [call.k.shape[1] for call in wholes] == [G, G]
    assert all(record.kind == "causal" for record in seen)
    kept = plain.attentions[0][1, 0, :3], plain.attentions[1][1, 0, :3]
    for record, expected in zip(seen, kept, strict=True):
        torch.testing.assert_close(record.map[1, 0, :3], expected, atol=1e-5, rtol=0)


def test_a_function_with_other_scores_is_followed(model, ids, wholes, monkeypatch):
    def forward(module, query, key, value, attention_mask, scaling, dropout=0.0, **kwargs):
        key, value = (llama.repeat_kv(x, module.num_key_value_groups) for x in (key, value))
        scores = query @ key.transpose(2, 3) * (3 * scaling) + attention_mask
        weights = nn.functional.softmax(scores, dim=-1)
        return (weights @ value).transpose(1, 2).contiguous(), weights

    monkeypatch.setattr(llama, "eager_attention_forward", forward)
    with torch.no_grad():
        plain = model(ids, output_attentions=True)
    seen, output = captured(model, ids)
    assert torch.equal(output.last_hidden_state, plain.last_hidden_state)
    assert wholes == [None]  # the second layer was not tried
    check(seen, plain.attentions)


def test_weights_that_do_not_multiply_the_values_are_rejected(model, ids, wholes, monkeypatch):
    used = []

    def forward(module, query, key, value, attention_mask, scaling, dropout=0.0, **kwargs):
        key, value = (llama.repeat_kv(x, module.num_key_value_groups) for x in (key, value))
        weights = nn.functional.softmax(query @ key.transpose(2, 3) * scaling + attention_mask, dim=-1)
        changed = weights**2
        used.append(changed)
        return (changed @ value).transpose(1, 2).contiguous(), weights

    monkeypatch.setattr(llama, "eager_attention_forward", forward)
    seen, _ = captured(model, ids)
    assert wholes == [None]
    check(seen, used[-2:])
    assert all("changed after the softmax" in (record.note or "") for record in seen)


def test_a_later_layer_of_another_class_that_changes_its_weights_is_not_missed(
    model, ids, wholes, monkeypatch
):
    used = []
    model.layers[1].self_attn.__class__ = type("OtherAttention", (llama.LlamaAttention,), {})

    def forward(module, query, key, value, attention_mask, scaling, dropout=0.0, **kwargs):
        key, value = (llama.repeat_kv(x, module.num_key_value_groups) for x in (key, value))
        weights = nn.functional.softmax(query @ key.transpose(2, 3) * scaling + attention_mask, dim=-1)
        changed = weights**2 if module.layer_idx else weights
        used.append(changed)
        return (changed @ value).transpose(1, 2).contiguous(), weights

    monkeypatch.setattr(llama, "eager_attention_forward", forward)
    seen, _ = captured(model, ids)
    assert [call is None for call in wholes] == [False, True]
    check(seen, [used[0], used[-1]])
    assert [record.note is None for record in seen] == [True, False]


def test_dropout_is_left_out_of_the_weights(model, ids, wholes):
    model.train()
    for layer in model.layers:
        layer.self_attn.attention_dropout = 0.5
    seen, _ = captured(model, ids)
    assert not wholes
    assert all(torch.allclose(record.map[:].sum(-1), torch.ones(())) for record in seen)


def test_a_nested_capture_traces_the_eager_function(model, ids):
    with torch.no_grad(), regard.capture(model) as outer:
        inner, _ = captured(model, ids)
    plain = model(ids, output_attentions=True)
    check(inner, plain.attentions)
    check(outer, plain.attentions)


def test_recording_a_call_passes_no_operation_through_the_function_mode(model, ids, monkeypatch):
    from regard.capture.joining.collector import Collector

    hidden, add = [], Collector.add

    def checked_add(*args, **kwargs):
        hidden.append(torch._C._is_torch_function_all_disabled())
        return add(*args, **kwargs)

    monkeypatch.setattr(Collector, "add", checked_add)
    with regard.capture(model):
        model(ids)
    assert hidden == [True, True]
