"""Tests of rotary positions against Hugging Face, with every scaling, both layouts and partial heads."""

import pytest
import torch

from regard import MultiHeadAttention, Rotary, attention_weights
from regard.errors import ArgumentError, DtypeError, UnknownNameError

transformers = pytest.importorskip("transformers", reason="needs  pip install 'regard[hf]'")

from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS  # noqa: E402
from transformers.models.gptj.modeling_gptj import (  # noqa: E402
    apply_rotary_pos_emb as gptj_turned,
)
from transformers.models.gptj.modeling_gptj import create_sinusoidal_positions  # noqa: E402
from transformers.models.llama.modeling_llama import (  # noqa: E402
    LlamaRotaryEmbedding,
)
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as llama_turned  # noqa: E402

B, H, N, D = 2, 3, 7, 16
TRAINED = 64
SCALINGS = {
    "linear": {"rope_type": "linear", "factor": 2.5},
    "dynamic": {"rope_type": "dynamic", "factor": 3.0, "original_max_position_embeddings": TRAINED},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": TRAINED,
    },
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": TRAINED},
    "yarn, all numbers": {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": TRAINED,
        "beta_fast": 16,
        "beta_slow": 2,
        "mscale": 0.7,
        "mscale_all_dim": 1.3,
        "truncate": False,
    },
    "yarn, own factor": {
        "rope_type": "yarn",
        "factor": 4.0,
        "attention_factor": 1.7,
        "original_max_position_embeddings": TRAINED,
    },
}


def config(scaling: dict, base: float = 1000.0):
    return transformers.LlamaConfig(
        hidden_size=H * D,
        num_attention_heads=H,
        head_dim=D,
        max_position_embeddings=TRAINED,
        rope_parameters={"rope_theta": base, **scaling},
    )


@pytest.mark.parametrize("length", [5, TRAINED, 3 * TRAINED])
@pytest.mark.parametrize("scaling", SCALINGS.values(), ids=SCALINGS)
def test_frequencies_are_those_of_hugging_face(scaling, length):
    rotary = Rotary(D, 1000.0, scaling=scaling)
    want, factor = ROPE_INIT_FUNCTIONS[scaling["rope_type"]](config(scaling), "cpu", seq_len=length)
    torch.testing.assert_close(rotary.inv_freq(length), want, rtol=2e-6, atol=0)
    assert rotary.attention_factor == pytest.approx(factor)
    assert not torch.allclose(rotary.inv_freq(length), Rotary(D, 1000.0).inv_freq()) or (
        scaling["rope_type"] == "dynamic" and length <= TRAINED
    )


@pytest.mark.parametrize("n", [N, 2 * TRAINED])
@pytest.mark.parametrize(
    "scaling", [{"rope_type": "default"}, *SCALINGS.values()], ids=["default", *SCALINGS]
)
def test_rotation_equals_llama(scaling, n):
    q, k = torch.randn(B, H, n, D), torch.randn(B, H, n, D)
    cos, sin = LlamaRotaryEmbedding(config(scaling))(q, torch.arange(n)[None])
    for got, want in zip(
        Rotary(D, 1000.0, layout="llama", scaling=scaling)(q, k), llama_turned(q, k, cos, sin), strict=True
    ):
        torch.testing.assert_close(got, want, rtol=0, atol=2e-4)


@pytest.mark.parametrize("rotary_dim", [4, D])
def test_rotation_equals_gpt_j(rotary_dim):
    x = torch.randn(B, N, H, D)  # its heads stand behind the positions
    table = create_sinusoidal_positions(N, rotary_dim)[None].expand(B, -1, -1)
    sin, cos = table.chunk(2, dim=-1)
    want = torch.cat([gptj_turned(x[..., :rotary_dim], sin, cos), x[..., rotary_dim:]], dim=-1)
    got = Rotary(D, layout="gpt-j", rotary_dim=rotary_dim).rotate(x.transpose(1, 2), torch.arange(N))
    torch.testing.assert_close(got.transpose(1, 2), want, rtol=0, atol=1e-5)


@pytest.mark.parametrize("layout", ["llama", "gpt-j"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_columns_beyond_rotary_dim_are_unchanged(layout, dtype):
    x = torch.randn(B, H, N, D, dtype=dtype)
    rotary = Rotary(D, layout=layout, rotary_dim=6)
    turned = rotary.rotate(x, torch.arange(N))
    assert turned.dtype == dtype
    assert torch.equal(turned[..., 6:], x[..., 6:])
    assert not torch.equal(turned[..., 1:, :6], x[..., 1:, :6])
    assert torch.equal(turned[..., :6], Rotary(6, layout=layout).rotate(x[..., :6], torch.arange(N)))
    wide = x.double()
    i, j = torch.arange(N), torch.arange(N) + 100
    here = attention_weights(rotary.rotate(wide, i), rotary.rotate(wide, i))
    torch.testing.assert_close(attention_weights(rotary.rotate(wide, j), rotary.rotate(wide, j)), here)


def test_a_layer_takes_every_scaling():
    rotary = Rotary(4, layout="llama", rotary_dim=2, scaling=SCALINGS["yarn"])
    layer = MultiHeadAttention(12, 3, rotary=rotary)
    assert layer(torch.randn(B, N, 12))[0].shape == (B, N, 12)
    assert "layout='llama', rotary_dim=2, scaling={'rope_type': 'yarn'" in repr(layer)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"layout": "neox"}, UnknownNameError, "layout: unknown name 'neox'.*gpt-j, llama"),
        ({"rotary_dim": 18}, ArgumentError, "rotary_dim: 18 columns cannot be rotated in heads of width 16"),
        ({"rotary_dim": 3}, ArgumentError, "rotary_dim: expected an even number, got 3"),
        ({"scaling": "linear"}, DtypeError, "scaling: expected a dict, got str"),
        ({"scaling": {"rope_type": "lineal", "factor": 2}}, UnknownNameError, "did you mean 'linear'"),
        ({"scaling": {"rope_type": "linear"}}, ArgumentError, "'linear' needs factor"),
        (
            {"scaling": {"rope_type": "dynamic", "factor": 2}},
            ArgumentError,
            "original_max_position_embeddings",
        ),
        ({"scaling": {"rope_type": "linear", "factor": -1}}, ArgumentError, "above 0 as factor, got -1"),
        (
            {"scaling": {"rope_type": "linear", "factor": 2, "beta_fast": 3}},
            ArgumentError,
            "does not use beta_fast",
        ),
        ({"scaling": {"rope_type": "default", "rope_theta": 5e5}}, ArgumentError, "pass base="),
    ],
)
def test_wrong_settings_are_refused(options, error, words):
    with pytest.raises(error, match=words):
        Rotary(D, **options)
