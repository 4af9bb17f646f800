"""Tests that many processes give the numbers of one, stop together, and resume with any number of processes."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from regard.training import load_checkpoint
from support import training_runs
from support.training_runs import Host, ToyTask, checkpoints, digests, losses


@pytest.fixture(scope="module")
def host():
    held = Host()
    yield held
    held.close()


def done(results, text: str) -> None:
    assert results == [(0, text + "\n")] * len(results)


def model_of(folder: Path) -> dict[str, torch.Tensor]:
    return load_checkpoint(checkpoints(folder)[-1]).tensors["model"]


@pytest.mark.parametrize("accumulate", [1, 2])
def test_two_processes_compute_what_one_does(tmp_path, host, accumulate):
    values = {"options": {"steps": 50, "accumulate": accumulate, "save_every": 50}}
    done(host.run(tmp_path / "one", **values), "finished at 50")
    done(host.run(tmp_path / "two", world=2, **values), "finished at 50")
    one, two = losses(tmp_path / "one"), losses(tmp_path / "two")
    assert len(one) == len(two) == 50
    assert two == pytest.approx(one, abs=1e-4)
    assert one[-1] < 0.7 * one[0]


def test_the_toy_gives_processes_shares_of_unequal_size():
    task = ToyTask()
    shares = [[task.count(batch) for batch in task.batches(0, 0, rank, 2)] for rank in (0, 1)]
    assert sum(one != two for one, two in zip(*shares, strict=True)) >= 5


def test_two_processes_resume_exactly_and_stop_together(tmp_path, host):
    """A request to one process stops both at the same step, and resuming gives the uninterrupted result."""
    values = {"steps": 14, "save_every": 1, "keep": 99, "accumulate": 2, "validate_every": 5}
    spec = {"options": values, "dropout": 0.4, "world": 2}
    done(host.run(tmp_path / "whole", **spec), "finished at 14")
    whole = digests(tmp_path / "whole")
    assert len(whole) == 14
    ask = [[1, signal.SIGTERM, {"batches": 7}]]
    results = host.run(tmp_path / "parts", signals=ask, pause=0.02, **spec)
    assert results[0] == results[1]
    code, said = results[0]
    assert code == 0
    assert said.startswith("interrupted at ")
    stopped = int(said.split()[-1])
    assert 3 <= stopped < 14
    done(host.run(tmp_path / "parts", resume=True, **spec), "finished at 14")
    found = digests(tmp_path / "parts")
    if stopped % 5 == 0:  # saved before the validation that was due
        del found[f"step-{stopped:08d}"], whole[f"step-{stopped:08d}"]
    assert found == whole
    assert digests(tmp_path / "parts", numbers=False) == digests(tmp_path / "whole", numbers=False)
    states = load_checkpoint(checkpoints(tmp_path / "whole")[-1]).tensors["random"]
    assert states.keys() == {"0", "1"}
    assert not torch.equal(states["0"], states["1"])


def test_a_killed_process_ends_the_job_and_any_number_of_processes_resumes(tmp_path, host):
    """Two processes of which one is killed, then one, then two again, give the model of a single process."""
    values = {"steps": 12, "save_every": 2, "schedule": "constant"}
    done(host.run(tmp_path / "whole", options=values), "finished at 12")
    folder = tmp_path / "parts"
    results = host.run(folder, world=2, options=values, mishaps={"1": {"die_at": 6}})
    assert [code for code, _ in results] == [1, -signal.SIGKILL]
    said = results[0][1]
    assert len(said.splitlines()) == 1
    assert said.startswith(
        "regard: process 0 of 2 lost the others: one of them has ended; start the job again"
    )
    assert checkpoints(folder)[-1].name == "step-00000004"
    ask = {"0": {"signal_at": 4}}
    done(host.run(folder, resume=True, options=values, mishaps=ask), "interrupted at 8")
    done(host.run(folder, world=2, resume=True, options=values), "finished at 12")
    for name, tensor in model_of(tmp_path / "whole").items():
        if name != "seen":
            torch.testing.assert_close(model_of(folder)[name], tensor, rtol=0, atol=1e-5)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "learning_rate" in line] == list(range(1, 13))


def test_an_error_of_the_first_process_ends_all(tmp_path, host):
    values = {"steps": 4}
    done(host.run(tmp_path / "run", options=values), "finished at 4")
    (first, said), (second, other) = host.run(tmp_path / "run", world=2, options=values)
    assert (first, second) == (1, 1)
    assert "holds a run already" in said
    assert "process 1 ends with the first one: " in other
    assert "holds a run already" in other


def torchrun(spec: dict) -> subprocess.CompletedProcess[str]:
    script = training_runs.__file__
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", script]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*command, json.dumps(spec)], env=environment, capture_output=True, text=True, timeout=300
    )


@pytest.mark.slow
def test_training_under_torchrun_ends_and_resumes(tmp_path):
    spec = {"folder": str(tmp_path / "run"), "options": {"steps": 8, "save_every": 2}}
    result = torchrun({**spec, "mishaps": {"1": {"die_at": 6}}})
    assert result.returncode == 1
    assert "regard: process 0 of 2 lost the others" in result.stderr
    assert checkpoints(tmp_path / "run")[-1].name == "step-00000004"
    result = torchrun({**spec, "resume": True})
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("finished at 8") == 2
