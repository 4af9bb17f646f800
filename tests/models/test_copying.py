"""The copy mechanism of the models, against the formula of a pointer-generator token by token."""

from __future__ import annotations

import pytest
import torch

from regard import capture
from regard.copying import CopyStates
from regard.errors import ArgumentError, DtypeError, FileError
from regard.models import Seq2SeqConfig, Transformer, TransformerConfig, load_model
from support.small_models import COPYING, LENGTHS, B, S, T, U, build, close

W = 4  # hypotheses of each sentence


def sentences(size: int = U) -> tuple[torch.Tensor, torch.Tensor]:
    """Return sources with repeated tokens, and targets."""
    torch.manual_seed(2)
    source = torch.randint(3, size, (B, S))
    source[:, 1] = source[:, 0]
    return source, torch.randint(3, size, (B, T))


def mixture(model, states: CopyStates, lengths: list[int]) -> torch.Tensor:
    """Return the probabilities ``(b,t,v)``, each computed on its own."""
    logits = torch.nn.functional.linear(states.hidden, model.output.weight, model.output.bias)
    generated, gate = logits.softmax(dim=-1), states.gate.sigmoid()
    p = gate[..., None] * generated
    for b, length in enumerate(lengths):
        for t in range(p.shape[1]):
            for s in range(length):
                p[b, t, states.source[b, s]] += (1 - gate[b, t]) * states.weights[b, t, s]
    return p


@pytest.mark.parametrize("options", COPYING.values(), ids=COPYING)
@torch.no_grad()
def test_the_output_is_the_mixture_of_generating_and_copying(options):
    model, (source, target) = build(options, torch.float64), sentences()
    log_probabilities = model(source, target, LENGTHS)
    expected = mixture(model, model.hidden(source, target, LENGTHS), LENGTHS.tolist())
    close(log_probabilities.exp(), expected)
    close(expected.sum(dim=-1), torch.ones(B, T, dtype=torch.float64))


@pytest.mark.parametrize("options", COPYING.values(), ids=COPYING)
@torch.no_grad()
def test_padding_is_not_copied_and_has_no_influence(options):
    model, (source, target) = build(options, torch.float64), sentences()
    weights = model.hidden(source, target, LENGTHS).weights
    beyond = torch.arange(S) >= LENGTHS[:, None]  # (b,s)
    assert bool((weights.transpose(1, 2)[beyond] == 0).all())
    close(model(source.masked_fill(beyond, 0), target, LENGTHS), model(source, target, LENGTHS))


@pytest.mark.parametrize("options", COPYING.values(), ids=COPYING)
def test_the_log_probabilities_have_the_gradients_of_the_formula(options):
    model, (source, target) = build(options, torch.float64), sentences()
    parameters = list(model.parameters())
    picked = torch.randn(B, T, U, dtype=torch.float64)
    ours = torch.autograd.grad((model(source, target, LENGTHS) * picked).sum(), parameters)
    expected = mixture(model, model.hidden(source, target, LENGTHS), LENGTHS.tolist()).log()
    for mine, other in zip(ours, torch.autograd.grad((expected * picked).sum(), parameters), strict=True):
        close(mine, other, atol=1e-9)


@pytest.mark.parametrize("options", COPYING.values(), ids=COPYING)
@torch.no_grad()
def test_steps_follow_reordered_hypotheses_and_finished_sentences(options):
    model, (source, _) = build(options, torch.float64), sentences()
    memory = model.encode(source, LENGTHS)
    history = torch.randint(U, (B, W, 2))
    state = model.start(memory)
    for t in range(2):
        model.step(history[..., t], state)
    kept, parents = torch.tensor([2, 0]), torch.tensor([[3, 0, 0], [1, 1, 2]])
    state.keep(kept, W)
    state.reorder((torch.arange(2)[:, None] * W + parents).flatten())
    history = history[kept][torch.arange(2)[:, None], parents]  # (2,3,2)
    tokens = torch.randint(U, (2, 3))
    found = model.output(model.step(tokens, state))  # (2,3,v)
    for w in range(3):
        whole = torch.cat([history[:, w], tokens[:, w, None]], dim=1)  # (2,3)
        expected = model(source[kept], whole, LENGTHS[kept])[:, -1]
        close(found[:, w], expected)


@pytest.mark.parametrize("options", COPYING.values(), ids=COPYING)
@torch.no_grad()
def test_the_copy_attention_is_recorded_and_captured(options):
    model, (source, _) = build(options), sentences()
    target = torch.randint(3, U, (B, S))  # as many queries as keys
    records: list = []
    states = model.hidden(source, target, LENGTHS, records=records)
    assert (records[-1].name, records[-1].kind) == ("copy_attention", "cross")
    close(records[-1].map.weights()[:, 0], states.weights)
    with capture(model) as seen:
        model.hidden(source, target, LENGTHS)
    name = "copy_attention" if model.config.kind == "transformer" else "attention"
    found = [record for record in seen if record.name == name]  # one for each step with input feeding
    assert {record.kind for record in found} == {"cross"}
    close(torch.cat([record.map.weights()[:, 0] for record in found], dim=1), states.weights)


def test_half_precision_and_autocast_keep_probabilities_in_float32():
    model, (source, target) = build(COPYING["transformer"]), sentences()
    exact = model(source, target, LENGTHS)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = model(source, target, LENGTHS)
    assert rounded.dtype == torch.float32
    close(rounded.exp(), exact.exp(), atol=0.05)
    close(rounded.exp().sum(dim=-1), torch.ones(B, T), atol=1e-3)


def test_an_int32_source_is_copied_too():
    model, (source, target) = build(COPYING["transformer"], torch.float64), sentences()
    close(model(source.int(), target, LENGTHS), model(source, target, LENGTHS))


@pytest.mark.parametrize(
    ("config", "settings", "message"),
    [
        (TransformerConfig, {"target_size": 9}, "copy: source_size=7 and target_size=9 differ"),
        (Seq2SeqConfig, {"target_size": 9}, "copy: source_size=7 and target_size=9 differ"),
        (Seq2SeqConfig, {"attention": None}, "copy: copying follows the attention, but attention=None"),
    ],
)
def test_models_that_cannot_copy_are_refused(config, settings, message):
    with pytest.raises(ArgumentError, match=message):
        config(**{"source_size": 7, "target_size": 7, "copy": True, **settings})
    with pytest.raises(DtypeError, match="copy: expected True or False"):
        config(source_size=7, target_size=7, copy=1)


def test_a_memory_of_another_model_is_refused():
    plain = build({"source_size": U})
    model, (source, target) = build(COPYING["transformer"]), sentences()
    with pytest.raises(ArgumentError, match="memory: it has no keys and tokens for the copy attention"):
        model.decode(plain.encode(source), target)


@pytest.mark.parametrize("options", COPYING.values(), ids=COPYING)
def test_a_saved_model_copies_again(tmp_path, options):
    model, (source, target) = build(options), sentences()
    model.save_pretrained(tmp_path)
    close(load_model(tmp_path).eval()(source, target), model(source, target))


def test_models_without_copying_have_the_parameters_of_before():
    model = Transformer(TransformerConfig(source_size=7, target_size=7, width=8, heads=2))
    assert not [name for name in model.state_dict() if "copy" in name or "gate" in name]
    settings = model.config.to_json()
    del settings["copy"]  # as in the folders of earlier versions
    assert TransformerConfig.from_json(settings) == model.config


def test_weights_without_a_copy_attention_are_not_taken_for_a_copying_model(tmp_path):
    build({"source_size": U}).save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(
        path.read_text(encoding="utf-8").replace('"copy": false', '"copy": true'), encoding="utf-8"
    )
    with pytest.raises(FileError, match="copy_attention"):
        load_model(tmp_path)


# ------------------------------------------------------------------- learning to copy

# Ids, ids below which a token is trained on, tokens of a string.
SIZE, SEEN, LENGTH = 400, 300, 4
BOS, EOS = 1, 2


def strings(count: int, first: int, last: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return strings of random tokens as source, target input and target output."""
    tokens = torch.randint(first, last, (count, LENGTH))
    ends = torch.full((count, 1), EOS)
    return (
        torch.cat([tokens, ends], 1),
        torch.cat([ends - EOS + BOS, tokens], 1),
        torch.cat([tokens, ends], 1),
    )


def accuracy_on_unseen_tokens(*, copy: bool) -> float:
    """Train a small model to copy strings, and return the share of strings of unseen tokens that it copies."""
    torch.manual_seed(0)
    config = TransformerConfig(
        source_size=SIZE, target_size=SIZE, width=32, heads=2, feed_forward=64, encoder_layers=1,
        decoder_layers=1, dropout=0.0, shared_embeddings=True, positions="learned", copy=copy,
    )  # fmt: skip
    model = Transformer(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(80):
        source, inputs, outputs = strings(32, 3, SEEN)
        # The logits of a model without copying are normalised here, and log-probabilities do not change.
        loss = torch.nn.functional.cross_entropy(model(source, inputs).flatten(0, 1), outputs.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    source, inputs, outputs = strings(50, SEEN, SIZE)
    return float((model.eval()(source, inputs).argmax(dim=-1) == outputs).all(dim=1).float().mean())


def test_a_copying_model_learns_to_copy_unseen_tokens_and_another_does_not():
    assert accuracy_on_unseen_tokens(copy=True) > 0.9
    assert accuracy_on_unseen_tokens(copy=False) < 0.1
