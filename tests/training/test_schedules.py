"""Tests of the warm-up schedule, its slope, its ends and its errors."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard import get_linear_schedule_with_warmup
from regard.errors import ArgumentError, DtypeError
from regard.training.schedules import linear_warmup_factor


def sgd(*rates: float) -> torch.optim.SGD:
    groups = [{"params": [torch.nn.Parameter(torch.ones(1))], "lr": rate} for rate in rates]
    return torch.optim.SGD(groups)


def rates_of(optimizer, schedule, steps):
    seen = []
    for _ in range(steps):
        seen.append([group["lr"] for group in optimizer.param_groups])
        optimizer.step()
        schedule.step()
    return seen


def test_the_linear_schedule_has_the_rates_computed_by_hand():
    optimizer = sgd(0.1)
    schedule = get_linear_schedule_with_warmup(optimizer, 4, 12)
    rates = [rate for (rate,) in rates_of(optimizer, schedule, 14)]
    up, down = [0, 0.025, 0.05, 0.075], [0.1, 0.0875, 0.075, 0.0625, 0.05, 0.0375, 0.025, 0.0125]
    assert rates == pytest.approx([*up, *down, 0, 0])


def test_the_linear_schedule_is_a_torch_scheduler_with_the_documented_keywords():
    schedule = get_linear_schedule_with_warmup(sgd(1.0), num_warmup_steps=1, num_training_steps=2)
    assert isinstance(schedule, torch.optim.lr_scheduler.LambdaLR)


def test_every_parameter_group_keeps_its_own_rate():
    optimizer = sgd(1.0, 10.0)
    schedule = get_linear_schedule_with_warmup(optimizer, 2, 4)
    assert rates_of(optimizer, schedule, 4) == [[0, 0], [0.5, 5], [1, 10], [0.5, 5]]


def test_without_warmup_the_first_rate_is_the_full_rate():
    optimizer = sgd(1.0)
    schedule = get_linear_schedule_with_warmup(optimizer, 0, 2)
    assert rates_of(optimizer, schedule, 3) == [[1.0], [0.5], [0.0]]


def test_warmup_over_all_steps_does_not_divide_by_zero():
    assert [linear_warmup_factor(step, 3, 3) for step in range(5)] == [0, 1 / 3, 2 / 3, 0, 0]


def test_a_schedule_resumes_from_its_state_dict():
    optimizer = sgd(1.0)
    schedule = get_linear_schedule_with_warmup(optimizer, 2, 10)
    rates_of(optimizer, schedule, 5)
    again = get_linear_schedule_with_warmup(other := sgd(1.0), 2, 10)
    again.load_state_dict(schedule.state_dict())
    other.load_state_dict(optimizer.state_dict())
    assert rates_of(other, again, 3) == rates_of(optimizer, schedule, 3) == [[0.625], [0.5], [0.375]]


def test_a_schedule_resumes_from_last_epoch():
    optimizer = sgd(1.0)
    optimizer.param_groups[0]["initial_lr"] = 1.0
    schedule = get_linear_schedule_with_warmup(optimizer, 2, 10, last_epoch=4)
    assert schedule.get_last_lr() == [0.625]


def test_integers_of_numpy_and_torch_are_taken():
    schedule = get_linear_schedule_with_warmup(sgd(1.0), np.int64(1), torch.tensor(3))
    assert schedule.get_last_lr() == [0.0]


@given(st.integers(0, 50), st.integers(1, 50), st.integers(0, 200))
def test_factor_stays_between_0_and_1_and_peaks_after_warmup(warmup, decay, step):
    total = warmup + decay
    assert 0.0 <= linear_warmup_factor(step, warmup, total) <= 1.0
    assert linear_warmup_factor(warmup, warmup, total) == 1.0
    assert linear_warmup_factor(total, warmup, total) == 0.0


@pytest.mark.parametrize(
    ("warmup", "total", "message"),
    [
        (-1, 10, "num_warmup_steps: expected a whole number of 0 or more, got -1"),
        (1, 0, "num_training_steps: expected a whole number of 1 or more, got 0"),
        (11, 10, "num_warmup_steps: 11 steps of warm-up do not fit in num_training_steps=10"),
    ],
)
def test_values_out_of_range_are_refused(warmup, total, message):
    with pytest.raises(ArgumentError, match=message):
        get_linear_schedule_with_warmup(sgd(1.0), warmup, total)


@pytest.mark.parametrize("wrong", [2.5, True, "3", None])
def test_steps_must_be_whole_numbers(wrong):
    with pytest.raises(DtypeError, match="num_warmup_steps: expected a whole number"):
        get_linear_schedule_with_warmup(sgd(1.0), wrong, 10)


def test_optimizer_must_be_a_torch_optimizer():
    with pytest.raises(DtypeError, match="optimizer: expected a torch.optim.Optimizer, got list"):
        get_linear_schedule_with_warmup([], 1, 10)
