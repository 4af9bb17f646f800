"""Tests that a run that was interrupted or killed at any time ends like an uninterrupted one."""

import json
import random
import signal
import time

import pytest

from regard.training import load_checkpoint
from support.attention_cases import FULL
from support.training_runs import Host, ToyTask, checkpoints, digest, digests, run

# Of 7 batches an epoch: more than two epochs.
STEPS = 18

PLAIN = {"steps": STEPS, "save_every": 1, "keep": 99}
KINDS = {
    "plain": PLAIN,
    "validated between": {**PLAIN, "validate_every": 4},
    "accumulating": {**PLAIN, "accumulate": 2},
    "not averaged": {**PLAIN, "average": 0.0, "clip": 0.0, "schedule": "linear"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_run_writes_the_same_checkpoints(tmp_path, kind):
    values, dropout = KINDS[kind], 0.4
    run(tmp_path / "whole", dropout=dropout, **values)
    whole = digests(tmp_path / "whole")
    assert len(whole) == len(set(whole.values())) == STEPS
    folder, accumulate, stops = tmp_path / "parts", values.get("accumulate", 1), []
    # Within an epoch, at its end, at a validation.
    for part, batches in enumerate([3, 4, 1, 6, 99]):
        task = ToyTask(signal_at=batches * accumulate)
        stops.append(run(folder, resume=part > 0, dropout=dropout, task=task, **values).step)
    assert stops[-1] == STEPS
    assert digests(folder, numbers=False) == digests(tmp_path / "whole", numbers=False)
    # Interrupted where a validation was due, a run saves first and validates on resuming.
    hurried = {f"step-{stop:08d}" for stop in stops[:-1] if validation_is_due(stop, values)}
    found = digests(folder)
    assert {name for name in whole if found[name] != whole[name]} == hurried
    seen = load_checkpoint(checkpoints(folder)[-1]).tensors["model"]["seen"]  # a buffer that counts batches
    assert seen.item() == (32 if accumulate == 2 else STEPS)


def validation_is_due(step: int, values) -> bool:
    per_epoch = 4 if values.get("accumulate") == 2 else 7
    return step % values.get("validate_every", per_epoch) == 0


def test_a_postponed_validation_is_made_after_resuming(tmp_path):
    values = {**PLAIN, "validate_every": 4}
    run(tmp_path / "whole", dropout=0.4, **values)
    run(tmp_path / "parts", dropout=0.4, task=ToyTask(signal_at=8), **values)
    run(tmp_path / "parts", dropout=0.4, resume=True, **values)
    one, other = ((tmp_path / name / "best" / "results.json").read_text() for name in ("whole", "parts"))
    assert json.loads(one) == json.loads(other)


# ---- SIGKILL


@pytest.fixture(scope="module")
def host():
    held = Host()
    yield held
    held.close()


def after_kill(folder) -> tuple[int, int]:
    """The step of the newest checkpoint, all of them being whole, and how many steps the process had begun."""
    found = checkpoints(folder)
    for path in found:
        digest(path)  # reads and verifies all of it
    newest = int(found[-1].name.removeprefix("step-")) if found else 0
    log = folder.with_name(folder.name + ".log0")
    begun = log.stat().st_size if log.exists() else 0
    return newest, begun


def test_a_run_killed_at_any_moment_ends_the_same(tmp_path, host):
    """Each child is killed after a random time and resumed, until its run is done."""
    wanted, kills, runs = (200 if FULL else 8), 0, 0
    chance = random.Random(7)
    while kills < wanted:
        runs += 1
        values = {"steps": 40, "save_every": chance.choice([1, 2, 3]), "keep": 2, "validate_every": 10}
        spec = {"options": values, "dropout": 0.3}
        began = time.monotonic()
        assert host.run(tmp_path / f"whole{runs}", **spec) == [(0, "finished at 40\n")]
        longest = time.monotonic() - began
        most = min(12 if FULL else 4, wanted - kills)
        kills += killed_run(tmp_path / f"run{runs}", host, spec, longest, chance, most)
        ends = [digest(checkpoints(tmp_path / f"{name}{runs}")[-1]) for name in ("whole", "run")]
        assert ends[0] == ends[1]


def killed_run(folder, host, spec, longest: float, chance, most: int) -> int:
    """Kill and resume until the run is done, and return the number of kills."""
    kills, resume, start = 0, False, 0
    every = spec["options"]["save_every"]
    while True:
        signals = []
        if kills < most:
            signals = [[0, signal.SIGKILL, {"seconds": chance.uniform(0, 0.6 * longest)}]]
        ((code, said),) = host.run(folder, resume=resume, signals=signals, **spec)
        newest, begun = after_kill(folder)
        if code == 0:
            return kills
        assert code == -signal.SIGKILL, said
        assert "WARNING" not in said
        kills += 1
        # A step begins only after the earlier checkpoint was saved.
        due = (start + begun - 1) // every * every if begun else start
        assert newest >= due
        start, resume = newest, newest > 0
