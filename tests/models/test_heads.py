"""Tests of encoders, heads and classifiers, with padding, gradients, saving and training in two processes."""

from __future__ import annotations

import socket
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from regard import models, reference
from regard.errors import ArgumentError, RegardError, UnknownNameError
from regard.models import (
    Decoder,
    DecoderConfig,
    Encoder,
    EncoderConfig,
    LanguageModel,
    LanguageModelConfig,
    Memory,
    TextClassifier,
    TextClassifierConfig,
    load_model,
)
from regard.models.heads import (
    AdditivePooling,
    FirstPooling,
    LanguageHead,
    MeanPooling,
    MultiHeadPooling,
    SpanHead,
    make_pooling,
)
from support.small_models import LENGTHS, B, S, V, build, close, sentences

POOLINGS = ("mean", "first", "additive", "multihead")
C = 3  # classes
SIZES = {"vocabulary_size": V, "width": 24, "feed_forward": 13, "dropout": 0.0, "layers": 2}


def padded(states: torch.Tensor, value: float) -> torch.Tensor:
    """Return states ``(b,n,m)`` with ``value`` at the padding."""
    return states.masked_fill((torch.arange(S) >= LENGTHS[:, None])[..., None], value)


# ------------------------------------------------------------------- encoders and decoders


@pytest.mark.parametrize("layers", [0, 2])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_states_of_a_padded_sequence_are_those_of_it_alone(norm, layers):
    torch.manual_seed(0)
    encoder = Encoder(EncoderConfig(**{**SIZES, "norm": norm, "layers": layers})).double().eval()
    source, _ = sentences()
    together = encoder(source, LENGTHS)
    assert together.shape == (B, S, 24)
    for b, length in enumerate(LENGTHS.tolist()):
        close(together[b : b + 1, :length], encoder(source[b : b + 1, :length]))


def test_an_encoder_has_no_output_layer_and_needs_no_target_size():
    encoder = Encoder(EncoderConfig(**SIZES))
    assert not any("output" in name or "decoder" in name for name, _ in encoder.named_parameters())
    with pytest.raises(TypeError, match="target_size"):
        EncoderConfig(**SIZES, target_size=5)


def test_the_decoder_of_a_language_model_is_a_decoder():
    _, target = sentences()
    model = LanguageModel(LanguageModelConfig(**SIZES)).eval()
    decoder = Decoder(DecoderConfig(**SIZES)).eval()
    decoder.load_state_dict(model.decoder.state_dict())
    target = target.clamp(max=V - 1)
    close(model.output(decoder(target)), model(target))


def test_a_language_model_with_cross_attention_reads_a_memory():
    """The states need not come from an encoder of text, as in a captioner."""
    torch.manual_seed(0)
    model = LanguageModel(LanguageModelConfig(**SIZES, cross_attention=True)).eval()
    tokens, states = torch.randint(V, (B, 5)), torch.randn(B, S, 24)
    seen = model(tokens, Memory(states, LENGTHS))
    close(seen, model(tokens, Memory(padded(states, 9.0), LENGTHS)))
    assert (seen - model(tokens, Memory(states + 1, LENGTHS))).abs().max() > 1e-3
    state = model.start(Memory(states, LENGTHS))
    steps = [model.output(model.step(tokens[:, t : t + 1], state)) for t in range(5)]
    close(torch.cat(steps, dim=1), seen)


# ------------------------------------------------------------------- heads


@pytest.mark.parametrize("kind", POOLINGS)
def test_padding_does_not_change_a_pooling(kind):
    torch.manual_seed(0)
    pool = make_pooling(kind, 24, 4).double()
    states = torch.randn(B, S, 24, dtype=torch.float64)
    pooled = pool(states, LENGTHS)
    assert pooled.shape == (B, 24)
    close(pool(padded(states, 1e3), LENGTHS), pooled)
    for b, length in enumerate(LENGTHS.tolist()):
        close(pool(states[b : b + 1, :length]), pooled[b : b + 1])
    empty = pool(states, torch.tensor([7, 0, 5]))
    assert empty.isfinite().all()


def test_mean_and_first_pooling_are_those_computed_by_hand():
    states = torch.tensor([[[1.0, 10.0], [3.0, 30.0], [8.0, 80.0]]])
    assert MeanPooling()(states, torch.tensor([2])).tolist() == [[2.0, 20.0]]
    assert MeanPooling()(states).tolist() == [[4.0, 40.0]]
    assert FirstPooling()(states, torch.tensor([2])).tolist() == [[1.0, 10.0]]


@torch.no_grad()
def test_additive_pooling_is_the_additive_attention_of_the_reference():
    torch.manual_seed(0)
    pool = AdditivePooling(11).double()
    nn.init.normal_(pool.query)
    states = torch.randn(2, 5, 11, dtype=torch.float64)
    keys = pool.W(states).numpy()
    scores = np.tanh(keys + pool.query.numpy()) @ pool.v.numpy()
    expected = np.einsum("bn,bnm->bm", reference.softmax(scores), states.numpy())
    close(pool(states), torch.from_numpy(expected))


@torch.no_grad()
def test_multi_head_pooling_is_torchs_attention_of_one_query():
    torch.manual_seed(0)
    pool = MultiHeadPooling(24, 4).double()
    states = torch.randn(B, S, 24, dtype=torch.float64)
    theirs = pool.attention.to_torch()
    hidden = torch.arange(S) >= LENGTHS[:, None]
    expected, _ = theirs(pool.query.expand(B, -1, -1), states, states, key_padding_mask=hidden)
    close(pool(states, LENGTHS), expected[:, 0])


def test_a_span_is_never_in_the_padding():
    torch.manual_seed(0)
    start, end = SpanHead(24)(torch.randn(B, S, 24), LENGTHS)
    outside = torch.arange(S) >= LENGTHS[:, None]
    for logits in (start, end):
        assert (logits.softmax(-1)[outside] == 0).all()
        assert logits[~outside].isfinite().all()


def test_a_tied_head_trains_its_table():
    table = nn.Embedding(5, 4)
    LanguageHead(4, 5, tied_to=table)(torch.ones(2, 4)).sum().backward()
    assert table.weight.grad is not None


def test_wrong_settings_of_heads_are_refused():
    with pytest.raises(UnknownNameError, match="pooling: unknown name 'men': did you mean 'mean'"):
        make_pooling("men", 24)
    for options, text in (
        ({"pooling": "last"}, "pooling: unknown name 'last'"),
        ({"classes": 0}, "classes: expected a whole number of 1 or more, got 0"),
        ({"layers": -1}, "layers: expected a whole number of 0 or more"),
        ({"vocabulary_size": 0}, "vocabulary_size: expected a whole number of 1 or more"),
    ):
        with pytest.raises(RegardError, match=text):
            TextClassifierConfig(**{**SIZES, "classes": C, **options})
    with pytest.raises(ArgumentError, match="lengths: expected 0 to 7, got 9: tokens has 7 columns"):
        build({"classes": C})(sentences()[0], LENGTHS + 2)


# ------------------------------------------------------------------- classifiers


@pytest.mark.parametrize("layers", [0, 2])
@pytest.mark.parametrize("kind", POOLINGS)
def test_a_classifier_has_a_gradient_for_every_parameter(kind, layers):
    model = build({"classes": C, "pooling": kind, "layers": layers, "positions": "learned"})
    source, _ = sentences()
    nn.functional.cross_entropy(model(source, LENGTHS), torch.tensor([0, 2, 1])).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert name.endswith("W_k.bias") or parameter.grad.abs().max() > 1e-12, name


@pytest.mark.parametrize("kind", POOLINGS)
def test_padding_does_not_change_the_logits_of_a_classifier(kind):
    model, (source, _) = build({"classes": C, "pooling": kind}, torch.float64), sentences()
    together = model(source, LENGTHS)
    assert together.shape == (B, C)
    for b, length in enumerate(LENGTHS.tolist()):
        close(model(source[b : b + 1, :length]), together[b : b + 1])


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "relative", "rotary"])
@pytest.mark.parametrize("kind", POOLINGS)
def test_a_classifier_is_saved_and_loaded_in_every_way(kind, positions, tmp_path):
    options = {"classes": C, "pooling": kind, "positions": positions}
    model, (source, _) = build(options), sentences()
    expected = model(source, LENGTHS)
    save_file(model.state_dict(), tmp_path / "state.safetensors")
    other = build(options, seed=5)
    other.load_state_dict(load_file(tmp_path / "state.safetensors"), strict=True)
    close(other(source, LENGTHS), expected, 1e-6)
    model.save_pretrained(tmp_path)
    for again in (TextClassifier.from_pretrained(tmp_path), load_model(tmp_path)):
        assert again.config == model.config
        close(again(source, LENGTHS), expected, 1e-6)
    model.encoder.save_pretrained(tmp_path / "encoder")
    encoder = Encoder.from_pretrained(tmp_path / "encoder")
    close(encoder(source, LENGTHS), model.encoder(source, LENGTHS), 1e-6)


@pytest.mark.parametrize("tied", [True, False])
def test_a_language_model_is_saved_and_loaded_in_every_way(tied, tmp_path):
    model = build({"vocabulary_size": V, "tied_output": tied})
    source, _ = sentences()
    save_file(model.state_dict(), tmp_path / "state.safetensors")
    other = build({"vocabulary_size": V, "tied_output": tied}, seed=5)
    other.load_state_dict(load_file(tmp_path / "state.safetensors"), strict=True)
    model.save_pretrained(tmp_path)
    for again in (other, LanguageModel.from_pretrained(tmp_path)):
        close(again(source), model(source), 1e-6)
        assert (again.output.weight is again.decoder.embedding.tokens.weight) == tied


def test_the_state_dict_of_a_transformer_goes_into_a_file(tmp_path):
    """Encoder and decoder share their table of positions, which safetensors refuses to write twice."""
    model = build({"shared_embeddings": True, "source_size": 19})
    save_file(model.state_dict(), tmp_path / "state.safetensors")
    other = build({"shared_embeddings": True, "source_size": 19}, seed=5)
    other.load_state_dict(load_file(tmp_path / "state.safetensors"), strict=True)
    source, target = sentences()
    close(other(source, target), model(source, target), 1e-6)


IN_TWO_PROCESSES = """
import sys
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from regard.models import TextClassifier, TextClassifierConfig

rank, port, pooling = int(sys.argv[1]), sys.argv[2], sys.argv[3]
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
torch.manual_seed(0)
config = TextClassifierConfig(vocabulary_size=17, classes=3, width=8, heads=2, layers=2, feed_forward=16,
                          dropout=0.0, pooling=pooling)
model = DistributedDataParallel(TextClassifier(config))
alone = TextClassifier(config)
alone.load_state_dict(model.module.state_dict())
tokens, labels = torch.randint(17, (6, 5)), torch.randint(3, (6,))
lengths = torch.tensor([5, 2, 4, 3, 5, 1])
mine = slice(rank * 3, rank * 3 + 3)
for _ in range(2):  # a parameter without a gradient stops the second step
    model.zero_grad()
    nn.functional.cross_entropy(model(tokens[mine], lengths[mine]), labels[mine]).backward()
nn.functional.cross_entropy(alone(tokens, lengths), labels).backward()
for (name, ours), whole in zip(model.module.named_parameters(), alone.parameters()):
    torch.testing.assert_close(ours.grad, whole.grad, rtol=0, atol=1e-6, msg=name)
dist.destroy_process_group()
print("same")
"""


@pytest.mark.parametrize("kind", ["mean", pytest.param("additive", marks=pytest.mark.slow), "multihead"])
def test_a_classifier_trains_in_two_processes(kind):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    commands = [[sys.executable, "-c", IN_TWO_PROCESSES, rank, port, kind] for rank in ("0", "1")]
    started = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for command in commands
    ]
    for process in started:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert out == "same\n"


def test_a_part_of_a_model_has_the_settings_of_the_part():
    model = TextClassifier(TextClassifierConfig(**SIZES, classes=C, norm="post"))
    assert model.encoder.config == EncoderConfig(**SIZES, norm="post")


def test_a_saved_classifier_keeps_the_kind_of_earlier_versions():
    settings = TextClassifierConfig(**SIZES, classes=C).to_json()
    assert settings["kind"] == "classifier"
    assert models.KINDS["classifier"] == (TextClassifierConfig, TextClassifier)


@pytest.mark.parametrize("old", ["Classifier", "ClassifierConfig"])
def test_the_old_name_of_the_classifier_still_works_and_names_the_new_one(old):
    with pytest.warns(DeprecationWarning, match=f"regard.models.{old} is now regard.models.Text{old}"):
        assert getattr(models, old) is getattr(models, f"Text{old}")
    with pytest.raises(AttributeError, match="no attribute 'Clasifier'"):
        models.Clasifier  # noqa: B018
