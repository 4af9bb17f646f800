"""Compiled decoding steps, compared with the modules of the decoder that compute the same in torch."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch
from torch import nn

import regard
import regard.core
from regard.decoding import DecodingOptions, decode, stream_tokens
from regard.kernels import native
from regard.kernels.decoding import project_vector
from regard.models import LanguageModel, LanguageModelConfig
from regard.models.int8 import Int8Linear, quantize_int8

# Vocabulary, tokens: more than the first capacity of the caches.
V, N = 97, 83
CASES: dict[str, dict[str, Any]] = {
    "default": {},
    "llama": {
        "activation": "swiglu",
        "norm_type": "rms",
        "positions": "rotary",
        "rotary_layout": "llama",
        "width": 40,
        "heads": 4,
        "kv_heads": 2,
        "bias": False,
        "output_bias": False,
        "rotary_base": 77.0,
        "scaled_embeddings": False,
    },
    "scaled rotation": {
        "positions": "rotary",
        "rotary_layout": "llama",
        "rotary_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
    },
    "window, pairs of neighbours, one group": {"positions": "rotary", "kv_heads": 1, "window": 5},
    "gpt2": {"positions": "learned", "activation": "gelu_tanh", "scaled_embeddings": False},
    "relu, some biases": {"activation": "relu", "bias": False, "qkv_bias": True, "norm_epsilon": 0.03},
    "qwen2": {"activation": "swiglu", "norm_type": "rms", "bias": True, "attention_output_bias": False},
    "untied": {"tied_output": False, "positions": "none"},
}
compiled = pytest.mark.skipif(native.library().handle is None, reason="there is no C compiler")


def make(**settings: Any) -> LanguageModel:
    """Return a small model with random norms and biases, whose widths are no multiples of a vector."""
    torch.manual_seed(0)
    sizes = {"vocabulary_size": V, "width": 44, "heads": 2, "feed_forward": 71, "layers": 3, "dropout": 0.1}
    model = LanguageModel(LanguageModelConfig(**{**sizes, **settings})).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def tokens() -> torch.Tensor:
    torch.manual_seed(1)
    return torch.randint(V, (1, N))


def step_by_step(model: LanguageModel, text: torch.Tensor, fed: int = 0) -> tuple[torch.Tensor, Any]:
    """Return the logits of the tokens after the first ``fed``, one step at a time, and the state."""
    state = model.start()
    if fed:
        model.feed(text[:, :fed], state)
    steps = [model.output(model.step(text[:, i : i + 1], state)) for i in range(fed, text.shape[1])]
    return torch.cat(steps, dim=1), state


@compiled
@pytest.mark.parametrize("fed", [0, 37])
@pytest.mark.parametrize("case", CASES)
@torch.no_grad()
def test_compiled_steps_give_the_logits_of_the_modules(case, fed):
    model, text = make(**CASES[case]), tokens()
    logits, state = step_by_step(model, text, fed)
    assert state.compiled, "these steps should be compiled"
    torch.testing.assert_close(logits, model(text)[:, fed:], atol=2e-5, rtol=1e-5)
    state.settle()
    assert state.self_caches[0].length == N


@pytest.mark.parametrize("fed", [1, 37])
@torch.no_grad()
def test_steps_without_a_compiler_are_the_same(fed, monkeypatch):
    model, text = make(**CASES["llama"]), tokens()
    expected = model(text)[:, fed:]
    monkeypatch.setattr("regard.kernels.decoding.library", lambda: native.Library(None, "none"))
    logits, state = step_by_step(model, text, fed)
    assert not state.compiled
    torch.testing.assert_close(logits, expected, atol=2e-5, rtol=1e-5)
    weight = torch.randn(5, 7)
    torch.testing.assert_close(project_vector(torch.ones(7), weight, None), weight.sum(dim=1))


@compiled
@torch.no_grad()
def test_compiled_and_other_steps_follow_each_other():
    model, text = make(**CASES["llama"]), tokens()
    expected, state, logits = model(text), model.start(), []
    for i in range(N):
        # Every fifth step is recorded, so that torch computes it.
        records = [] if i % 5 == 4 else None
        logits.append(model.output(model.step(text[:, i : i + 1], state, records=records)))
        assert records is None or len(records) == 3
        if i == 40:
            state.reorder(torch.tensor([0]))
    torch.testing.assert_close(torch.cat(logits, dim=1), expected, atol=2e-5, rtol=1e-5)
    state.reorder(torch.tensor([0, 0, 0]))
    hidden = model.step(text[:, :3].reshape(1, 3), state)
    alone = [model(torch.cat([text, token[None, None]], dim=1))[0, -1] for token in text[0, :3]]
    torch.testing.assert_close(model.output(hidden)[0], torch.stack(alone), atol=2e-5, rtol=1e-5)


@compiled
def test_gradients_training_hooks_and_other_modules_are_not_compiled():
    model, text = make(**CASES["llama"]), tokens()[:, :4]
    state = model.start()
    assert model.step(text[:, :1], state).requires_grad
    assert not state.compiled
    with torch.no_grad():
        model.train()
        state = model.start()
        model.step(text[:, :1], state)
        assert not state.compiled
        model.eval()
        called = []
        hook = model.decoder.layers[1].feed_forward.register_forward_hook(lambda *_: called.append(1))
        step_by_step(model, text)
        assert len(called) == 4
        hook.remove()
        block: Any = model.decoder.layers[0]
        wider = nn.Sequential(block.feed_forward.widen)
        block.feed_forward.widen = wider
        logits, state = step_by_step(model, text)
        assert state.compiled is False
        torch.testing.assert_close(logits, model(text), atol=2e-5, rtol=1e-5)
    for settings in ({"norm": "post"}, {"positions": "alibi"}, {"positions": "relative"}):
        with torch.no_grad():
            model = make(**settings)
            logits, state = step_by_step(model, text)
            assert state.compiled is False
            torch.testing.assert_close(logits, model(text), atol=2e-5, rtol=1e-5)


@compiled
@torch.no_grad()
def test_observed_steps_are_not_compiled(monkeypatch):
    class Observer:
        calls = 0

        def own_call(self, call: Any) -> Any:
            Observer.calls += 1
            return contextlib.nullcontext()

    model, text = make(**CASES["llama"]), tokens()[:, :4]
    monkeypatch.setattr("regard.core.OBSERVERS", [Observer()])
    monkeypatch.setattr("regard.models.compiled_step.OBSERVERS", regard.core.OBSERVERS)
    step_by_step(model, text)
    assert Observer.calls == 3 * 4


@compiled
@torch.no_grad()
def test_dynamic_rotation_is_not_compiled():
    scaling = {"rope_type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 16}
    model = make(positions="rotary", rotary_layout="llama", rotary_scaling=scaling)
    _, state = step_by_step(model, tokens()[:, :9])
    assert state.compiled is False


@torch.no_grad()
def test_greedy_search_and_streams_write_the_most_likely_tokens():
    model, prompt = make(**CASES["llama"]), tokens()[0, :9].tolist()
    expected = list(prompt)
    for _ in range(30):
        expected.append(int(model(torch.tensor([expected]))[0, -1].argmax()))
    options = DecodingOptions(beams=1, max_length=30)
    ((found,),) = decode(model, None, [9], options, bos=0, eos=V - 1, prompts=[prompt])
    streamed = [one.token for one in stream_tokens(model, prompt, options)]
    assert streamed == expected[9:]
    assert found.tokens == expected[9 : 9 + len(found.tokens)]
    wide = DecodingOptions(beams=3, n_best=2, max_length=12)
    beams = decode(model, None, [9, 9], wide, bos=0, eos=V - 1, prompts=[prompt, prompt[::-1]])
    alone = decode(model, None, [9], wide, bos=0, eos=V - 1, prompts=[prompt])
    assert [one.tokens for one in beams[0]] == [one.tokens for one in alone[0]]


@torch.no_grad()
def test_capture_sees_every_step_and_changes_nothing():
    model, prompt = make(**CASES["llama"]), tokens()[0, :9].tolist()
    options = DecodingOptions(beams=1, max_length=6)
    plain = [one.token for one in stream_tokens(model, prompt, options)]
    with regard.capture(model) as seen:
        assert [one.token for one in stream_tokens(model, prompt, options)] == plain
    assert len(seen) == 3
    assert seen[0].map.weights().shape[-2:] == (14, 14)


@compiled
@torch.no_grad()
def test_bfloat16_weights_are_read_as_they_are():
    model, text = make(**CASES["llama"]).to(torch.bfloat16), tokens()
    exact = make(**CASES["llama"])
    exact.load_state_dict({name: x.float() for name, x in model.state_dict().items()})
    logits, state = step_by_step(model, text, 0)
    assert state.compiled
    # The steps compute in float32, with rounded weights.
    torch.testing.assert_close(logits, exact(text), atol=2e-5, rtol=1e-5)
    fed, _ = step_by_step(model, text, 37)
    torch.testing.assert_close(fed.float(), exact(text)[:, 37:], atol=0.3, rtol=0.1)
    state.reorder(torch.tensor([0, 0]))
    assert model.step(text[:, :2], state).isfinite().all()


@torch.no_grad()
def test_int8_weights_give_nearly_the_same_logits():
    model, text = make(**CASES["relu, some biases"], tied_output=True), tokens()
    expected = model(text)
    table = model.decoder.embedding.tokens.weight.clone()
    exact = make(**CASES["relu, some biases"])
    quantised = quantize_int8(model)
    assert quantised is model
    assert isinstance(model.output, Int8Linear)
    assert torch.equal(model.decoder.embedding.tokens.weight, table)
    for ours, theirs in zip(model.modules(), exact.modules(), strict=True):
        if isinstance(theirs, nn.Linear):
            assert isinstance(ours, Int8Linear)
            theirs.weight = nn.Parameter(ours.weight.float() * ours.scales[:, None])
    exact.decoder.embedding.tokens.weight = nn.Parameter(table)
    difference = (model(text) - expected).abs().mean() / expected.abs().mean()
    assert 0.0001 < difference < 0.05
    torch.testing.assert_close(model(text), exact(text), atol=1e-4, rtol=1e-4)
    logits, _ = step_by_step(model, text, 11)
    torch.testing.assert_close(logits, exact(text)[:, 11:], atol=1e-4, rtol=1e-4)
    # Few states, which torch's kernel for int8 multiplies.
    short = model(text[:, :5])
    torch.testing.assert_close(short, exact(text[:, :5]), atol=1e-4, rtol=1e-4)
