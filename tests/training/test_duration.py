"""Tests of runs whose length is a time."""

from __future__ import annotations

import itertools

import pytest
import torch

from regard.training import TrainingOptions, loop
from regard.training.duration import Duration
from regard.training.state import Progress
from support.training_runs import ToyTask, digests, options, run


@pytest.fixture
def clock(monkeypatch):
    """A clock that advances by one second each time it is read."""

    def restart():
        ticks = itertools.count()
        monkeypatch.setattr(loop.time, "perf_counter", lambda: float(next(ticks)))

    restart()
    return restart


TIMED = {"steps": None, "minutes": 0.3, "save_every": 1, "keep": 99, "validate_every": 5, "warmup": 3}


def test_a_timed_run_ends_after_its_time_of_steps(tmp_path, clock):
    outcome = run(tmp_path / "run", **TIMED)
    # Each step takes one second of the clock. Validations take seconds too, which do not count.
    assert (outcome.step, outcome.stopped, outcome.training_seconds) == (18, "finished", 18.0)
    assert outcome.seconds > outcome.training_seconds


def test_a_timed_run_has_the_rates_of_a_run_of_as_many_steps(clock):
    timed, counted = options(**TIMED, learning_rate=1.0), options(steps=18, warmup=3, learning_rate=1.0)
    for schedule in ("linear", "cosine"):
        # Before the first step, its speed is not known.
        for step in range(1, 18):
            progress = Progress(step=step, training_seconds=float(step))
            rates = [
                Duration.of(one, 7).rate(progress, TrainingOptions(**{**vars(one), "schedule": schedule}))
                for one in (timed, counted)
            ]
            assert rates[0] == pytest.approx(rates[1])
    assert Duration.of(timed, 7).rate(Progress(), timed) == pytest.approx(1 / 3)


def test_the_rate_of_a_timed_run_falls_to_nearly_0_at_any_speed():
    for speed in (0.3, 1.0, 7.0):
        timed = options(**TIMED, schedule="linear")
        duration = Duration.of(timed, 7)
        last = Progress(step=int(17.9 * speed) + 1, training_seconds=17.9)
        assert 0 < duration.rate(last, timed) < 0.5
        assert duration.total(last) == pytest.approx(last.step * 18 / 17.9)


def test_a_timed_run_resumes_exactly(tmp_path, clock):
    run(tmp_path / "whole", dropout=0.4, **TIMED)
    clock()
    first = run(tmp_path / "parts", dropout=0.4, task=ToyTask(signal_at=8), **TIMED)
    assert (first.stopped, first.step) == ("interrupted", 8)
    clock()
    outcome = run(tmp_path / "parts", resume=True, dropout=0.4, **TIMED)
    assert (outcome.first_step, outcome.step, outcome.training_seconds) == (8, 18, 18.0)
    assert digests(tmp_path / "parts", numbers=False) == digests(tmp_path / "whole", numbers=False)


def test_a_run_of_steps_does_not_depend_on_the_time(tmp_path, clock):
    run(tmp_path / "one", steps=6)
    with torch.random.fork_rng():
        run(tmp_path / "other", steps=6)
    assert digests(tmp_path / "one", numbers=False) == digests(tmp_path / "other", numbers=False)
