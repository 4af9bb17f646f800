"""The memory that records may take."""

from __future__ import annotations

from regard.capture.joining import memory_budget
from regard.capture.joining.memory_budget import MemoryBudget


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
