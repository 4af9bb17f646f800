"""Tests of the steps of a generation, which are joined into one map."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import regard
from regard.capture.joining import stitching as stitching_module
from regard.capture.joining.call_chains import CallChain
from regard.capture.joining.kept_calls import KeptCall
from regard.capture.joining.key_intervals import intervals_of, joined_mask
from regard.capture.joining.memory_budget import MemoryBudget
from regard.capture.joining.stitching import joined_source
from regard.capture.reading.attention_calls import AttentionCall
from regard.capture.reading.masks import MaskReading, is_causal_mask, recognise
from regard.capture.reading.running_modules import RunningModule
from regard.errors import CaptureError
from regard.maps.unrecorded import Unrecorded
from regard.masks import causal, padding, window
from regard.masks.base import And
from regard.masks.rules import Causal
from regard.masks.stored import Padding, StoredMask
from regard.shapes import Grid
from support.capture_cases import B, D, H


def kept_call(order, grid, mask=None, first=0, bias=None):
    made = KeptCall(order=order, step=order, grid=grid, mask=mask, first=first, bias=bias, grew=order > 0)
    made.q = torch.randn(*grid[:3], 2)
    return made


def chain_of(keys, b=1):
    running = RunningModule(nn.Identity(), "layers.0.attn", (), {})
    made = CallChain(running, 0, False, AttentionCall(Grid(b, 1, 1, keys)))
    made._keys, made.count = torch.randn(b, 1, keys, 2), keys
    return made


PADDED = torch.tensor([[True] * 6, [False, False, True, True, True, True]])


RUNS = {
    "causal": ([causal(), None, None], [(4, 4), (1, 5), (1, 6)], Causal),
    "two steps at once": ([causal(), causal()], [(4, 4), (2, 6)], Causal),
    "everything": ([None, None], [(4, 6), (2, 6)], type(None)),
    "padding": ([padding(PADDED), padding(PADDED)], [(1, 6), (1, 6)], Padding),
    "causal and padded": (
        [causal() & padding(PADDED[:, :4]), padding(PADDED[:, :5]), padding(PADDED)],
        [(4, 4), (1, 5), (1, 6)],
        And,
    ),
    "a window": (
        [window(2, 0), padding(torch.tensor([[False, False, True, True, True]]))],
        [(4, 4), (1, 5)],
        type(window(2, 0)),
    ),
    "a window that the cache forgets": (
        [window(1, 0), None, None],
        [(4, 4), (1, 2), (1, 2)],
        type(window(1, 0)),
    ),
    "a prompt that sees itself whole": ([None, None], [(4, 4), (1, 5)], StoredMask),
    "a mask of no rule": ([StoredMask(torch.eye(4).bool()), None], [(4, 4), (1, 5)], StoredMask),
}


@pytest.mark.parametrize("name", RUNS)
def test_masks_of_steps_join_into_one_equal_mask(name):
    masks, sizes, kind = RUNS[name]
    b = 2 if "padd" in name else 1
    keys = max(k for _, k in sizes) if "forgets" not in name else 6
    run = []
    for n, (mask, (q, k)) in enumerate(zip(masks, sizes, strict=True)):
        first = sum(rows for rows, _ in sizes[: n + 1]) - k if "forgets" in name else 0
        run.append(kept_call(n, Grid(b, 1, q, k), mask, first))
    grid = Grid(b, 1, sum(q for q, _ in sizes), keys)
    found = joined_source(chain_of(keys, b), run).mask
    assert isinstance(found, kind)
    keep = torch.zeros(b, 1, grid.q, keys, dtype=torch.bool)
    row = 0
    for one in run:
        part = True if one.mask is None else one.mask.dense(one.grid)
        keep[:, :, row : row + one.grid.q, one.first : one.first + one.grid.k] = part
        row += one.grid.q
    said = torch.ones(()).bool() if found is None else found.dense(grid)
    assert torch.equal(said.expand(grid), keep)
    same = recognise(keep, grid)
    assert type(found) is type(same)
    assert repr(found) == repr(same)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_joined_masks_keep_exactly_the_pairs_of_the_steps(data):
    b, keys = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 6))
    bands, rows = [], []
    for _ in range(data.draw(st.integers(1, 4))):
        k = data.draw(st.integers(1, keys))
        grid = Grid(b, 1, data.draw(st.integers(1, 4)), k)
        first = data.draw(st.integers(0, keys - k))
        sides = st.sampled_from([None, 0, 1, 3])
        mask = window(data.draw(sides), data.draw(sides)) & causal(
            data.draw(st.sampled_from([None, -1, 2, 9]))
        )
        if data.draw(st.booleans()):
            flags = data.draw(st.lists(st.booleans(), min_size=b * k, max_size=b * k))
            mask = mask & padding(torch.tensor(flags).reshape(b, k))
        bands.append(intervals_of(mask, grid).moved(first, keys))
        part = torch.zeros(b, 1, grid.q, keys, dtype=torch.bool)
        part[..., first : first + k] = mask.dense(grid)
        rows.append(part)
    keep = torch.cat(rows, dim=2)
    grid = Grid(b, 1, keep.shape[2], keys)
    rule, found = joined_mask(bands, grid)
    same = recognise(keep, grid)
    assert rule == (not isinstance(same, StoredMask))
    if rule:
        said = torch.ones(()).bool() if found is None else found.dense(grid)
        assert torch.equal(said.expand(grid), keep)


def test_a_long_prompt_and_a_step_need_no_matrix(monkeypatch):
    n = 20_000
    there = torch.ones(1, n + 1, dtype=torch.bool)
    there[:, :3] = False
    run = [kept_call(0, Grid(1, 1, n, n), causal() & padding(there[:, :n]))]
    run += [kept_call(1, Grid(1, 1, 1, n + 1), padding(there))]
    monkeypatch.setattr(stitching_module, "_keep", lambda *_: pytest.fail("a matrix of queries and keys"))
    source = joined_source(chain_of(n + 1), run)
    assert isinstance(source.mask, And)
    assert is_causal_mask(source.mask, source.grid)
    assert source.mask.right.keep.numel() == n + 1
    # The joined mask takes nothing from the budget.
    assert joined_source(chain_of(n + 1), run, room=MemoryBudget(1)).grid == source.grid


def test_joined_steps_whose_mask_exceeds_the_budget_are_dropped():
    n = 64
    run = [
        kept_call(0, Grid(1, 1, n, n), StoredMask(torch.eye(n).bool())),
        kept_call(1, Grid(1, 1, 1, n + 1)),
    ]
    need = (n + 1) * (n + 1)
    assert isinstance(joined_source(chain_of(n + 1), run, room=MemoryBudget(need)).mask, StoredMask)
    source = joined_source(chain_of(n + 1), run, room=MemoryBudget(need - 1))
    assert isinstance(source, Unrecorded)
    assert source.grid == (1, 1, n + 1, n + 1)
    with pytest.raises(CaptureError, match=r"layers\.0\.attn was dropped, the steps together need 4\.2 kB"):
        regard.AttentionMap(source).weights()
    biased = [kept_call(0, Grid(1, 1, n, n), bias=regard.biases.StoredBias(torch.randn(1, 1, n, n)))]
    biased += [kept_call(1, Grid(1, 1, 1, n + 1))]
    for room, kept in ((5 * need, True), (5 * need - 1, False)):
        assert (
            isinstance(joined_source(chain_of(n + 1), biased, room=MemoryBudget(room)), Unrecorded)
            is not kept
        )


def test_a_uniform_row_is_kept_as_a_query_of_zeros():
    reading = MaskReading(even=torch.tensor([[[float("nan"), math.log(2)]]]))
    made = kept_call(0, Grid(1, 1, 2, 2))
    chain = chain_of(2)
    call = AttentionCall(made.grid, q=made.q, k=chain._keys, lse=torch.zeros(1, 1, 2))
    chain.add(made, call, reading, None, None)
    assert made.q is not None
    assert made.lse is not None
    assert (made.q[0, 0] == 0).all(dim=-1).tolist() == [False, True]
    assert made.lse[0, 0].tolist() == pytest.approx([0.0, math.log(2)])


class Weighing(nn.Module):
    """Weights that are computed from the keys alone, as in additive attention."""

    def forward(self, keys):
        return torch.softmax(keys.sum(-1), dim=-1)


def test_weights_without_known_keys_are_not_joined():
    with regard.capture(model := Weighing(), modules=Weighing) as seen:
        for n in (5, 6):
            model(torch.randn(B, n, D))
    assert [record.map.shape[3] for record in seen] == [5, 6]


class CappedCache(nn.Module):
    """A model with a cache and capped scores, which can be recorded only as weights."""

    def __init__(self):
        super().__init__()
        self.attention = CappedAttention()
        self.k = None

    def forward(self, q, rows=None):
        if self.k is not None and rows is not None:
            self.k = self.k[rows]
        self.k = q if self.k is None else torch.cat([self.k, q], dim=2)
        return self.attention(q, self.k)


class CappedAttention(nn.Module):
    def forward(self, q, k):
        weights = torch.softmax(torch.tanh(q @ k.transpose(-2, -1)) * 2, dim=-1)
        return weights @ k, weights


def test_steps_with_capped_scores_are_joined_and_follow_their_beams():
    torch.manual_seed(0)
    steps = [torch.randn(3, H, 1, D) for _ in range(3)]
    model = CappedCache()
    with regard.capture(model) as seen:
        weights = [model(q)[1] for q in steps]
    assert [record.map.shape for record in seen] == [(3, H, 3, 3)]
    assert torch.equal(seen[0].map.weights()[:, :, 1, :2], weights[1][:, :, 0])
    model = CappedCache()
    with regard.capture(model) as seen:
        weights = [model(q, rows)[1] for q, rows in zip(steps, (None, [1, 0, 0], [2, 2, 1]), strict=True)]
    with pytest.raises(CaptureError, match=r"seen.follow\(output\)"):
        seen[0].map.weights()
    followed = seen.follow(torch.tensor([[1, 0, 2], [0, 1, -1]]))[0].map.weights()
    assert torch.equal(followed[0, :, 2], weights[2][2, :, 0])
    assert torch.equal(followed[0, :, 1, :2], weights[1][0, :, 0])
    assert (followed[1, :, 2] == 0).all()
