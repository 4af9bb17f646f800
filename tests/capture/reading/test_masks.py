"""Mask tensors are read back into rules, exactly or not at all."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from regard.biases import dense_bias
from regard.capture.reading.axes import SoftmaxContext
from regard.capture.reading.call_parts import distinct_heads
from regard.capture.reading.head_folds import HeadFolds
from regard.capture.reading.masks import (
    MaskReader,
    _hides_nothing,
    _is_plainly_causal,
    is_causal_mask,
    recognise,
)
from regard.capture.watching.score_tracing import ScoreTracer
from regard.capture.watching.softmax_calls import read_softmax
from regard.masks import blocks, causal, padding, window
from regard.masks.base import And
from regard.masks.rules import Causal, Window
from regard.masks.stored import Padding, StoredMask
from regard.shapes import Grid
from support.handwritten_attention import (
    LOW,
    Q64,
    Attention,
    D,
    H,
    N,
    X,
    assert_weights,
    joined,
    left_padded,
    seen_of,
    split,
)

GRID = Grid(2, 3, 5, 5)
LONG = Grid(2, 3, 5, 7)


@pytest.mark.parametrize(
    ("mask", "grid", "kind"),
    [
        (causal(), GRID, Causal),
        (causal(), LONG, Causal),
        (causal(0), LONG, Causal),
        (window(2, 0), GRID, Window),
        (window(1, 1), LONG, Window),
        (padding([5, 3]), GRID, Padding),
        (causal() & padding([5, 3]), GRID, And),
        (window(1, 0) & padding([[True] * 5, [False, True, True, True, True]]), GRID, And),
        (causal(0) & window(3, None), LONG, And),
        (blocks([[1, 0], [0, 1]], 3), GRID, StoredMask),
    ],
)
def test_a_rule_is_recognised(mask, grid, kind):
    keep = mask.dense(grid)
    found = recognise(keep.expand(grid), grid)
    assert isinstance(found, kind)
    assert torch.equal(found.dense(grid).expand(grid), keep.expand(grid))


def test_a_mask_that_hides_nothing_is_no_mask():
    assert recognise(torch.ones(1, 1, 5, 5, dtype=torch.bool), GRID) is None


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_recognised_rule_keeps_exactly_the_same_pairs(data):
    q, k = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 7))
    b, h = data.draw(st.sampled_from([(1, 1), (2, 1), (2, 3)]))
    numbers = data.draw(st.lists(st.booleans(), min_size=b * h * q * k, max_size=b * h * q * k))
    keep = torch.tensor(numbers).reshape(b, h, q, k)
    if data.draw(st.booleans()):  # random numbers are rarely a rule
        left, right = data.draw(st.sampled_from([None, 0, 1, 3])), data.draw(st.sampled_from([None, 0, 2]))
        keep = keep[:, :, :1] & window(left, right).dense(Grid(b, h, q, k))
    grid = Grid(2, 3, q, k)
    found = recognise(keep, grid)
    said = torch.ones(1, 1, q, k, dtype=torch.bool) if found is None else found.dense(grid)
    assert torch.equal(said.expand(grid), keep.expand(grid))


def test_biases_are_separated_from_masks():
    reader = MaskReader()
    position = torch.randn(1, 3, 5, 5)
    keep = (causal() & padding([5, 3])).dense(GRID)
    low = torch.finfo(torch.float32).min
    for hide in (low, float("-inf")):
        reading = reader.read(torch.where(keep, position, hide), False, GRID)
        assert isinstance(reading.mask, And)
        assert reading.bias.values.shape == (1, 3, 5, 5)  # not once for each sequence
        kept = keep.any(0)[0]
        assert torch.equal(
            dense_bias(reading.bias, GRID, torch.device("cpu"))[0][:, kept], position[0][:, kept]
        )
    assert reader.read(torch.zeros(5, 5), False, GRID) == (None, None, None, None, False, False)


def test_a_mask_shared_by_layers_is_read_once():
    reader = MaskReader()
    mask = torch.randn(1, 3, 5, 5)
    first = reader.read(mask, False, GRID)
    assert reader.read(mask, False, GRID) is first
    assert reader.read(mask.clone(), False, GRID).bias is first.bias  # equal numbers, held once
    mask.add_(1.0)
    assert not torch.equal(reader.read(mask, False, GRID).bias.values, first.bias.values)


def test_causal_masks_are_told_from_others():
    ragged = torch.ones(5, 5, dtype=torch.bool).tril()
    ragged[3, 1] = False
    assert is_causal_mask(StoredMask(ragged), GRID)
    assert not is_causal_mask(StoredMask(ragged.T), GRID)
    assert not is_causal_mask(None, GRID)
    assert not is_causal_mask(padding([5, 3]), GRID)


@pytest.mark.parametrize("groups", [1, 2, 3, 6])
def test_repeated_heads_are_found(groups):
    torch.manual_seed(0)
    k = torch.randn(2, groups, 7, 4)
    many = k.repeat_interleave(6 // groups, dim=1)
    assert torch.equal(distinct_heads(many), k)
    many[1, 0, 3] += 1  # one head of one sequence is another now
    assert torch.equal(distinct_heads(many).repeat_interleave(6 // distinct_heads(many).shape[1], 1), many)


def test_scores_changed_without_the_tracer_are_not_taken_as_exact():
    aten = torch.ops.aten
    tracer = ScoreTracer([], HeadFolds())
    q, k = torch.randn(2, 5, 4), torch.randn(2, 4, 7)
    scores = torch.bmm(q, k)
    tracer.note_operation(aten.bmm.default, (q, k), {}, scores)
    scores.mul_(3.0)  # behind the tracer's back
    weights = torch.softmax(scores, -1)
    call = read_softmax(tracer, (scores, -1, False), weights, SoftmaxContext())
    assert call.q is None
    assert call.weights is not None
    assert torch.equal(call.weights[:, 0], weights)


LOWEST = torch.finfo(torch.float32).min


@pytest.mark.parametrize("keys", [5, 7])
@pytest.mark.parametrize("lowest", [float("-inf"), LOWEST, -1e4])
def test_a_mask_that_hides_only_later_keys_is_causal(keys, lowest):
    grid = Grid(2, 3, 5, keys)
    keep = torch.ones(5, keys, dtype=torch.bool).tril(keys - 5)
    for mask in (keep, torch.zeros(5, keys).masked_fill(~keep, lowest)):
        for shaped in (mask, mask[None, None]):
            assert _is_plainly_causal(shaped, grid)
            reading = MaskReader().read(shaped, False, grid)
            assert repr(reading.mask) == repr(causal())
            assert reading.bias is None


def test_other_masks_are_not_causal():
    grid = Grid(2, 3, 5, 5)
    keep = torch.ones(5, 5, dtype=torch.bool).tril()
    mask = torch.zeros(5, 5).masked_fill(~keep, LOWEST)
    assert _is_plainly_causal(mask, grid)
    assert not _is_plainly_causal(mask.expand(2, 1, 5, 5).clone(), grid)  # of several sequences
    assert not _is_plainly_causal(mask[:1], Grid(2, 3, 1, 5))  # one query sees all keys
    assert not _is_plainly_causal(mask.clamp(min=-9e3), grid)  # numbers that weigh and do not hide
    for row, column, value in ((3, 1, LOWEST), (3, 1, 0.5), (2, 4, 0.0), (0, 4, 0.0), (2, 4, float("nan"))):
        changed = mask.clone()
        changed[row, column] = value
        assert not _is_plainly_causal(changed, grid), (row, column, value)
    hole = keep.clone()
    hole[4, 2] = False
    assert not _is_plainly_causal(hole, grid)


def test_numbers_above_the_hiding_ones_are_a_bias_and_hide_nothing():
    values = torch.randn(1, 3, 5, 5)
    assert _hides_nothing(values)
    reading = MaskReader().read(values, False, Grid(2, 3, 5, 5))
    assert reading.mask is None
    assert torch.equal(reading.bias.values, values)
    low = values.clone()
    low[0, 1, 2, 3] = -1e4
    for other in (low, torch.zeros(1, 1, 5, 5), values.expand(2, -1, -1, -1), values > 0, values[:, :, :0]):
        assert not _hides_nothing(other)


def test_a_bias_is_not_taken_from_another_sequence():
    bias = torch.randn(1, H, 1, N, generator=torch.Generator().manual_seed(1))
    keep = left_padded()

    def attend(x):
        q = split(x)
        scores = (q @ q.mT + bias).masked_fill(~keep, LOW)
        return joined(scores.softmax(-1) @ q)

    expected = (Q64 @ Q64.mT + bias.double()).masked_fill(~keep, LOW).softmax(-1)  # padded rows are uniform
    assert_weights(seen_of(Attention(attend), X)[0], expected)


def test_a_mask_that_changes_behind_the_version_counter_is_read_again():
    class Layers(nn.Module):
        def __init__(self):
            super().__init__()
            self.mask = torch.zeros(N, N)

        def forward(self, x):
            self.mask.data.zero_()
            for n in range(3):
                self.mask.data[:, n] = float("-inf")
                x = torch.nn.functional.scaled_dot_product_attention(x, x, x, self.mask)
            return x

    model, x, expected = Layers(), X.double(), []
    for n in range(3):
        weights = (x @ x.mT / (H * D) ** 0.5)[..., n + 1 :].softmax(-1)
        expected.append(torch.nn.functional.pad(weights, (n + 1, 0)))
        x = expected[-1] @ x
    for record, weights in zip(seen_of(model, X), expected, strict=True):
        assert_weights(record, weights[:, None])
