"""The memory that records may take."""

from __future__ import annotations

import contextlib

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import regard
from regard.capture.joining import memory_budget
from regard.capture.joining.memory_budget import MemoryBudget, _left_by_cgroups
from support.capture_cases import ADDED, HEADS, B, D, H, K, M, Plain, Q, qkv, seen_of


def test_free_memory_is_asked_for_once_and_only_for_more_than_a_little(monkeypatch):
    asked = []
    monkeypatch.setattr(memory_budget, "available_memory", lambda device: asked.append(device) or 12 * 2**20)
    budget = MemoryBudget(None)
    assert budget.take(2**20)
    assert not asked
    assert budget.take(2 * 2**20)
    assert not budget.take(1)
    assert len(asked) == 1
    assert budget.used == budget.limit == 3 * 2**20


def test_a_limit_of_the_user_holds_from_the_first_byte():
    budget = MemoryBudget(10)
    assert not budget.take(11)
    assert budget.take(10)


def test_a_record_dropped_over_the_budget_says_so():
    k = torch.randn(1, 1, 40, D)
    keep = torch.rand(39, 39) > 0.5
    keep[:, 0] = True

    def run(memory):
        with regard.capture(model := Plain(), memory=memory) as seen:
            model(k[:, :, :39], k[:, :, :39], k[:, :, :39], attn_mask=keep)
            model(k[:, :, 39:], k, k)
        return seen

    whole = run(10**6)
    used = whole._session.collector.budget.used
    assert whole[0].map.shape == (1, 1, 40, 40)
    seen = run(used + 40 * 40 - 1)
    with pytest.warns(
        UserWarning, match="not recorded: the map of Plain was dropped, .* past the memory budget"
    ):
        assert "past the memory budget" in seen.dropped[0]
    assert seen[0].map.shape == (1, 1, 40, 40)
    assert run(used + 40 * 40).dropped == []


def test_every_dropped_call_has_its_own_record():
    model = nn.MultiheadAttention(M, H, batch_first=True)
    x, y = torch.randn(B, Q, M), torch.randn(B, K, M)
    watching = regard.capture(model, memory=100)
    seen = watching.__enter__()
    for _ in range(3):
        model(x, y, y, need_weights=False)
    with pytest.warns(UserWarning, match="past the memory budget"):
        watching.__exit__(None, None, None)
    assert len(seen) == len(seen.dropped) == 3


def test_the_memory_budget_counts_masks_but_no_refused_record():
    q, k, v = qkv()
    need = q.nbytes + k.nbytes + B * H * Q * 4
    seen, _ = seen_of(Plain(), q, k, v, attn_mask=HEADS, options={"memory": need + HEADS.nbytes})
    assert seen.dropped == []
    with pytest.warns(UserWarning, match="past the memory budget"):
        seen, _ = seen_of(Plain(), q, k, v, attn_mask=HEADS, options={"memory": need + HEADS.nbytes - 1})
    assert len(seen.dropped) == 1
    small = tuple(x[:, :, :1] for x in (q, k, v))

    class Twice(nn.Module):
        def forward(self, mask):
            F.scaled_dot_product_attention(q, k, v, attn_mask=mask)  # too large
            F.scaled_dot_product_attention(*small, attn_mask=mask[..., :1, :1])

    enough = 2 * q[:, :, :1].nbytes + B * H * 4
    # If the refused mask counted, the second call would not fit.
    given = {"memory": enough + ADDED.nbytes - 1}
    with pytest.warns(UserWarning, match="past the memory budget"):
        seen, _ = seen_of(Twice(), ADDED, options=given)
    assert [record.dropped is None for record in seen] == [False, True]


def test_the_memory_budget_counts_the_growth_of_a_cache():
    k = torch.randn(1, 1, 8, D)
    step = 4 * D * 4 + 4 * 4  # four queries and their sums
    # Four keys, then a buffer of one and a half times eight.
    first, grown = 4 * D * 4, 12 * D * 4
    matrix = 8 * 8  # the joined mask of both calls is no rule
    for memory, dropped in ((2 * step + grown + matrix, 0), (2 * step + grown - 1, 1)):
        told = pytest.warns(UserWarning, match="past the memory") if dropped else contextlib.nullcontext()
        with told, regard.capture(model := Plain(), memory=memory) as seen:
            model(k[:, :, :4], k[:, :, :4], k[:, :, :4])
            model(k[:, :, 4:], k, k)
        assert len(seen.dropped) == dropped
        assert seen._session.collector.budget.used <= memory
    assert first < grown


def test_the_default_budget_follows_cgroup_and_device_limits(tmp_path, monkeypatch):
    (tmp_path / "memory.max").write_text("5000\n")
    (tmp_path / "memory.current").write_text("1000\n")
    assert _left_by_cgroups(tmp_path) == [4000]
    (tmp_path / "memory.max").write_text("max\n")
    assert _left_by_cgroups(tmp_path) == []
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (800, 1000))
    assert MemoryBudget(None, torch.device("cuda")).limit == 200
