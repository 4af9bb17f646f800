"""The modules that a capture watches, and their names."""

from __future__ import annotations

import pytest
from torch import nn

from regard.capture.watching.watched_modules import is_simple, may_attend, named_modules


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
