"""Tests of the training loop in one process, its steps, validation, best model, messages and errors."""

import json
import math
import os
import re
import signal
import sys
import threading

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from regard.errors import ArgumentError, FileError
from regard.training import (
    Checkpoint,
    TrainingError,
    latest_checkpoint,
    load_checkpoint,
    loop,
    output_cross_entropy,
    progress,
    save_checkpoint,
    train,
)
from regard.training.averaging import AveragedWeights
from regard.training.progress import Journal, ProgressBar
from regard.training.state import seed_everything
from support.training_runs import (
    BATCHES,
    ToyTask,
    best_weights,
    checkpoints,
    digests,
    losses,
    options,
    run,
    toy,
)


def lines(folder):
    def refuse(word: str):
        raise AssertionError(f"{word} is not JSON")

    text = (folder / "metrics.jsonl").read_text(encoding="utf-8")
    assert text == "" or text.endswith("\n")
    return [json.loads(line, parse_constant=refuse) for line in text.splitlines()]


def newest(folder):
    return load_checkpoint(latest_checkpoint(folder / "checkpoints"))


@pytest.fixture
def every_step(monkeypatch):
    monkeypatch.setattr(loop, "_REPORT_EVERY", 1)


# ---- a step


def test_the_loss_falls(tmp_path, every_step):
    run(tmp_path, steps=60)
    assert losses(tmp_path)[-1] < 0.6 * losses(tmp_path)[0]


def test_one_step_equals_adamw_of_torch(tmp_path):
    """The mean loss of all tokens, clipped, with AdamW at the first step's rate."""
    run(tmp_path, steps=5, warmup=10, clip=0.01, weight_decay=0.2, average=0.0, save_every=1, keep=9)
    model, task = toy(), ToyTask()
    decayed = [model.embedding.weight, model.output.weight]
    groups = [{"params": decayed, "weight_decay": 0.2}, {"params": [model.output.bias], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=0.05 / 5, betas=(0.9, 0.98))  # the warm-up is cut to the 5 steps
    batch = next(task.batches(0, 0, 0, 1))
    (task.loss(model, batch) / task.count(batch)).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    optimizer.step()
    saved = load_checkpoint(checkpoints(tmp_path)[0])
    for name, p in model.named_parameters():
        torch.testing.assert_close(saved.tensors["model"][name], p.detach(), rtol=1e-6, atol=1e-7)


def test_accumulated_halves_equal_the_whole_batch(tmp_path):
    class Halves(ToyTask):
        """Each batch of the toy in two, of unequal numbers of tokens."""

        def batches_per_epoch(self, world):
            return 2 * BATCHES

        def batches(self, epoch, start, rank, world):
            halves = [half for r in (0, 1) for half in [ToyTask.batches(self, epoch, 0, r, 2)]]
            pairs = [half for both in zip(*halves, strict=True) for half in both]
            return iter(pairs[start:])

    run(tmp_path / "whole", steps=20, save_every=1, keep=99)
    run(tmp_path / "halves", steps=20, save_every=1, keep=99, accumulate=2, task=Halves())
    for step, table, tolerance in [(0, "optimizer", 1e-6), (0, "model", 1e-6), (19, "model", 1e-4)]:
        one, other = (load_checkpoint(checkpoints(tmp_path / name)[step]) for name in ("whole", "halves"))
        for name, tensor in one.tensors[table].items():
            if name != "seen":
                torch.testing.assert_close(other.tensors[table][name], tensor, rtol=0, atol=tolerance)


def test_clipping_bounds_the_gradient_norm(tmp_path):
    run(tmp_path / "clipped", steps=1, clip=0.001, average=0.0)
    run(tmp_path / "free", steps=1, clip=0.0, average=0.0)
    norms = {}
    for name in ("clipped", "free"):
        moments = newest(tmp_path / name).tensors["optimizer"]
        first = [value for key, value in moments.items() if key.endswith("/exp_avg")]
        norms[name] = float(torch.cat([x.flatten() for x in first]).norm()) / 0.1  # (1 - beta) * gradient
    assert norms["clipped"] == pytest.approx(0.001, rel=1e-3)
    assert norms["free"] > 0.05


@pytest.mark.parametrize("schedule", ["linear", "cosine", "inverse_sqrt", "constant"])
def test_the_run_follows_its_learning_rate_schedule(tmp_path, every_step, schedule):
    run(tmp_path, steps=8, warmup=4, learning_rate=0.8, schedule=schedule)
    rates = [line["learning_rate"] for line in lines(tmp_path) if "loss" in line and "learning_rate" in line]
    assert rates[:4] == pytest.approx([0.2, 0.4, 0.6, 0.8])
    last = {
        # Of the 5 steps down from the peak the last, at 0, is not taken.
        "linear": 0.8 / 5,
        "cosine": 0.4 * (1 + math.cos(math.pi * 4 / 5)),
        "inverse_sqrt": 0.8 * 0.5**0.5,
        "constant": 0.8,
    }
    assert rates[-1] == pytest.approx(last[schedule])
    assert len(rates) == 8
    assert min(rates) > 0


def test_averaged_weights_are_those_computed_by_hand():
    model = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(1.0)
    average = AveragedWeights(model, 0.25)
    values = []
    for step, weight in [(1, 2.0), (2, 4.0), (30, 8.0)]:
        with torch.no_grad():
            model.weight.fill_(weight)
        average.update(model, step)
        values.append(float(average.held["weight"]))
    first = 1 / 11 * 1 + 10 / 11 * 2  # step 1 of 11
    second = 2 / 12 * first + 10 / 12 * 4
    assert values == pytest.approx([first, second, 0.25 * second + 0.75 * 8])
    with average.in_place_of(model):
        assert model.weight.item() == pytest.approx(values[-1])
    assert model.weight.item() == 8.0


def test_averaging_does_not_touch_the_training(tmp_path):
    run(tmp_path / "with", average=0.9)
    run(tmp_path / "without", average=0.0)
    one, other = newest(tmp_path / "with").tensors, newest(tmp_path / "without").tensors
    assert all(torch.equal(other["model"][name], x) for name, x in one["model"].items())
    assert "average" not in other
    assert not torch.equal(one["average"]["output.bias"], one["model"]["output.bias"])


def test_averaging_that_begins_on_resuming_begins_with_the_weights(tmp_path):
    run(tmp_path, steps=30, average=0.0)
    run(tmp_path, resume=True, steps=31, average=0.999)
    tensors = newest(tmp_path).tensors
    now = tensors["model"]["embedding.weight"]
    assert (tensors["average"]["embedding.weight"] - now).abs().max() < 0.02
    assert (toy().embedding.weight - now).abs().max() > 0.2


def test_a_run_depends_on_its_seed(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        run(tmp_path / name, seed=seed, dropout=0.5, steps=3)
    a, b, c = (newest(tmp_path / name).tensors["model"]["output.weight"] for name in "abc")
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


def test_seeds_are_mixed_the_same_way_in_every_version():
    drawn = []
    for seed, step, rank in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]:
        seed_everything(seed, step, rank)
        drawn.append(torch.initial_seed())
    # The first 63 bits of the SHA-256 of "0 0 0".
    assert drawn[0] == 2673160886387138021
    assert len(set(drawn)) == 4


def test_activations_are_bfloat16_and_checkpoints_float32(tmp_path):
    class Watching(ToyTask):
        dtypes: list = []  # noqa: RUF012

        def loss(self, model, batch):
            self.dtypes.append(model.output(model.hidden(batch[0])).dtype)
            return super().loss(model, batch)

    outcome = run(tmp_path, steps=30, precision="bfloat16", task=Watching())
    assert set(Watching.dtypes) == {torch.bfloat16}
    assert outcome.best["loss"] < 2.4
    assert all(x.dtype == torch.float32 for x in newest(tmp_path).tensors["model"].values())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
def test_a_compiled_run_has_the_same_losses(tmp_path, every_step):
    class Bare(ToyTask):
        def loss(self, model, batch):
            hidden, layer = model.hidden(batch[0]), model.output
            return output_cross_entropy(hidden, layer.weight, layer.bias, batch[1], smoothing=0.1)

    run(tmp_path / "plain", steps=6)
    run(tmp_path / "compiled", steps=6, compile=True, task=Bare())
    assert losses(tmp_path / "compiled") == pytest.approx(losses(tmp_path / "plain"), rel=1e-4)
    assert newest(tmp_path / "compiled").tensors["model"].keys() == dict(toy().state_dict()).keys()


# ---- validation and the best model


def test_each_epoch_is_validated_and_the_end_only_once(tmp_path):
    task = ToyTask()
    run(tmp_path, task=task, steps=None, epochs=2)
    assert [line["step"] for line in lines(tmp_path) if "infinite" in line] == [BATCHES, 2 * BATCHES]
    assert len(task.validated) == 2


def test_the_end_is_validated_where_no_interval_ends(tmp_path):
    task = ToyTask()
    run(tmp_path, task=task, steps=5, validate_every=2)
    assert [line["step"] for line in lines(tmp_path)] == [2, 4, 5]


def test_epochs_end_with_an_incomplete_group_of_batches(tmp_path):
    task = ToyTask()
    outcome = run(tmp_path, task=task, steps=None, epochs=2, accumulate=2)
    assert outcome.step == 8  # 7 batches are 4 updates
    assert [line["step"] for line in lines(tmp_path)] == [4, 8]
    run(tmp_path / "half", task=(half := ToyTask()), steps=None, epochs=0.5)
    assert half.calls == 4  # half of 7, rounded


@pytest.mark.parametrize(("higher", "best"), [(True, 4.0), (False, 1.0)])
def test_the_best_is_kept_and_a_worse_last_one_is_not(tmp_path, higher, best):
    scores = [2.0, 4.0, 3.0, 1.0, 2.5, 2.0]
    task = ToyTask(scores=scores, higher_is_better=higher)
    outcome = run(tmp_path, task=task, steps=12, validate_every=2, save_every=1, keep=99)
    step = 2 * (scores.index(best) + 1)
    assert outcome.best == {"loss": best}
    assert outcome.stopped == "finished"
    assert json.loads((tmp_path / "best" / "results.json").read_text())["step"] == step
    assert newest(tmp_path).state["progress"]["best_step"] == step
    averaged = load_file(tmp_path / "checkpoints" / f"step-{step:08d}" / "average.safetensors")
    for name, tensor in averaged.items():
        assert torch.equal(best_weights(tmp_path)[name], tensor)


def test_without_averaging_the_best_are_the_weights_themselves(tmp_path):
    run(tmp_path, task=ToyTask(scores=[1.0, 2.0]), steps=4, validate_every=2, save_every=2, average=0.0)
    weights = load_file(tmp_path / "checkpoints" / "step-00000002" / "model.safetensors")
    assert torch.equal(best_weights(tmp_path)["output.weight"], weights["output.weight"])


@pytest.mark.parametrize(
    ("scores", "higher", "step"),
    [([1.0, 0.5, 2.0, 1.5, 1.8, 9.0], True, 5), ([3.0, 3.0, 3.0, 1.0], False, 3)],
)
def test_training_stops_where_nothing_improves(tmp_path, scores, higher, step):
    task = ToyTask(scores=scores, higher_is_better=higher)
    outcome = run(tmp_path, task=task, steps=12, validate_every=1, patience=2)
    assert (outcome.stopped, outcome.step) == ("no improvement", step)
    assert len(task.validated) == step  # and not once more at the end
    assert newest(tmp_path).state["progress"]["step"] == step
    again = run(tmp_path, resume=True, steps=12, validate_every=1, patience=2)
    assert (again.stopped, again.step) == ("no improvement", step)


def test_training_does_not_stop_early_before_the_least_number_of_steps(tmp_path):
    scores = [1.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]
    options = {"steps": 12, "validate_every": 2, "patience": 2}
    assert run(tmp_path / "exact", task=ToyTask(scores=scores), **options).step == 6
    outcome = run(tmp_path / "least", task=ToyTask(scores=scores), least_steps=7, **options)
    assert (outcome.stopped, outcome.step) == ("no improvement", 8)  # the first validation from step 7 on
    outcome = run(tmp_path / "last", task=ToyTask(scores=scores), least_steps=12, **options)
    assert (outcome.stopped, outcome.step) == ("finished", 12)


def test_nan_scores_never_count_as_best(tmp_path):
    task = ToyTask(scores=[math.nan, 3.0, math.nan, 2.0])
    outcome = run(tmp_path, task=task, steps=4, validate_every=1)
    assert outcome.best == {"loss": 2.0}
    assert [line["loss"] for line in lines(tmp_path)] == [None, 3.0, None, 2.0]


def test_validation_leaves_training_as_it_was(tmp_path):
    run(tmp_path / "often", dropout=0.5, validate_every=1)
    run(tmp_path / "once", dropout=0.5, validate_every=12)
    often, once = newest(tmp_path / "often").tensors, newest(tmp_path / "once").tensors
    for table in ("model", "optimizer", "random", "average"):
        for name, tensor in once[table].items():
            assert torch.equal(often[table][name], tensor), f"{table} {name}"


def test_a_validation_without_its_metric_is_an_error(tmp_path):
    class Other(ToyTask):
        def validate(self, model):
            return {"accuracy": 1.0}

    with pytest.raises(TrainingError, match="the validation gave no 'loss', only accuracy"):
        run(tmp_path, task=Other())


def test_a_finished_run_that_is_resumed_does_nothing(tmp_path):
    run(tmp_path, steps=4, validate_every=3)
    before = digests(tmp_path), lines(tmp_path)
    task = ToyTask()
    outcome = run(tmp_path, resume=True, steps=4, validate_every=3, task=task)
    assert (outcome.stopped, outcome.step, task.calls, task.validated) == ("finished", 4, 0, [])
    assert (digests(tmp_path), lines(tmp_path)) == before


# ---- interruption


def test_ctrl_c_finishes_the_step_and_saves(tmp_path):
    before, task = signal.getsignal(signal.SIGINT), ToyTask(signal_at=5)
    outcome = run(tmp_path, task=task, save_every=100)
    assert (outcome.stopped, outcome.step, task.calls) == ("interrupted", 5, 5)
    assert newest(tmp_path).state["progress"]["step"] == 5
    assert signal.getsignal(signal.SIGINT) is before


def test_sigterm_finishes_the_step_and_saves(tmp_path):
    class Ended(ToyTask):
        def _mishaps(self):
            if self.calls == 3:
                os.kill(os.getpid(), signal.SIGTERM)

    outcome = run(tmp_path, task=Ended())
    assert (outcome.stopped, outcome.step) == ("interrupted", 3)


def test_a_second_ctrl_c_ends_at_once(tmp_path):
    class Impatient(ToyTask):
        def _mishaps(self):
            if self.calls == 3:
                signal.raise_signal(signal.SIGINT)
                signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, task=Impatient(), save_every=1)
    assert newest(tmp_path).state["progress"]["step"] == 2


def test_in_another_thread_signals_are_left_alone(tmp_path):
    found = []
    thread = threading.Thread(target=lambda: found.append(run(tmp_path, steps=2)))
    thread.start()
    thread.join()
    assert found[0].stopped == "finished"


# ---- metrics.jsonl and the terminal


def test_the_log_of_a_resumed_run_equals_an_uninterrupted_one(tmp_path, every_step):
    run(tmp_path / "whole", steps=9, validate_every=3)
    run(tmp_path / "parts", steps=9, validate_every=3, task=ToyTask(signal_at=6), save_every=2, keep=99)
    run(tmp_path / "parts", steps=9, validate_every=3, resume=True)
    timed = ("seconds", "tokens_per_second")
    whole, parts = (
        [{k: v for k, v in line.items() if k not in timed} for line in lines(tmp_path / name)]
        for name in ("whole", "parts")
    )
    assert parts == whole


def test_resuming_drops_later_lines_and_repairs_the_last_one(tmp_path):
    path = tmp_path / "metrics.jsonl"
    entries = [
        {"step": 2, "loss": 1.0, "learning_rate": 0.1},
        {"step": 4, "loss": 0.5, "learning_rate": 0.1},
        {"step": 4, "loss": 3.0},
        {"step": 5, "loss": 9.0, "learning_rate": 0.1},
    ]
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries) + '{"step": 6, "lo')
    journal = Journal(path, 4, validated=4)
    assert lines(tmp_path) == entries[:3]
    journal.write(step=5, loss=math.inf)
    assert lines(tmp_path)[-1] == {"step": 5, "loss": None}
    Journal(path, 4, validated=2)
    assert lines(tmp_path) == entries[:2]


def test_the_speed_is_that_of_all_steps_since_the_last_line(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "_REPORT_EVERY", 4)
    clock = iter(range(1000))
    monkeypatch.setattr(loop.time, "perf_counter", lambda: float(next(clock)))  # each step takes a second
    run(tmp_path, steps=8, validate_every=8)
    counts = [len(batch[0]) for epoch in (0, 1) for batch in ToyTask().batches(epoch, 0, 0, 1)]
    speeds = [line["tokens_per_second"] for line in lines(tmp_path) if "learning_rate" in line]
    assert speeds == [round(sum(counts[:4]) / 4), round(sum(counts[4:8]) / 4)]


def test_the_speed_is_in_items_if_the_task_does_not_count_tokens(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(loop, "_REPORT_EVERY", 4)
    monkeypatch.setattr(progress, "TELL_EVERY", 0.0)
    monkeypatch.delattr(ToyTask, "tokens_read")
    train(toy(), ToyTask(), options(steps=4), tmp_path)
    (noted,) = [line for line in lines(tmp_path) if "learning_rate" in line]
    assert noted["items_per_second"] > 0
    assert "tokens_per_second" not in noted
    assert re.search(r"loss \S+  [\d,]+ items/s", capsys.readouterr().err)


def test_the_loss_in_the_journal_is_the_mean_since_the_last_line(tmp_path, monkeypatch):
    def noted(folder, every):
        monkeypatch.setattr(loop, "_REPORT_EVERY", every)
        run(folder, steps=8, validate_every=8)
        return losses(folder)

    counts = [len(batch[0]) for epoch in (0, 1) for batch in ToyTask().batches(epoch, 0, 0, 1)]
    each = noted(tmp_path / "each", 1)
    expected = [np.average(each[part], weights=counts[part]) for part in (slice(0, 4), slice(4, 8))]
    np.testing.assert_allclose(noted(tmp_path / "mean", 4), expected, rtol=1e-6)


def test_no_bar_where_the_error_stream_is_no_terminal(tmp_path, capsys):
    train(toy(), ToyTask(), options(steps=2), tmp_path)
    said = capsys.readouterr()
    assert said.out == ""
    assert "\x1b" not in said.err
    assert len(said.err.splitlines()) == 1
    assert said.err.startswith("step 2: loss ")
    assert "(best so far)" in said.err


def test_a_terminal_shows_a_progress_bar(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    bar = ProgressBar(10, 2)
    assert bar.shown
    bar.update(3, 0.5, 1234.5)
    bar.say("[best]")
    bar.close()
    said = capsys.readouterr().err
    assert "step 3/10" in said
    assert "loss 0.500  1,234 tokens/s  left" in said
    assert re.search(r"left \S*[-\d]+:[-\d]+", said)
    assert "[best]" in said
    monkeypatch.setenv("TERM", "dumb")
    assert not ProgressBar(10, 2).shown
    assert not ProgressBar(10, 2, wanted=False).shown


def test_with_show_false_a_run_prints_nothing(tmp_path, capsys):
    run(tmp_path, steps=2)
    assert capsys.readouterr() == ("", "")


# ---- refusals


def test_a_nan_loss_is_an_error(tmp_path):
    message = "the loss is nan at step 6: lower learning_rate .0.05., warm up longer .3. or check the data"
    with pytest.raises(TrainingError, match=message):
        run(tmp_path, task=ToyTask(nan_at=6), save_every=1)
    assert newest(tmp_path).state["progress"]["step"] == 5
    assert all(x.isfinite().all() for x in newest(tmp_path).tensors["model"].values())


def test_nan_gradients_reach_no_checkpoint(tmp_path):
    class Steep(ToyTask):
        def loss(self, model, batch):
            loss = super().loss(model, batch)
            if self.calls == 4:
                model.output.bias.register_hook(lambda grad: grad * math.inf)
            return loss

    for clip in (1.0, 0.0):
        with pytest.raises(TrainingError, match="the gradients are not finite at step 4"):
            run(tmp_path / str(clip), task=Steep(), save_every=1, clip=clip)
        assert newest(tmp_path / str(clip)).state["progress"]["step"] == 3


def test_a_task_without_batches_is_an_error(tmp_path):
    with pytest.raises(ArgumentError, match="data: there is nothing to train on: no batches"):
        run(tmp_path / "none", task=ToyTask(per_epoch=0))
    assert not (tmp_path / "none").exists()

    class Fewer(ToyTask):
        def batches(self, epoch, start, rank, world):
            return iter(())

    with pytest.raises(TrainingError, match=r"epoch 0 has no batches, but batches_per_epoch\(\) returned 7"):
        run(tmp_path / "fewer", task=Fewer())

    class Empty(ToyTask):
        def count(self, batch):
            return 0

    with pytest.raises(TrainingError, match="step 1: the batch has nothing to learn from"):
        run(tmp_path / "empty", task=Empty())


def everything(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_folder_that_holds_a_run_is_refused(tmp_path):
    run(tmp_path, steps=2)
    before = everything(tmp_path)
    with pytest.raises(FileError, match="holds a run already, at step-00000002: resume it .--resume., or"):
        run(tmp_path, steps=2)
    assert everything(tmp_path) == before


def test_a_folder_without_a_run_cannot_be_resumed(tmp_path):
    with pytest.raises(FileError, match="there is no checkpoint to resume from"):
        run(tmp_path / "none", resume=True)
    assert not (tmp_path / "none").exists()


def test_resuming_another_model_is_refused_before_writing(tmp_path):
    run(tmp_path, steps=2)
    before = everything(tmp_path)
    with pytest.raises(
        FileError, match=r"another model: embedding.weight is \(13, 5\), in this model \(13, 3\)"
    ):
        train(toy(width=3), ToyTask(), options(), tmp_path, resume=True)
    with pytest.raises(FileError, match="another model: it lacks bias"):
        train(nn.Linear(2, 2), ToyTask(), options(), tmp_path, resume=True)
    assert everything(tmp_path) == before


def test_a_checkpoint_that_is_no_training_run_is_refused(tmp_path):
    save_checkpoint(tmp_path / "checkpoints", 1, Checkpoint({}, {"model": {}}), keep=1)
    with pytest.raises(FileError, match="not one of a training run"):
        run(tmp_path, resume=True)


def test_a_checkpoint_of_the_first_version_can_be_resumed(tmp_path):
    """A checkpoint of the first version has no step of its validation, and was written after the validation."""
    run(tmp_path / "whole", steps=9, validate_every=3)
    run(tmp_path / "old", steps=9, validate_every=3, save_every=1, keep=99)
    for path in checkpoints(tmp_path / "old")[6:]:
        for file in path.iterdir():
            file.unlink()
        path.rmdir()
    held = newest(tmp_path / "old")
    del held.state["progress"]["validated"]
    save_checkpoint(tmp_path / "old" / "checkpoints", 6, held, keep=1)
    task = ToyTask()
    run(tmp_path / "old", steps=9, validate_every=3, resume=True, task=task)
    assert len(task.validated) == 1
    one, other = newest(tmp_path / "old"), newest(tmp_path / "whole")
    times = {"seconds": 0, "training_seconds": 0}
    assert {**one.state["progress"], **times} == {**other.state["progress"], **times}


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(FileError, match="cannot (write in|read) .*file/run"):
        run(tmp_path / "file" / "run")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_folder_without_write_permission_is_an_error(tmp_path):
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o700)
    locked.chmod(0o500)
    result = tmp_path / "said"
    result.touch()
    result.chmod(0o666)
    tmp_path.chmod(0o755)
    model, task = toy(), ToyTask()
    handle = os.open(result, os.O_WRONLY)
    child = os.fork()
    if not child:
        try:
            if os.getuid() == 0:
                os.setuid(65534)  # root may write everywhere
            train(model, task, options(), locked / "run", show=False)
        except BaseException as error:
            os.write(handle, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(handle)
    assert "FileError: cannot " in result.read_text()
    assert "Permission denied" in result.read_text()
