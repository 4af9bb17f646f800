"""Weights below 0 of models that mix heads after the softmax, accepted on request and never counted wrongly."""

import numpy as np
import pytest
import torch
from torch import nn

import regard
from regard import analysis
from regard.capture import Recording
from regard.errors import ArgumentError
from regard.maps import AttentionMap

# Rows that sum to 1, with weights below 0 in the first and the last one. The last row sums to less than 0.
SIGNED = np.array([[1.5, -0.5, 0.0], [0.25, 0.25, 0.5], [-0.75, 0.5, 0.0]])
WORDS = ["a", "mat", "##ador"]


class TalkingHeads(nn.Module):
    """Attention that mixes its heads after the softmax with signs."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Parameter(torch.tensor([[2.0, -1.0], [-1.0, 2.0]]))

    def forward(self, x):
        heads = x.unflatten(-1, (2, -1)).transpose(1, 2)  # (b,h,n,d)
        weights = torch.softmax(heads @ heads.transpose(-2, -1), dim=-1)
        weights = torch.einsum("gh,bhqk->bgqk", self.mix, weights)
        return weights @ heads


def captured() -> Recording:
    torch.manual_seed(0)
    model = nn.ModuleDict({"attention": TalkingHeads()})
    with torch.no_grad(), regard.capture(model, modules="attention") as seen:
        model["attention"](torch.randn(1, 3, 8))
    assert bool((seen[0].map.weights() < 0).any())
    return seen


@pytest.mark.parametrize("make", [AttentionMap.from_weights, Recording.from_weights])
def test_negative_weights_are_refused_unless_the_caller_allows_them(make):
    with pytest.raises(ArgumentError, match="found negative numbers: take the softmax .*unnormalized=True"):
        make(SIGNED)
    made = make(SIGNED, unnormalized=True)
    found = made[0].map if isinstance(made, Recording) else made
    np.testing.assert_array_equal(found.numpy()[0, 0], SIGNED)


@pytest.mark.parametrize("make", [AttentionMap.from_weights, Recording.from_weights, regard.analysis.entropy])
def test_rows_with_a_sum_above_1_are_refused_unless_the_caller_allows_them(make):
    counts = np.array([[5.0, 5.0, 5.0], [0.5, 0.5, 0.0], [0.0, 0.0, 0.0]])
    with pytest.raises(ArgumentError, match="found a row with a sum of 15, .*unnormalized=True"):
        make(counts)
    if make is not regard.analysis.entropy:
        make(counts, unnormalized=True)
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        rounded = torch.rand(2, 3, 4, 4000).mul(8).softmax(-1).to(dtype)
        make(rounded)
        make(rounded.double())


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_infinite_weights_are_refused(bad):
    with pytest.raises(ArgumentError, match="found NaN or infinite numbers"):
        AttentionMap.from_weights(np.array([[bad, 0.0]]), unnormalized=True)


def test_a_captured_map_survives_the_round_trip_through_its_weights():
    seen = captured()
    again = Recording.from_weights(seen[0].map.weights(), unnormalized=True)
    torch.testing.assert_close(again[0].map.weights(), seen[0].map.weights(), rtol=0, atol=0)
    assert "<!doctype html>" in regard.viewer.html(again)


def test_entropy_is_nan_where_it_is_not_defined():
    expected = [np.nan, 1.5 * np.log(2), np.nan]
    signed = AttentionMap.from_weights(SIGNED, unnormalized=True)
    np.testing.assert_allclose(signed.entropy()[0, 0], expected)
    np.testing.assert_allclose(analysis.entropy(signed)[0, 0], expected)
    table = analysis.head_table(signed)
    row = table[0] if isinstance(table, list) else table.iloc[0]
    assert np.isnan(row["entropy"])
    assert row["largest"] == pytest.approx((1.5 + 0.5 + 0.5) / 3)


def test_a_row_with_a_sum_below_0_counts_in_means():
    signed = AttentionMap.from_weights(SIGNED, unnormalized=True)
    np.testing.assert_allclose(signed.received()[0, 0], SIGNED.mean(0))
    np.testing.assert_allclose(analysis.received(signed)[0, 0], SIGNED.mean(0))
    np.testing.assert_allclose(analysis.sink_mass(signed), [[SIGNED[:, 0].mean()]])


@pytest.mark.parametrize("cells", [1, 2, 3])
def test_the_largest_of_negative_weights_is_negative(cells):
    seen = AttentionMap.from_weights(-torch.arange(1.0, 10.0).reshape(3, 3), unnormalized=True)
    assert seen.pooled(cells, cells, "max")[0, 0, 0, 0] == -1
    assert seen.pooled(cells, cells, "max").amax() == -1
    assert seen.pooled(cells, cells, "max").isfinite().all()


@pytest.mark.parametrize("name", ["rollout", "flow", "head_agreement"])
def test_measures_that_are_not_defined_for_negative_weights_are_refused(name):
    signed = AttentionMap.from_weights(SIGNED, unnormalized=True)
    with pytest.raises(ArgumentError, match="found negative weights, for which .* is not defined"):
        getattr(analysis, name)([signed, signed])


def test_words_keep_negative_weights():
    words = Recording.from_weights(SIGNED, WORDS, unnormalized=True).words()[0]
    assert words.tokens == [["a", "matador"]]
    np.testing.assert_allclose(words.map.numpy()[0, 0], [[1.5, -0.5], [-0.25, 0.625]])
