"""Tests of the models with batches, padding, causality, gradients and weights, all computed by attention()."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import cast

import pytest
import torch
from torch import Tensor

import regard
import regard.layers.multi_head as multihead
import regard.models.recurrent_decoder as recurrent
from regard.errors import ArgumentError, DtypeError, ShapeError
from regard.maps import Record
from regard.models import (
    LanguageModel,
    Memory,
    Seq2Seq,
    TextClassifier,
    Transformer,
)
from support.small_models import (
    LENGTHS,
    MODELS,
    RECURRENT,
    TRANSFORMERS,
    B,
    S,
    T,
    U,
    V,
    build,
    close,
    sentences,
)

# ------------------------------------------------------------------- batches


@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)
def test_a_padded_sentence_gives_what_it_gives_alone(options):
    model, (source, target) = build(options, torch.float64), sentences()
    together = model(source, target, LENGTHS)
    for b, length in enumerate(LENGTHS.tolist()):
        alone = model(source[b : b + 1, :length], target[b : b + 1])
        close(together[b : b + 1], alone)


@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)
def test_tokens_in_the_padding_do_not_change_the_output(options):
    model, (source, target) = build(options), sentences()
    padded = torch.arange(S) >= LENGTHS[:, None]
    found = [
        model(source.masked_fill(padded, token), target, LENGTHS, records=[] if token == 2 else None)
        for token in (0, 1, 2)
    ]
    assert found[0].isfinite().all()
    close(found[0], found[1], 1e-7)
    close(found[0], found[2])


def test_padding_reaches_no_gradient():
    for options in (TRANSFORMERS["default"], RECURRENT["gru additive fed 1"]):
        model, (source, target) = build(options), sentences()
        source = source.clamp(min=1).masked_fill(torch.arange(S) >= LENGTHS[:, None], 0)
        model(source, target, LENGTHS).square().sum().backward()
        table = model.encoder.embedding.tokens if "cell" not in options else model.source_embedding
        gradient = table.weight.grad
        assert gradient is not None
        assert (gradient[0] == 0).all()
        assert (gradient[source[0, 0]] != 0).any()


def test_an_empty_sentence_gives_finite_output():
    model, (source, target) = build({}), sentences()
    assert model(source, target, torch.tensor([7, 0, 5])).isfinite().all()


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_language_model_does_not_see_later_tokens(norm):
    _, target = sentences()
    model = build({"vocabulary_size": U, "norm": norm})
    assert model(target).shape == (B, T, U)
    close(model(target)[:, :2], model(target[:, :2]))


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_without_attention_only_one_vector_reaches_the_decoder(cell):
    model, (source, target) = build({"cell": cell, "attention": None}), sentences()
    memory = model.encode(source, LENGTHS)
    assert memory.final is not None
    whole = cast(Tensor, model.decode(memory, target))
    other = Memory(torch.full_like(memory.states, torch.nan), None, None, memory.final)
    close(model.decode(other, target), whole, 1e-9)
    other = Memory(memory.states, memory.lengths, None, memory.final + 0.1)
    assert (cast(Tensor, model.decode(other, target)) - whole).abs().max() > 1e-3


def test_with_attention_the_states_reach_the_decoder():
    model, (source, target) = build(RECURRENT["gru dot fed 2"]), sentences()
    memory = model.encode(source, LENGTHS)
    other = replace(memory, states=memory.states + 0.1)
    changed, whole = (cast(Tensor, model.decode(one, target)) for one in (other, memory))
    assert (changed - whole).abs().max() > 1e-3


@pytest.mark.parametrize(
    "options", [{**MODELS[name]} for name in ("default", "gru additive fed 1", "lstm additive unfed 2")]
)
def test_both_directions_of_the_source_matter(options):
    """The first token's meaning depends on the last one, and the other way round."""
    model, (source, _) = build(options), sentences()
    states = model.encode(source).states
    for changed, looked in ((0, S - 1), (S - 1, 0)):
        other = source.clone()
        other[:, changed] = (other[:, changed] + 1) % V
        assert (model.encode(other).states[:, looked] - states[:, looked]).abs().amax(-1).min() > 1e-6


# ------------------------------------------------------------------- causality and gradients


@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)
def test_no_token_depends_on_a_later_one(options):
    model, (source, target) = build(options, torch.float64), sentences()
    whole = model(source, target, LENGTHS)
    for t in range(1, T):
        other = target.clone()
        other[:, t:] = (other[:, t:] + 1) % U
        changed = model(source, other, LENGTHS)
        close(changed[:, :t], whole[:, :t])
        assert (changed[:, t] - whole[:, t]).abs().amax(-1).min() > 1e-6


@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)
def test_every_parameter_has_a_gradient(options):
    model, (source, target) = build(options).train(), sentences()
    torch.nn.functional.cross_entropy(
        model(source, target, LENGTHS).flatten(0, 1), target.roll(-1, 1).flatten()
    ).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        if name.endswith("W_k.bias") and model.config.positions != "rotary":
            # Adds the same number to all scores of a query, which softmax cancels.
            continue
        assert parameter.grad.abs().max() > 1e-9, name


def test_every_parameter_of_a_language_model_has_a_gradient():
    model, (_, target) = build({"positions": "learned", "vocabulary_size": U}).train(), sentences()
    model(target).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert name.endswith("W_k.bias") or parameter.grad.abs().max() > 1e-9, name


@pytest.mark.parametrize("name", ["post relative", "swiglu", "gru additive fed 1", "lstm scaled_dot fed 1"])
def test_gradients_are_the_slopes_of_central_differences(name):
    model, (source, target) = build(MODELS[name], torch.float64), sentences()

    def loss() -> torch.Tensor:
        scores = model(source, target, LENGTHS).flatten(0, 1)
        return torch.nn.functional.cross_entropy(scores, target.roll(-1, 1).flatten())

    loss().backward()
    torch.manual_seed(3)
    for each, parameter in model.named_parameters():
        direction = torch.randn_like(parameter)
        with torch.no_grad():
            ends = []
            for step in (1e-5, -2e-5):
                parameter += step * direction
                ends.append(loss().item())
            parameter += 1e-5 * direction
        slope = (ends[0] - ends[1]) / 2e-5
        assert parameter.grad is not None
        assert slope == pytest.approx((parameter.grad * direction).sum().item(), rel=1e-5, abs=1e-8), each


# ------------------------------------------------------------------- what was attended to


@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)
def test_every_attention_is_recorded(options):
    model, (source, target) = build(options), sentences()
    records: list[Record] = []
    with_records = model(source, target, LENGTHS, records=records)
    close(with_records, model(source, target, LENGTHS))
    names = [record.name for record in records]
    if isinstance(model, Seq2Seq):
        assert names == ([] if model.attention is None else ["attention"])
    else:
        encoder = [f"encoder.layers.{i}.self_attention" for i in range(2)]
        parts = ("self_attention", "cross_attention")
        assert names == encoder + [f"decoder.layers.{i}.{part}" for i in range(2) for part in parts]
    for record in records:
        queries, keys = {"self": (S, S), "causal": (T, T), "cross": (T, S)}[record.kind]
        heads = 1 if isinstance(model, Seq2Seq) else 4
        weights = record.map.weights()
        assert weights.shape == (B, heads, queries, keys)
        close(weights.sum(-1), torch.ones(B, heads, queries))
        if record.kind == "causal":
            assert (weights.triu(1) == 0).all()
        else:
            hidden = (torch.arange(S) >= LENGTHS[:, None])[:, None, None]
            assert (weights * hidden == 0).all()
            assert (weights.masked_fill(hidden, 1) > 0).all()


OTHERS = {
    "language model": {"vocabulary_size": V},
    **{f"classifier, {kind}": {"classes": 3, "pooling": kind} for kind in ("mean", "additive", "multihead")},
}


@pytest.mark.parametrize("options", [*TRANSFORMERS.values(), *OTHERS.values()], ids=[*TRANSFORMERS, *OTHERS])
@torch.no_grad()
def test_the_records_are_those_of_capture(options):
    model, (source, target) = build(options), sentences()
    records: list[Record] = []
    inputs = {"tokens": source} if isinstance(model, LanguageModel) else {"lengths": LENGTHS}
    if isinstance(model, TextClassifier):
        inputs["tokens"] = source
    elif isinstance(model, Transformer):
        inputs |= {"source": source, "target": target}
    model(**inputs, records=records)
    with regard.capture(model) as captured:
        model(**inputs)
    assert len(records) == len(captured) > 0
    for ours, theirs in zip(records, captured, strict=True):
        assert (ours.name, ours.layer, ours.kind) == (theirs.name, theirs.layer, theirs.kind)
        close(ours.map.weights(), theirs.map.weights(), 1e-6)


@pytest.mark.parametrize(
    "name", ["default", "alibi", "gru additive fed 1", "lstm additive unfed 2", "gru bilinear unfed 1"]
)
def test_everything_goes_through_attention(name, monkeypatch):
    module = recurrent if "cell" in MODELS[name] else multihead
    model, (source, target) = build(MODELS[name]), sentences()
    calls = []
    for function in ("attention", "attention_with_weights"):
        real = getattr(module, function)

        def counted(*args, _real=real, _name=function, **kwargs):
            calls.append(_name)
            return _real(*args, **kwargs)

        monkeypatch.setattr(module, function, counted)
    expected = 1 if "unfed" in name else T if "cell" in MODELS[name] else 6
    model(source, target, LENGTHS)
    assert calls == ["attention"] * expected
    calls.clear()
    model(source, target, LENGTHS, records=[])
    assert calls == ["attention_with_weights"] * expected


# ------------------------------------------------------------------- wrong calls


def errors() -> list:
    source, target = sentences()
    both: dict = {}
    gru = RECURRENT["gru dot fed 2"]
    zero = torch.tensor([7, 0, 5])
    return [
        (both, (source, None), DtypeError, "target: expected a torch.Tensor, got NoneType"),
        (both, (source[0], target), ShapeError, "source: expected (b,n), got (7): use source[None] for one"),
        (gru, (source, target[0]), ShapeError, "target: expected (b,n), got (5): use target[None] for one"),
        (both, (source.float(), target), DtypeError, "source: expected integer token ids, got torch.float32"),
        (gru, ([[1]], target), DtypeError, "source: expected a torch.Tensor, got list"),
        (both, (source + V, target), ArgumentError, "but the vocabulary has 17: tokens are 0 to 16"),
        (gru, (source, target - U), ArgumentError, "but the vocabulary has 19: tokens are 0 to 18"),
        (both, (source, target, LENGTHS + 1), ArgumentError, "lengths: expected 0 to 7, got 8: source has 7"),
        (both, (source, target, -LENGTHS), ArgumentError, "lengths: expected 0 to 7, got -7: source has 7"),
        (gru, (source, target, zero), ArgumentError, "lengths: expected 1 to 7, got 0: source has 7 columns"),
        (
            both,
            (source, target, LENGTHS[:2]),
            ShapeError,
            "lengths: expected one for each of 3 sentences, (3,)",
        ),
        (
            gru,
            (source, target, [7, 2, 5]),
            DtypeError,
            "lengths: expected a tensor of whole numbers, got list",
        ),
        (
            gru,
            (source, target, LENGTHS / 1),
            DtypeError,
            "lengths: expected a tensor of whole numbers, got torch",
        ),
    ]


@pytest.mark.parametrize(("options", "args", "kind", "text"), errors(), ids=itertools.count())
def test_wrong_calls_say_what_is_wrong(options, args, kind, text):
    with pytest.raises(kind) as raised:
        build(options)(*args)
    assert text in str(raised.value)


def test_a_decoder_asks_for_its_memory_and_for_no_other():
    source, target = sentences()
    both, decoder = build({}), build({"vocabulary_size": U})
    for call in (lambda: both.decode(None, target), lambda: both.start(None)):
        with pytest.raises(ArgumentError, match="memory: expected the result of encode"):
            call()
    for call in (lambda: decoder.start(both.encode(source)), lambda: decoder(target, both.encode(source))):
        with pytest.raises(ArgumentError, match="memory: this decoder has no cross-attention: give None"):
            call()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit")  # from within torch, while it compiles
@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_compiled_models_give_the_same_output(positions):
    model, (source, target) = build({"positions": positions}), sentences()
    compiled = torch.compile(model)
    with torch.no_grad():
        close(compiled(source, target, LENGTHS), model(source, target, LENGTHS))
        close(compiled(source, target), model(source, target))
