"""Tests of the mask argument of torch's attention, with low numbers, causal biases and unknown classes."""

import pytest
import torch

from regard.capture.reading.masks import MaskReader, is_causal_mask
from regard.errors import CaptureError
from regard.masks import causal
from regard.masks.rules import Causal
from regard.shapes import Grid
from support.capture_cases import B, D, H, K, Plain, Q, qkv, seen_of

LOWEST = torch.finfo(torch.float32).min


def test_a_row_swamped_by_one_number_is_uniform_over_the_visible_keys():
    q, k, v = qkv()
    mask = torch.zeros(B, 1, Q, K)
    mask[1, :, 2] = LOWEST
    mask[1, :, 2, 2:] = float("-inf")
    seen, out = seen_of(Plain(), q, k, v, attn_mask=mask)
    found = seen[0].map
    assert torch.allclose(found.weights()[1, :, 2], torch.tensor([0.5, 0.5] + [0.0] * (K - 2)))
    assert torch.allclose(found[1, :, 2, :2], torch.full((H, 2), 0.5))  # a part, by the log-sum-exp
    assert torch.allclose(found.weights() @ v, out, atol=1e-6)


@pytest.mark.parametrize("number", [-1e4, -1e9, LOWEST])
def test_large_negative_numbers_above_the_diagonal_are_a_causal_mask(number):
    q, k, v = qkv(keys=Q)
    mask = torch.full((Q, Q), number).triu(1)
    seen, out = seen_of(Plain(), q, k, v, attn_mask=mask)
    assert seen[0].kind == "causal"
    assert seen[0].map._source.bias is None
    assert isinstance(seen[0].map._source.mask, Causal)
    expected = torch.softmax(q @ k.transpose(-2, -1) * D**-0.5 + mask, dim=-1)
    assert (seen[0].map.weights() - expected).abs().max() < 1e-6
    assert torch.allclose(seen[0].map.weights() @ v, out, atol=1e-6)


ROWS = {
    "all the same": [-1e9] * 7,
    "low, and lower": [-1e9, -2e9, -1e9, -2e9, -1e9, -1e9, -2e9],
    "low, and the lowest": [-1e9, LOWEST, -1e9, LOWEST, -1e9, -1e9, LOWEST],
    "about the limit": [-9999.0, -10000.0, -9998.0, -10001.0, -9999.0, -10000.0, -9997.0],
    "below the limit": [-10001.0, -10000.0, -10002.0, -10001.0, -12000.0, -10000.0, -10003.0],
    "one that stays": [-1e9, -1e9, 0.0, -1e4, -1e9, -3e38, -1e5],
    "a bias": [-3.0, -50.0, -5000.0, 0.0, 2.0, -9000.0, -1e4],
    "lowest, and not quite": [LOWEST, -3e38, LOWEST, -3e38, LOWEST, LOWEST, LOWEST],
    "lowest and hidden": [LOWEST, LOWEST, float("-inf"), float("-inf"), LOWEST, LOWEST, LOWEST],
}


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_low_mask_values_give_the_weights_of_softmax(row, dtype):
    q, k, v = (x.to(dtype) for x in qkv())
    mask = torch.zeros(Q, K, dtype=dtype)
    mask[2] = torch.tensor(ROWS[row], dtype=dtype)
    seen, _ = seen_of(Plain(), q, k, v, attn_mask=mask)
    expected = torch.softmax(q @ k.transpose(-2, -1) * D**-0.5 + mask, dim=-1)
    assert (seen[0].map.weights() - expected).abs().max() < 1e-6
    assert (seen[0].map[:, :, 1:4, 1:6] - expected[:, :, 1:4, 1:6]).abs().max() < 1e-6


def test_a_low_number_at_the_only_visible_key_does_not_hide_it():
    mask = torch.zeros(3, 3)
    mask[0, 0] = -1e9  # the only visible key of the first row
    reading = MaskReader().read(mask, True, Grid(1, 1, 3, 3))
    assert reading.mask.dense(Grid(1, 1, 3, 3))[0, 0].tolist() == torch.ones(3, 3).bool().tril().tolist()


@pytest.mark.parametrize("keys", [Q, K])
@pytest.mark.parametrize("corner", ["upper_left", "lower_right"])
def test_the_causal_bias_of_torch_is_read_as_a_mask(corner, keys):
    from torch.nn.attention import bias

    mask = getattr(bias, f"causal_{corner}")(Q, keys)
    q, k, v = qkv(keys=keys)
    seen, out = seen_of(Plain(), q, k, v, attn_mask=mask)
    assert torch.equal(out, Plain()(q, k, v, attn_mask=mask))
    assert torch.allclose(seen[0].map.weights() @ v, out, atol=1e-6)
    assert seen[0].kind == "causal"


def test_a_mask_of_an_unknown_class_is_refused():
    class Odd(torch.Tensor):
        pass

    mask = torch.zeros(Q, K).as_subclass(Odd)
    with pytest.raises(CaptureError, match="attn_mask: a mask of the class Odd cannot be read"):
        seen_of(Plain(), *qkv(), attn_mask=mask)
    with pytest.raises(TypeError, match="attn_mask"):  # torch's own words
        seen_of(Plain(), *qkv(), attn_mask=[1])


def test_a_mask_that_looks_ahead_is_not_causal():
    grid = Grid(1, 1, Q, Q)
    assert is_causal_mask(causal(0), grid)
    assert not is_causal_mask(causal(2), grid)
    keep = torch.ones(Q, Q, dtype=torch.bool).tril(2)
    seen, _ = seen_of(Plain(), *qkv(keys=Q), attn_mask=keep)
    assert seen[0].kind == "self"


def test_the_lowest_float16_mask_value_keeps_the_scores_of_its_row():
    q, k, v = qkv(torch.float16)
    q = q * 3
    mask = torch.zeros(Q, K, dtype=torch.float16)
    mask[2] = torch.finfo(torch.float16).min
    seen, _ = seen_of(Plain(), q, k, v, attn_mask=mask)
    scores = q.float() @ k.float().transpose(-2, -1) * D**-0.5 + mask.float()
    expected = torch.softmax(scores, dim=-1)
    assert (expected[:, :, 2] - 1 / K).abs().max() > 0.1
    assert (seen[0].map.weights() - expected).abs().max() < 1e-3
    assert MaskReader().read(mask.float(), False, Grid(B, H, Q, K)).even is None
