"""The training loop that all tasks use."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from regard.errors import ArgumentError, RegardError
from regard.training.averaging import AveragedWeights
from regard.training.distributed import LostProcessError, Processes, is_lost_connection, joined
from regard.training.duration import Duration
from regard.training.folder import RunFolder
from regard.training.judging import decided_by, is_better, measures
from regard.training.lock import lock_run
from regard.training.optimizer import make_optimizer
from regard.training.options import TrainingOptions
from regard.training.precision import autocast
from regard.training.progress import ProgressBar
from regard.training.signals import StopRequest
from regard.training.state import RunState, random_kept, seed_everything
from regard.training.task import Loss, TrainingTask

__all__ = ["Outcome", "Trainer", "TrainingError", "train"]

# The number of steps between two lines of metrics.jsonl.
_REPORT_EVERY = 50
# The least number of steps between two validations, in a run of 250 steps or more that validates after epochs.
_STEPS_BETWEEN_VALIDATIONS = 50


class TrainingError(RegardError):
    """Raised when training cannot continue, for example because the loss is not finite."""


@dataclass
class Outcome:
    """The result of a training run.

    - ``step`` is the number of updates of the weights, with those before the run was resumed.
    - ``stopped`` is "finished", "no improvement" or "interrupted".
    - ``best`` holds the numbers of the best validation by name. It is empty if there was none.
    - ``seconds`` is the time of steps and validations, with those before the run was resumed.
    - ``signal`` is the number of the signal that interrupted the run, if this process received one.
    - ``first_step`` is the step that the run was resumed from, or 0.
    - ``training_seconds`` is the time of steps alone.
    """

    step: int
    stopped: str
    best: dict[str, float]
    seconds: float
    signal: int | None = None
    first_step: int = 0
    training_seconds: float = 0.0


def train(
    model: nn.Module,
    task: TrainingTask,
    options: TrainingOptions,
    folder: str | Path,
    *,
    resume: bool = False,
    show: bool = True,
) -> Outcome:
    """Train ``model`` on ``task``, and write checkpoints, metrics and the best model into ``folder``.

    With ``resume`` the run continues from its newest checkpoint and gives the same weights as without an interruption.
    Without it, a folder that holds a run raises FileError. ``show`` prints progress on the error stream. Afterwards
    ``model`` is on the device of training and has the weights of the last step, not those of the best validation.
    Raises TrainingError if the loss is not finite, and LostProcessError if another process has ended.
    """
    processes = Processes.join()
    try:
        return Trainer(model, task, options, Path(folder), processes, show=show).run(resume=resume)
    except RuntimeError as error:
        if processes.world > 1 and is_lost_connection(error):
            raise LostProcessError(
                f"process {processes.rank} of {processes.world} lost the others: one of them has ended; "
                "start the job again with --resume, with as many processes as you like "
                f"({str(error).strip().partition(chr(10))[0]})"
            ) from error
        raise
    finally:
        with contextlib.suppress(RuntimeError):
            processes.leave()


@dataclass(frozen=True)
class _Step:
    """The numbers of one update, over all processes."""

    loss: float  # the mean over ``count`` tokens or examples
    count: int
    read: int  # the pictures or tokens that the model read, or ``count`` if the task does not say
    seconds: float


class Trainer:
    """One run of training, which :func:`train` makes and runs."""

    def __init__(
        self,
        model: nn.Module,
        task: TrainingTask,
        options: TrainingOptions,
        folder: Path,
        processes: Processes,
        *,
        show: bool = True,
    ):
        self.task, self.options, self.processes, self.show = task, options, processes, show
        self.folder = RunFolder(folder, options)
        self.batches_per_epoch = task.batches_per_epoch(processes.world)
        if self.batches_per_epoch == 0:
            raise ArgumentError("data", "there is nothing to train on: no batches")
        self.duration = Duration.of(options, self.batches_per_epoch)
        self.model = model.to(processes.device)
        # This also copies the weights of the first process to the others.
        self.loss = self._wrapped()
        averaged = options.average and processes.first
        average = AveragedWeights(self.model, options.average) if averaged else None
        self.optimizer = make_optimizer(self.model, options)
        self.state = RunState(self.model, self.optimizer, average, self._same_data())
        self.stop = StopRequest()
        self.unit = next((unit for unit in ("pictures", "tokens") if hasattr(task, f"{unit}_read")), "items")
        # The summed loss, its count, what was read and the seconds since the last line of metrics.jsonl.
        self.since_note = (0.0, 0, 0, 0.0)

    def run(self, *, resume: bool) -> Outcome:
        """Lock the folder, and train until the last step, until validations stop improving, or until interrupted."""
        with contextlib.ExitStack() as held:
            lock = lock_run(self.folder.path, make=not resume)
            self.processes.on_first(lambda: held.enter_context(lock))
            return self._run(resume)

    def _run(self, resume: bool) -> Outcome:
        seed_everything(self.options.seed, 0, self.processes.rank)
        self.folder.begin(self.state, self.processes, resume=resume)
        steps, p = self._steps(), self.state.progress
        first = p.step
        shown = self.show and self.processes.first
        self.bar = ProgressBar(self.duration.total(p), p.step, wanted=shown, unit=self.unit)
        try:
            with self.stop.watched():
                while not (stopped := self._between_steps()):
                    self._report(next(steps))
        finally:
            self.bar.close()
        return Outcome(p.step, stopped, p.best, p.seconds, self.stop.signal, first, p.training_seconds)

    def _same_data(self) -> str:
        """Return the fingerprint of the data, or raise TrainingError if the processes have different data."""
        mine = getattr(self.task, "fingerprint", "")
        if self.processes.agree(self.processes.same_text(mine) != mine):
            raise TrainingError("the processes have different training data: give all of them the same files")
        return mine

    # One step

    def _steps(self) -> Iterator[_Step]:
        """Update the weights without end, and yield the numbers of each update after it.

        The epoch, the batch and the time in the progress are updated.
        """
        p = self.state.progress
        while True:
            # The time of a step includes reading its batch.
            began = time.perf_counter()
            for group in self._groups():
                loss, count, read = self._update(group)
                seconds = time.perf_counter() - began
                p.seconds += seconds
                p.training_seconds += seconds
                if self.duration.seconds is not None:
                    # All processes have to end at the same step, with the same learning rates.
                    p.training_seconds = self.processes.same(p.training_seconds)
                yield _Step(loss, count, read, seconds)
                began = time.perf_counter()
            if p.batch == 0:
                raise TrainingError(
                    f"epoch {p.epoch} has no batches, but batches_per_epoch() returned {self.batches_per_epoch}"
                )
            p.epoch += 1
            p.batch = 0

    def _groups(self) -> Iterator[list[Any]]:
        """Yield the remaining batches of the epoch in lists of ``accumulate`` batches, one list for each update.

        The last list may be shorter.
        """
        p = self.state.progress
        group: list[Any] = []
        for batch in self.task.batches(p.epoch, p.batch, self.processes.rank, self.processes.world):
            group.append(batch)
            if len(group) == self.options.accumulate:
                yield group
                group = []
        if group:
            yield group

    def _update(self, group: list[Any]) -> tuple[float, int, int]:
        """Make one update from a group of batches, or raise TrainingError if the loss or a gradient is not finite.

        Returns, over all processes, the mean loss, the number it is a mean over, and the number that the speed counts.
        """
        p = self.state.progress
        counted = sum(self.task.count(batch) for batch in group)
        read = sum(map(getattr(self.task, f"{self.unit}_read", self.task.count), group))
        count, read = self.processes.sum(counted, read)
        if not count:
            raise TrainingError(f"step {p.step + 1}: the batch has nothing to learn from: its count is 0")
        for values in self.optimizer.param_groups:
            values["lr"] = self.options.learning_rate * self.duration.rate(p, self.options)
        mean = self._gradients(group, count)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.options.clip or math.inf)
        if not math.isfinite(mean) or not math.isfinite(norm):
            raise self._diverged(mean)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        p.step += 1
        p.batch += len(group)
        if self.state.average is not None:
            self.state.average.update(self.model, p.step)
        return mean, int(count), int(read)

    def _gradients(self, group: list[Any], count: float) -> float:
        """Compute the gradients of the mean loss over all processes, and return that loss.

        ``count`` is that of the group in all processes, by which the summed loss is divided.
        """
        self.model.train()
        total = 0.0
        for i, batch in enumerate(group):
            with contextlib.nullcontext() if i == len(group) - 1 else self._without_sync():
                with autocast(self.options.precision, self.processes.device):
                    loss = self.loss(self.task.to_device(batch, self.processes.device))
                # DistributedDataParallel averages over processes. Times their number, the average is the sum.
                (loss * (self.processes.world / count)).backward()
            total += float(loss.detach())
        return self.processes.sum(total)[0] / count

    def _diverged(self, mean: float) -> TrainingError:
        what = "the gradients are not finite" if math.isfinite(mean) else f"the loss is {mean}"
        return TrainingError(
            f"{what} at step {self.state.progress.step + 1}: lower learning_rate "
            f"({self.options.learning_rate:g}), warm up longer ({self.options.warmup}) or check the data; "
            f"the checkpoints in {self.folder.path} are as they were before this step"
        )

    def _wrapped(self) -> nn.Module:
        """Return a module that computes the loss of a batch, compiled if the options say so.

        With several processes it synchronises gradients.
        """
        loss: nn.Module = Loss(self.model, self.task.loss)
        if self.options.compile:
            loss = torch.compile(loss, dynamic=True)  # type: ignore[assignment]
        return loss if self.processes.world == 1 else joined(loss)

    def _without_sync(self) -> contextlib.AbstractContextManager:
        """Return a context manager in which gradients are not synchronised, for all but the last batch of a group."""
        if isinstance(self.loss, DistributedDataParallel):
            return self.loss.no_sync()
        return contextlib.nullcontext()

    # Between steps

    def _between_steps(self) -> str:
        """Validate and save if it is due, and return the reason to stop as in :class:`Outcome`, or "" to continue."""
        p, options, stopped = self.state.progress, self.options, ""
        if self.processes.agree(self.stop.asked):
            # The user is waiting, so a validation that is due is done after resuming.
            stopped = "interrupted"
        else:
            if self._validation_is_due():
                with self._steps_kept():
                    self._validate()
            if self.duration.is_over(p):
                stopped = "finished"
            elif options.patience and p.stale >= options.patience and p.validated >= options.least_steps:
                stopped = "no improvement"
        if stopped or p.step % options.save_every == 0:
            self.folder.save(self.state, self.processes)
        return stopped

    @contextlib.contextmanager
    def _steps_kept(self) -> Iterator[None]:
        """Return a context manager that writes a checkpoint of the state before it if an exception is raised inside.

        KeyboardInterrupt and the loss of another process write none.
        """
        p = self.state.progress
        before = {name: getattr(p, name) for name in ("best", "best_step", "stale", "validated")}
        try:
            yield
        # A second Ctrl-C ends the run at once.
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            # All processes take part in a checkpoint. They are told of exceptions, but not of a process that exits.
            lost = isinstance(error, RuntimeError) and is_lost_connection(error)
            if self.processes.world == 1 or (isinstance(error, Exception) and not lost):
                # After resuming, this step is validated again.
                vars(p).update(before)
                self.folder.save(self.state, self.processes)
            raise

    def _validation_is_due(self) -> bool:
        p, every = self.state.progress, self.options.validate_every
        if p.step == 0 or p.validated == p.step:
            return False
        if self.duration.is_over(p):
            return True
        if every:
            return p.step % every == 0
        # Epochs of a few steps are not all validated.
        least = min(_STEPS_BETWEEN_VALIDATIONS, math.ceil(self.duration.total(p) / 5))
        return p.batch >= self.batches_per_epoch and p.step - p.validated >= least

    def _validate(self) -> None:
        """Validate the weights (the averaged ones if there are any), and save them if they are the best so far.

        The first process validates while the others wait.
        """
        p, began = self.state.progress, time.perf_counter()
        results = self.processes.on_first(self._validated) or {}
        score = self.processes.same(results.get(self.task.metric, math.nan))
        better = bool(self.processes.same(is_better(self.task, results, p.best)))
        p.validated = p.step
        p.stale = 0 if better else p.stale + 1
        if better:
            shown = measures(self.task, results)
            p.best = {name: value for name, value in shown.items() if math.isfinite(value)}
            p.best.setdefault(self.task.metric, score)
            p.best_step = p.step
        p.seconds += time.perf_counter() - began
        self.processes.on_first(lambda: self._tell(results, better))

    def _validated(self) -> dict[str, float]:
        """Return the numbers of the task's validation by name, or raise TrainingError if its metric is missing.

        Afterwards the model is in training mode, with its own weights, and the random numbers are restored.
        """
        self.model.eval()
        try:
            with torch.no_grad(), random_kept(self.processes.device), self._kept_weights():
                results = self.task.validate(self.model)
        finally:
            self.model.train()
        if self.task.metric not in results:
            raise TrainingError(
                f"the validation gave no {self.task.metric!r}, only {', '.join(results) or 'nothing'}"
            )
        return {name: float(value) for name, value in results.items()}

    def _tell(self, results: dict[str, float], better: bool) -> None:
        p = self.state.progress
        if better:
            with random_kept(self.processes.device), self._kept_weights():
                self.folder.keep_best(
                    lambda part: self.task.save(self.model, part, {"step": p.step, **results})
                )
        self._note(**results)
        shown = measures(self.task, results)
        numbers = "  ".join(f"{name} {value:.4g}" for name, value in shown.items())
        told = f"  (best so far{decided_by(self.task, results)})" if better else ""
        self._say(f"step {p.step}: {numbers}{told}")

    def _kept_weights(self) -> contextlib.AbstractContextManager:
        average = self.state.average
        return contextlib.nullcontext() if average is None else average.in_place_of(self.model)

    def _report(self, step: _Step) -> None:
        p = self.state.progress
        total, count, read, spent = self.since_note
        total, count = total + step.loss * step.count, count + step.count
        read, spent = read + step.read, spent + step.seconds
        self.bar.update(p.step, step.loss, step.read / step.seconds, self.duration.total(p))
        if self.processes.first and p.step % _REPORT_EVERY == 0:
            speed = {f"{self.unit}_per_second": round(read / spent)}
            self._note(loss=total / count, learning_rate=self.optimizer.param_groups[0]["lr"], **speed)
            total, count, read, spent = 0.0, 0, 0, 0.0
        self.since_note = (total, count, read, spent)

    def _note(self, **values: float) -> None:
        p = self.state.progress
        self.folder.journal.write(step=p.step, epoch=p.epoch, seconds=round(p.seconds, 1), **values)

    def _say(self, text: str) -> None:
        if self.show and self.processes.first:
            self.bar.say(text)
