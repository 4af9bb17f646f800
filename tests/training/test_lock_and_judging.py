"""Tests of the lock of a run, of steps before a failure, of weak results, and of messages."""

import json
import os
import re
import signal
import subprocess
import sys
import threading

import pytest
import torch

from regard.errors import FileError
from regard.training import latest_checkpoint, load_checkpoint, lock, progress, train
from regard.training.lock import LOCK, lock_run
from regard.training.progress import Counted, ProgressBar
from support.training_runs import ToyTask, checkpoints, options, run, toy

# ---- two runs in one folder

# The file is loaded by its path: its package would import torch, which takes longer than the test.
HOLD = """
import importlib.util, sys, time
from pathlib import Path
spec = importlib.util.spec_from_file_location("lock", sys.argv[2])
lock = importlib.util.module_from_spec(spec)
spec.loader.exec_module(lock)
with lock.lock_run(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(120)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that trains in this folder."""
    words = [sys.executable, "-c", HOLD, str(tmp_path), str(lock.__file__)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate(timeout=60)


@pytest.mark.parametrize("resume", [False, True])
def test_a_second_run_is_told_which_process_trains_here(tmp_path, holder, resume):
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(FileError, match=rf"writing in {tmp_path}, process {holder.pid} on \S+ since"):
        run(tmp_path, resume=resume)
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize(
    "make", [lambda lock, file: lock.symlink_to(file), lambda lock, file: os.mkfifo(lock)]
)
def test_a_lock_that_is_no_plain_file_is_refused(tmp_path, make):
    file = tmp_path / "letter.txt"
    file.write_text("dear friend")
    make(tmp_path / LOCK, file)
    with pytest.raises(FileError, match="expected a plain file, the lock of a training run: remove it"):
        run(tmp_path)
    assert file.read_text() == "dear friend"


def test_the_lock_of_a_dead_process_is_taken_over(tmp_path, holder):
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait(timeout=60)
    assert (tmp_path / LOCK).is_file()
    assert run(tmp_path).stopped == "finished"
    assert not (tmp_path / LOCK).exists()


def test_a_lock_is_entered_again_by_its_own_thread_only(tmp_path):
    failures = []

    def other():
        try:
            with lock_run(tmp_path):
                failures.append("entered")
        except FileError as error:
            failures.append(str(error))

    with lock_run(tmp_path):
        with lock_run(tmp_path / "." / ""):
            assert json.loads((tmp_path / LOCK).read_text())["process"] == os.getpid()
        assert (tmp_path / LOCK).is_file()
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert f"process {os.getpid()}" in failures[0]
    other()
    assert failures[1:] == ["entered"]


def test_waiting_processes_take_the_lock_in_turn(tmp_path):
    """If a held lock file is removed, a waiting process must not lock the removed file."""
    failures = []

    def work():
        done = 0
        while done < 100:
            try:
                with lock_run(tmp_path):
                    (tmp_path / "inside").touch(exist_ok=False)
                    (tmp_path / "inside").unlink()
                    done += 1
            except FileExistsError as error:
                failures.append(error)
                return
            except FileError:  # another holds it
                pass

    several = [threading.Thread(target=work) for _ in range(3)]
    for thread in several:
        thread.start()
    for thread in several:
        thread.join(timeout=60)
    assert not failures


def test_resuming_where_there_is_no_folder_makes_none(tmp_path):
    with pytest.raises(FileError, match="no checkpoint to resume"):
        run(tmp_path / "none", resume=True)
    assert not (tmp_path / "none").exists()


# ---- errors in a validation


@pytest.mark.parametrize(
    "error", [ValueError("mine"), RuntimeError("mine"), SystemExit(3), FileError("mine")]
)
@pytest.mark.parametrize("where", ["save", "validate"])
def test_an_error_in_the_task_loses_no_step(tmp_path, error, where):
    """An exception in save() lost the epoch, and the model of a validated step was never kept."""

    def fail(*arguments):
        raise error

    failing = ToyTask()
    setattr(failing, where, fail)
    with pytest.raises(type(error)):
        run(tmp_path / "broken", task=failing, steps=7, save_every=100)
    assert [path.name for path in checkpoints(tmp_path / "broken")] == ["step-00000007"]
    assert run(tmp_path / "broken", resume=True, steps=7, save_every=100).stopped == "finished"
    run(tmp_path / "whole", steps=7, save_every=100)
    results = [
        json.loads((tmp_path / name / "best" / "results.json").read_text()) for name in ("broken", "whole")
    ]
    assert results[0] == results[1]
    both = [
        load_checkpoint(latest_checkpoint(tmp_path / name / "checkpoints")) for name in ("broken", "whole")
    ]
    for name, tensor in both[0].tensors["model"].items():
        assert torch.equal(tensor, both[1].tensors["model"][name])


def test_a_linked_best_folder_stays_a_link(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "best").symlink_to(tmp_path / "elsewhere")
    run(tmp_path / "run")
    assert (tmp_path / "run" / "best").is_symlink()
    assert (tmp_path / "elsewhere" / "results.json").is_file()


# ---- the best of a weak run


class Noisy(ToyTask):
    """Scores that are noise below 5, and a number that is not."""

    metric = "bleu"
    higher_is_better = True
    floor = 5.0
    below_floor = "perplexity"

    def __init__(self, numbers):
        super().__init__(metric="bleu", higher_is_better=True)
        self.numbers = iter(numbers)

    def validate(self, model) -> dict[str, float]:
        bleu, perplexity = next(self.numbers)
        return {"bleu": bleu, "perplexity": perplexity}


@pytest.mark.parametrize(
    ("numbers", "best"),
    [
        ([(0.05, 210.0), (0.02, 180.0), (0.9, 190.0)], 2),  # all noise: the lowest perplexity
        # What reaches the floor beats what does not.
        ([(0.1, 90.0), (5.0, 99.0), (4.9, 10.0)], 2),
        ([(6.0, 50.0), (5.5, 20.0), (7.0, 60.0)], 3),  # above it, the metric itself
        ([(0.1, float("inf")), (0.1, float("nan")), (0.1, 1e9)], 3),
        ([(float("nan"), 1.0), (0.1, 5.0), (float("nan"), 1.0)], 2),
    ],
)
def test_below_the_floor_the_smoother_metric_chooses_the_best_model(tmp_path, numbers, best):
    run(tmp_path, task=Noisy(numbers), steps=3, validate_every=1, save_every=1)
    assert json.loads((tmp_path / "best" / "results.json").read_text())["step"] == best


def test_the_log_names_the_metric_that_chose_the_best_model(tmp_path, capsys):
    chosen = options(steps=3, validate_every=1)
    train(toy(), Noisy([(0.05, 210.0), (0.02, 180.0), (6.0, 170.0)]), chosen, tmp_path)
    said = capsys.readouterr().err.splitlines()
    assert [line.partition("  (")[2] for line in said] == [
        "best so far, by perplexity: bleu is below 5)",
        "best so far, by perplexity: bleu is below 5)",
        "best so far)",
    ]


def test_resuming_compares_with_the_best_model_so_far(tmp_path):
    run(tmp_path, task=Noisy([(0.5, 20.0)]), steps=1, validate_every=1, save_every=1)
    run(
        tmp_path, task=Noisy([(0.9, 30.0), (0.1, 10.0)]), resume=True, steps=3, validate_every=1, save_every=1
    )
    assert json.loads((tmp_path / "best" / "results.json").read_text())["step"] == 3


# ---- where there is no terminal


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test moves."""
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_without_a_terminal_progress_is_one_line_a_minute(clock, capsys):
    bar = ProgressBar(1200, 200)
    for step in range(201, 501):
        clock[0] += 0.5
        bar.update(step, loss=float(step % 2), speed=1000.0 + step % 2)
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "step 320/1,200  loss 0.500  1,000 tokens/s  7:20 left",
        "step 440/1,200  loss 0.500  1,000 tokens/s  6:20 left",
    ]
    quiet = ProgressBar(1200, 0, wanted=False)
    clock[0] += 1000
    quiet.update(1, 1.0, 1.0)
    assert capsys.readouterr().err == ""


def test_reading_much_data_reports_progress(clock, capsys, monkeypatch):
    def slow(count):
        for number in range(count):
            clock[0] += 0.01
            yield number

    assert list(Counted(slow(20_000), "pairs encoded")) == list(range(20_000))
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 3
    assert all(re.fullmatch(r"pairs encoded: [\d,]+ in [123]:\d\d", line) for line in said)
    list(Counted(slow(500), "pairs encoded"))
    assert capsys.readouterr().err == ""  # short work needs no word
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    list(Counted(slow(20_000), "pairs encoded"))
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.count("\rpairs encoded: ") > 15


# ---- the lock of a run and processes that are forked


def test_a_forked_process_does_not_keep_the_lock(tmp_path):
    reading, writing = os.pipe()
    with lock_run(tmp_path / "run"):
        child = os.fork()
        if not child:
            os.close(writing)
            os.read(reading, 1)  # until the parent closes its end
            os._exit(0)
    try:
        with lock_run(tmp_path / "run"):  # the child is alive
            assert (tmp_path / "run" / ".lock").is_file()
    finally:
        os.close(writing)
        os.close(reading)
        os.waitpid(child, 0)


def test_a_folder_made_for_a_run_that_writes_nothing_is_removed(tmp_path):
    with lock_run(tmp_path / "runs" / "one"):
        pass
    assert not (tmp_path / "runs").exists()
    (tmp_path / "mine").mkdir()
    with lock_run(tmp_path / "mine"):
        pass
    assert (tmp_path / "mine").is_dir()
    with lock_run(tmp_path / "runs" / "two"):
        (tmp_path / "runs" / "two" / "kept").touch()
    assert (tmp_path / "runs" / "two" / "kept").is_file()


def test_epochs_of_a_few_steps_are_not_validated_one_by_one(tmp_path):
    task = ToyTask(per_epoch=1)
    run(tmp_path, task=task, steps=20, accumulate=1)
    assert len(task.validated) == 5
