"""Tests of positions against the published formulas, at any length and width, and after saving."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import ArgumentError, ShapeError
from regard.positions import (
    ALiBi,
    LearnedPositionalEncoding,
    PositionalEncoding,
    RelativeBias,
    Rotary,
    bias_from_spec,
    sinusoidal,
)
from regard.reference import sinusoidal_positions
from regard.shapes import Grid

B, H, Q, K, D = 2, 3, 5, 7, 11


# ---- sines and cosines -------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 300), st.integers(1, 17), st.integers(0, 20))
def test_sinusoidal_is_the_oracle_from_any_start(length, width, start):
    table = sinusoidal(length, width, start=start, dtype=torch.float64)
    np.testing.assert_allclose(table, sinusoidal_positions(start + length, width)[start:], atol=1e-9)


def test_sinusoidal_positions_are_those_computed_by_hand():
    assert sinusoidal(2, 4)[1].tolist() == pytest.approx(
        [math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)], abs=1e-7
    )


def test_half_precision_table_is_the_rounded_float32_table():
    assert torch.equal(sinusoidal(3000, 6, dtype=torch.bfloat16), sinusoidal(3000, 6).bfloat16())


@pytest.mark.parametrize("width", [1, 6, D])
def test_encoding_adds_the_table_and_keeps_the_buffer_shape(width):
    encode = PositionalEncoding(width, max_len=K)
    x = torch.randn(B, Q, width)
    torch.testing.assert_close(encode(x), x + sinusoidal(Q, width), rtol=0, atol=1e-6)
    longer = torch.randn(B, 3 * K, width)
    torch.testing.assert_close(encode(longer), longer + sinusoidal(3 * K, width), rtol=0, atol=1e-6)
    assert encode.pe.shape == (1, K, width)
    assert list(encode.state_dict()) == ["pe"]


def test_default_buffer_is_the_documents():
    assert PositionalEncoding(8).pe.shape == (1, 5000, 8)


@pytest.mark.parametrize(
    "encode",
    [PositionalEncoding(6, max_len=9), LearnedPositionalEncoding(6, max_len=16)],
    ids=["sines", "learned"],
)
def test_step_by_step_is_the_whole(encode):
    # 13 > 9: crosses the end of the stored table.
    x = torch.randn(B, 13, 6)
    steps = torch.cat([encode(x[:, n : n + 1], start=n) for n in range(13)], dim=1)
    torch.testing.assert_close(steps, encode(x), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_encodings_keep_the_dtype(dtype):
    x = torch.zeros(B, Q, 4, dtype=dtype)
    assert PositionalEncoding(4)(x).dtype == dtype
    assert LearnedPositionalEncoding(4, 9)(x).dtype == dtype


def test_learned_encoding_trains_its_rows_only():
    encode = LearnedPositionalEncoding(4, max_len=K)
    encode(torch.zeros(B, Q, 4)).sum().backward()
    grad = encode.pos_embedding.weight.grad
    assert grad is not None
    assert grad[:Q].eq(B).all()
    assert grad[Q:].eq(0).all()


def test_learned_encoding_says_how_to_go_beyond_its_end():
    with pytest.raises(ShapeError, match=r"x: 9 positions, but only 8 are learned: build it with max_len=9"):
        LearnedPositionalEncoding(4, max_len=8)(torch.zeros(1, 2, 4), start=7)


@pytest.mark.parametrize(
    "encode", [PositionalEncoding(4), LearnedPositionalEncoding(4)], ids=["sines", "learned"]
)
def test_wrong_width_and_start_are_named(encode):
    with pytest.raises(ShapeError, match=r"x: expected \(b,n,m\) with m = 4, got \(2,5,3\)"):
        encode(torch.zeros(2, 5, 3))
    with pytest.raises(ArgumentError, match="start"):
        encode(torch.zeros(2, 5, 4), start=-1)


# ---- rotary ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["gpt-j", "llama"])
@settings(max_examples=20, deadline=None)
@given(i=st.integers(0, 50), j=st.integers(0, 50), shift=st.integers(-1000, 1000))
def test_rotary_scores_depend_on_the_distance_only(layout, i, j, shift):
    rotary = Rotary(6, layout=layout)
    q = torch.linspace(-1, 2, 6, dtype=torch.float64)[None]
    k = torch.linspace(3, 1, 6, dtype=torch.float64)[None]

    def score(i, j):
        return rotary.rotate(q, torch.tensor([i])) @ rotary.rotate(k, torch.tensor([j])).T

    torch.testing.assert_close(score(i, j), score(i + shift, j + shift), rtol=0, atol=1e-9)
    if i != j:
        assert not torch.allclose(score(i, j), score(i, i), atol=1e-6)


def test_rotary_angles_are_those_computed_by_hand():
    x = torch.tensor([[1.0, 0.0, 1.0, 0.0]])
    one = torch.tensor([1])
    c, s, c2, s2 = math.cos(1), math.sin(1), math.cos(0.01), math.sin(0.01)
    assert Rotary(4).rotate(x, one)[0].tolist() == pytest.approx([c, s, c2, s2], abs=1e-7)
    halves = Rotary(4, layout="llama").rotate(x, one)[0].tolist()  # pairs (0,2) and (1,3)
    assert halves == pytest.approx([c - s, 0, s + c, 0], abs=1e-7)


def test_rotary_keeps_lengths_and_leaves_position_zero_alone():
    x = torch.randn(B, H, K, 6)
    turned = Rotary(6).rotate(x, torch.arange(K))
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1))
    assert torch.equal(turned[..., 0, :], x[..., 0, :])


def test_rotary_aligns_at_the_end():
    rotary = Rotary(6)
    q, k = torch.randn(B, H, Q, 6), torch.randn(B, H, K, 6)
    turned, _ = rotary(q, k)
    torch.testing.assert_close(turned, rotary.rotate(q, torch.arange(K - Q, K)), rtol=0, atol=0)
    moved, _ = rotary(q, k, offset=4)
    torch.testing.assert_close(moved, rotary.rotate(q, torch.arange(4, 4 + Q)), rtol=0, atol=0)
    each, _ = rotary(q, k, offset=torch.tensor([K - Q, 4]))
    torch.testing.assert_close(each, torch.stack([turned[0], moved[1]]), rtol=0, atol=0)


def test_rotary_is_accurate_in_half_precision_at_a_far_position():
    x = torch.randn(1, 8).bfloat16()
    far = torch.tensor([100_003])
    exact = Rotary(8).rotate(x.double(), far)
    torch.testing.assert_close(Rotary(8).rotate(x, far).double(), exact, rtol=0.02, atol=0.02)


def test_rotary_refuses_what_it_cannot_pair():
    with pytest.raises(ArgumentError, match=r"head_dim: expected an even number, got 11"):
        Rotary(D)
    with pytest.raises(ShapeError, match="width 8"):
        Rotary(6).rotate(torch.zeros(2, 8), torch.arange(2))
    with pytest.raises(ShapeError, match="3 positions for 2 rows"):
        Rotary(6).rotate(torch.zeros(2, 6), torch.arange(3))


def test_rotary_survives_half_and_has_no_state():
    rotary = Rotary(6)
    x = torch.randn(3, 6)
    before = rotary.rotate(x, torch.arange(3))
    assert torch.equal(rotary.half().rotate(x, torch.arange(3)), before)
    assert not rotary.state_dict()


# ---- ALiBi -------------------------------------------------------------------------------------------------


def test_alibi_slopes_are_the_published_ones():
    assert ALiBi(8).slopes.tolist() == [2.0**-n for n in range(1, 9)]
    # BLOOM's rule for 12 heads: the 8 slopes, then every second of the 16.
    wanted = [2.0**-n for n in range(1, 9)] + [2.0 ** -(n / 2) for n in (1, 3, 5, 7)]
    torch.testing.assert_close(ALiBi(12).slopes, torch.tensor(wanted))
    for heads in range(1, 40):
        assert len(ALiBi(heads).slopes) == heads


def test_alibi_falls_with_the_distance_and_ends_together():
    bias = ALiBi(H)(Grid(B, H, Q, K))
    assert bias.shape == (1, H, Q, K)
    i, j = torch.arange(Q)[:, None] + K - Q, torch.arange(K)
    torch.testing.assert_close(bias[0, 1], -ALiBi(H).slopes[1] * (i - j).abs())


# ---- T5's relative bias ------------------------------------------------------------------------------------


def t5_bucket(relative: int, buckets: int, max_distance: int, bidirectional: bool) -> int:
    """The rule of the T5 code, one number at a time."""
    found = 0
    n = -relative
    if bidirectional:
        buckets //= 2
        found += buckets if n < 0 else 0
        n = abs(n)
    else:
        n = max(n, 0)
    exact = buckets // 2
    if n < exact:
        return found + n
    far = exact + int(
        np.float32(np.log(np.float32(n / exact))) / math.log(max_distance / exact) * (buckets - exact)
    )
    return found + min(far, buckets - 1)


@pytest.mark.parametrize(("buckets", "max_distance"), [(32, 128), (8, 20), (4, 5)])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_relative_buckets_are_t5s(buckets, max_distance, bidirectional):
    bias = RelativeBias(H, buckets, max_distance, bidirectional)
    relative = torch.arange(-300, 301)
    wanted = [t5_bucket(int(r), buckets, max_distance, bidirectional) for r in relative]
    assert bias.bucket(relative).tolist() == wanted
    assert set(wanted) <= set(range(buckets))


def test_relative_bias_depends_on_the_distance_and_learns():
    bias = RelativeBias(H)
    dense = bias(Grid(B, H, Q, K))
    assert dense.shape == (1, H, Q, K)
    assert torch.equal(dense[..., 1:, 1:], dense[..., :-1, :-1])
    assert torch.equal(dense[0, :, -1, -1], bias.table.weight[0])  # both end together
    assert torch.equal(dense[0, :, -1, -3], bias.table.weight[2])  # two before the query
    assert torch.equal(dense[0, :, 0, -1], bias.table.weight[16 + Q - 1])  # four after the first query
    dense.sum().backward()
    assert bias.table.weight.grad.sum() == H * Q * K


@pytest.mark.parametrize("bias", [ALiBi(H), RelativeBias(H)], ids=["alibi", "relative"])
def test_tiles_are_pieces_of_the_whole(bias):
    grid = Grid(B, H, Q, K)
    dense = bias(grid)
    i, j = torch.tensor([[4], [1]]), torch.tensor([[0, 6, 2]])
    torch.testing.assert_close(bias.tile(i, j, grid), dense[:, :, i, j], rtol=0, atol=0)
    groups = bias.tile(i[None].expand(4, -1, -1), j[None].expand(4, -1, -1), grid)  # (g,r,1) and (g,1,c)
    assert groups.shape == (1, H, 4, 2, 3)
    torch.testing.assert_close(groups[:, :, 3], dense[:, :, i, j], rtol=0, atol=0)
    with pytest.raises(ShapeError, match="made for 3 heads, but q has 2"):
        bias(Grid(B, 2, Q, K))


@pytest.mark.parametrize(
    "bias", [ALiBi(12), RelativeBias(H, 8, 40, bidirectional=False)], ids=["alibi", "relative"]
)
def test_a_bias_is_rebuilt_from_json_and_tensors(bias):
    values, tensors = bias.spec()
    again = bias_from_spec(json.loads(json.dumps(values)), tensors)
    grid = Grid(1, bias.heads, Q, K)
    assert type(again) is type(bias)
    assert torch.equal(again(grid), bias(grid))


def test_a_spec_is_a_copy_not_a_view():
    bias = RelativeBias(H)
    values, tensors = bias.spec()
    before = bias(Grid(1, H, Q, K)).detach().clone()
    with torch.no_grad():
        bias.table.weight.add_(1)
    assert torch.equal(bias_from_spec(values, tensors)(Grid(1, H, Q, K)), before)


def test_an_unknown_bias_and_bad_sizes_are_named():
    with pytest.raises(ArgumentError, match=r"did you mean 'alibi'"):
        bias_from_spec({"kind": "alib"}, {})
    with pytest.raises(ArgumentError, match="buckets: expected an even number"):
        RelativeBias(H, buckets=7)
    with pytest.raises(ArgumentError, match="max_distance: expected a whole number of 9"):
        RelativeBias(H, buckets=32, max_distance=8)
    with pytest.raises(ArgumentError, match="heads"):
        ALiBi(0)
