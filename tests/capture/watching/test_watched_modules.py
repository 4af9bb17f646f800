"""The modules that a capture watches, and their names."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.capture.watching.watched_modules import is_simple, may_attend, named_modules, parts_called_by


def test_module_names_are_those_of_torch_in_the_same_order():
    shared = nn.Linear(2, 3)
    model = nn.Sequential(nn.TransformerEncoderLayer(4, 2), nn.Sequential(shared, nn.ReLU()), shared)
    model[1].register_module("absent", None)
    expected = {module: name or "Sequential" for name, module in model.named_modules()}
    assert list(named_modules(model).items()) == list(expected.items())


def test_a_layer_norm_of_hugging_face_is_not_watched():
    deberta = pytest.importorskip("transformers.models.deberta.modeling_deberta")
    norm = deberta.DebertaLayerNorm(4)
    assert is_simple(norm)
    assert not may_attend(norm)


def test_an_encoder_whose_class_ends_like_a_norm_is_watched():
    wav2vec2 = pytest.importorskip("transformers.models.wav2vec2.modeling_wav2vec2")
    config = wav2vec2.Wav2Vec2Config(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=4
    )
    encoder = wav2vec2.Wav2Vec2EncoderStableLayerNorm(config)
    for module in (encoder, encoder.layers[0]):
        assert type(module).__name__.endswith("LayerNorm")
        assert may_attend(module)
        assert not is_simple(module)


FORWARDS = {
    "parts": lambda self, x: self.norm(x + self.dense(x) * 2),
    "matrix product": lambda self, x: self.dense(x) @ x,
    "index": lambda self, x: self.dense(x)[x],
    "slice": lambda self, x: self.dense(x)[:, 1:],
    "function": lambda self, x: torch.softmax(self.dense(x), -1),
    "method": lambda self, x: self.dense(x).softmax(-1),
    "loop": lambda self, x: sum(self.dense(part) for part in x),
    "argument": lambda self, x, attend=torch.softmax: attend(self.dense(x), -1),
    "keyword": lambda self, x, *, attend=torch.softmax: attend(self.dense(x), -1),
}


@pytest.mark.parametrize("way", FORWARDS)
def test_only_a_forward_of_parts_and_arithmetic_is_known_by_its_code(way):
    called = parts_called_by(type("Some", (nn.Module,), {"forward": FORWARDS[way]}))
    if way == "method":  # a name that is no part of the module
        assert called == ("dense", "softmax")
    else:
        assert called == (("norm", "dense") if way == "parts" else None)


def test_a_forward_with_a_variable_of_a_function_around_it_is_not_known():
    attend = torch.softmax
    kind = type("Some", (nn.Module,), {"forward": lambda self, x: attend(self.dense(x), -1)})
    assert parts_called_by(kind) is None
