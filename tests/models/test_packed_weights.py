"""Weights as whole numbers of 4 to 8 bits."""

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.errors import FileError
from regard.models import Encoder, EncoderConfig, load_model
from regard.models.packed_weights import packed, unpacked
from support.small_models import remove_hash

# The largest error, as a share of the standard deviation of normal numbers.
ERRORS = {8: 0.02, 6: 0.07, 5: 0.14, 4: 0.3}


@pytest.mark.parametrize("bits", ERRORS)
def test_rounding_errors_are_those_of_the_bits(bits):
    torch.manual_seed(bits)
    matrix = torch.randn(67, 71)  # not a multiple of the group
    small = packed({"m": matrix, "vector": torch.randn(5), "count": torch.tensor([3])}, bits)
    assert small["m"].dtype == torch.uint8
    assert small["m"].numel() == -(-67 * 71 * bits // 8)
    assert small["vector"].dtype == torch.float16
    again = unpacked(small, "here")
    assert set(again) == {"m", "vector", "count"}
    error = (again["m"] - matrix).pow(2).mean().sqrt()
    assert ERRORS[bits] / 5 < error < ERRORS[bits]


def test_zeros_and_large_numbers_are_kept():
    matrix = torch.zeros(64, 64)
    matrix[3, 5] = 1000.0
    torch.testing.assert_close(unpacked(packed({"m": matrix}, 8), "here")["m"], matrix, rtol=1e-2, atol=0)


@pytest.fixture
def folder(tmp_path):
    torch.manual_seed(0)
    config = EncoderConfig(vocabulary_size=2111, width=32, heads=2, feed_forward=128, layers=1)
    Encoder(config).save_pretrained(tmp_path, dtype="int8")
    return tmp_path


def test_a_model_is_saved_and_loaded(folder):
    torch.manual_seed(0)
    whole = Encoder(EncoderConfig(vocabulary_size=2111, width=32, heads=2, feed_forward=128, layers=1)).eval()
    tokens = torch.arange(13)[None]
    torch.testing.assert_close(load_model(folder)(tokens), whole(tokens), atol=0.05, rtol=0)
    numbers = sum(p.numel() for p in whole.parameters())
    assert (folder / "model.safetensors").stat().st_size < 1.6 * numbers


DAMAGES = {
    "cut": lambda t: t | {"embedding.tokens.weight": t["embedding.tokens.weight"][:-1]},
    "scales": lambda t: t | {"embedding.tokens.weight:scales": torch.zeros(3, dtype=torch.float16)},
    "no scales": lambda t: {name: one for name, one in t.items() if name != "embedding.tokens.weight:scales"},
    "bits": lambda t: t | {"embedding.tokens.weight:shape": torch.tensor([7, 2111, 32])},
    "shape": lambda t: t | {"embedding.tokens.weight:shape": torch.tensor([8, 2**40, 2**40])},
    "negative": lambda t: t | {"embedding.tokens.weight:shape": torch.tensor([8, -2111, -32])},
    "no shape": lambda t: t | {"embedding.tokens.weight:shape": torch.zeros(0, dtype=torch.int64)},
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_packed_weights_are_refused(folder, damage):
    path = folder / "model.safetensors"
    save_file(damage(load_file(path)), path)
    remove_hash(folder)
    with pytest.raises(FileError, match=r"(model.safetensors|config.json): .*embedding.tokens.weight"):
        load_model(folder)
