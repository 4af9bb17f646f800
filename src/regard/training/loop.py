"""The one training loop."""

from __future__ import annotations

import contextlib
import math
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from regard.errors import ArgumentError, FileError, RegardError
from regard.training.averaging import AveragedWeights
from regard.training.checkpoints import Checkpoint, latest_checkpoint, load_checkpoint, save_checkpoint
from regard.training.distributed import LostProcessError, Processes
from regard.training.options import TrainingOptions
from regard.training.progress import Journal, ProgressBar
from regard.training.schedules import SCHEDULES
from regard.training.task import Loss, TrainingTask

__all__ = ["Outcome", "Trainer", "TrainingError", "train"]

_REPORT_EVERY = 50  # steps between two lines of metrics.jsonl


class TrainingError(RegardError):
    """Training cannot go on."""


@dataclass
class Outcome:
    """How a run ended."""

    step: int
    stopped: str  # "finished", "no improvement" or "interrupted"
    best: dict[str, float]
    seconds: float


@dataclass
class Progress:
    """Where a run is: all that a checkpoint holds besides tensors."""

    step: int = 0
    epoch: int = 0
    batch: int = 0  # of the epoch, the next to be read
    best: dict[str, float] = field(default_factory=dict)
    best_step: int = 0
    stale: int = 0  # validations since the best
    seconds: float = 0.0


def train(
    model: nn.Module,
    task: TrainingTask,
    options: TrainingOptions,
    folder: str | Path,
    *,
    resume: bool = False,
    show: bool = True,
) -> Outcome:
    """Train ``model`` on ``task``; checkpoints, metrics and the best model go into ``folder``.

    With ``resume`` the run goes on from its newest checkpoint, exactly as if it had not been interrupted.
    """
    processes = Processes.join()
    try:
        return Trainer(model, task, options, Path(folder), processes, show=show).run(resume=resume)
    except RuntimeError as error:
        if processes.world > 1 and _is_lost_connection(error):
            raise LostProcessError(
                f"process {processes.rank} of {processes.world} lost the others: one of them has ended; "
                "start the job again with --resume, with as many processes as you like"
            ) from error
        raise
    finally:
        with contextlib.suppress(RuntimeError):
            processes.leave()


class Trainer:
    """One run of training; :func:`train` is the short way to it."""

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
        self.task, self.options, self.folder, self.processes = task, options, folder, processes
        self.model = model.to(processes.device)
        self.optimizer = _optimizer(self.model, options)
        self.average = AveragedWeights(self.model, options.average) if options.average else None
        self.batches_per_epoch = task.batches_per_epoch(processes.world)
        if self.batches_per_epoch == 0:
            raise ArgumentError("data", "there is nothing to train on: no batches")
        self.steps_per_epoch = math.ceil(self.batches_per_epoch / options.accumulate)
        self.total = options.steps or max(1, round((options.epochs or 1) * self.steps_per_epoch))
        self.progress = Progress()
        self.show = show
        self.stop_asked = False
        self.loss = self._wrapped()

    def run(self, *, resume: bool) -> Outcome:
        """Train to the end, to the point where nothing improves, or until interrupted."""
        self._begin(resume)
        stopped = "finished"
        bar = ProgressBar(self.total, self.progress.step, wanted=self.show and self.processes.first)
        self.bar = bar
        try:
            with self._watching_signals():
                for losses in self._steps():
                    self._report(losses)
                    stopped = self._after_step()
                    if stopped:
                        break
                else:
                    stopped = "finished"
        finally:
            bar.close()
        if stopped != "interrupted" and self.progress.step != self.progress.best_step:
            self._validate_if_due(at_end=True)
        self._save()
        return Outcome(self.progress.step, stopped, self.progress.best, self.progress.seconds)

    # One step

    def _steps(self) -> Iterator[tuple[float, int, float]]:
        """Update the weights step by step; after each, give its loss, tokens and seconds."""
        while self.progress.step < self.total:
            for group in self._groups():
                began = time.perf_counter()
                loss, tokens = self._update(group)
                seconds = time.perf_counter() - began
                self.progress.seconds += seconds
                yield loss, tokens, seconds
                if self.progress.step >= self.total:
                    return
            self.progress.epoch += 1
            self.progress.batch = 0

    def _groups(self) -> Iterator[list[Any]]:
        """The rest of the epoch's batches, as many at a time as make one update."""
        p = self.progress
        group: list[Any] = []
        for batch in self.task.batches(p.epoch, p.batch, self.processes.rank, self.processes.world):
            group.append(batch)
            if len(group) == self.options.accumulate:
                yield group
                group = []
        if group:
            yield group

    def _update(self, group: list[Any]) -> tuple[float, int]:
        """One update from a group of batches; the mean loss and the tokens, over all processes."""
        options, p = self.options, self.progress
        tokens = self.processes.sum(sum(self.task.count(batch) for batch in group))[0]
        for values in self.optimizer.param_groups:
            values["lr"] = options.learning_rate * self._rate(p.step + 1)
        self.model.train()
        total = 0.0
        for i, batch in enumerate(group):
            last = i == len(group) - 1
            with contextlib.nullcontext() if last else self._without_sync(), self._autocast():
                loss = self.loss(self.task.to_device(batch, self.processes.device))
                # DistributedDataParallel averages over processes: times their number, it is the sum.
                (loss * (self.processes.world / tokens)).backward()
            total += float(loss.detach())
        mean = self.processes.sum(total)[0] / tokens
        if not math.isfinite(mean):
            raise TrainingError(
                f"the loss is {mean} at step {p.step + 1}: lower learning_rate ({options.learning_rate:g}), "
                f"warm up longer ({options.warmup}) or check the data; checkpoints are kept in {self.folder}"
            )
        if options.clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), options.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        p.step += 1
        p.batch += len(group)
        if self.average is not None:
            self.average.update(self.model, p.step)
        return mean, int(tokens)

    def _rate(self, step: int) -> float:
        # The last step is taken at a rate above 0: a step at 0 would be wasted.
        return SCHEDULES[self.options.schedule](step, min(self.options.warmup, self.total), self.total + 1)

    def _wrapped(self) -> nn.Module:
        """The model with its loss, compiled if asked, joined with the other processes' if there are any."""
        loss: nn.Module = Loss(self.model, self.task.loss)
        if self.options.compile:
            loss = torch.compile(loss, dynamic=True)  # type: ignore[assignment]
        return DistributedDataParallel(loss) if self.processes.world > 1 else loss

    def _without_sync(self) -> contextlib.AbstractContextManager:
        """Gradients of all but the last batch of a group stay at home."""
        if isinstance(self.loss, DistributedDataParallel):
            return self.loss.no_sync()
        return contextlib.nullcontext()

    def _autocast(self) -> contextlib.AbstractContextManager:
        if not _uses_bfloat16(self.options.precision, self.processes.device):
            return contextlib.nullcontext()
        return torch.autocast(self.processes.device.type, dtype=torch.bfloat16)

    # Between steps

    def _after_step(self) -> str:
        """Validate and save where it is due; a reason to stop, or nothing."""
        p, options = self.progress, self.options
        if self.processes.agree(self.stop_asked):
            return "interrupted"
        self._validate_if_due()
        if options.patience and p.stale >= options.patience:
            return "no improvement"
        if p.step % options.save_every == 0:
            self._save()
        return ""

    def _validate_if_due(self, *, at_end: bool = False) -> None:
        every = self.options.validate_every or self.steps_per_epoch
        if not at_end and (self.progress.step % every or self.progress.step == self.total):
            return
        began = time.perf_counter()
        results: dict[str, float] = {}
        if self.processes.first:
            results = self._validated()
        score = self.processes.same(results.get(self.task.metric, math.nan))
        p, sign = self.progress, 1 if self.task.higher_is_better else -1
        best = p.best.get(self.task.metric)
        better = best is None or sign * score > sign * best
        if better:
            p.best, p.best_step, p.stale = {**results, self.task.metric: score}, p.step, 0
        else:
            p.stale += 1
        if self.processes.first:
            self._tell(results, better)
        p.seconds += time.perf_counter() - began

    def _validated(self) -> dict[str, float]:
        """Validate with the weights that would be kept, without touching the random numbers of training."""
        self.model.eval()
        state = torch.random.get_rng_state()
        try:
            with torch.no_grad(), self._kept_weights():
                return self.task.validate(self.model)
        finally:
            torch.random.set_rng_state(state)
            self.model.train()

    def _tell(self, results: dict[str, float], better: bool) -> None:
        p = self.progress
        self.journal.write(step=p.step, epoch=p.epoch, seconds=round(p.seconds, 1), **results)
        numbers = "  ".join(f"{name} {value:.4g}" for name, value in results.items())
        if self.show:
            self.bar.say(f"step {p.step}: {numbers}{'  (best so far)' if better else ''}")
        if better:
            with self._kept_weights():
                self.task.save(self.model, self.folder / "best", {"step": p.step, **results})

    def _kept_weights(self) -> contextlib.AbstractContextManager:
        return contextlib.nullcontext() if self.average is None else self.average.in_place_of(self.model)

    def _report(self, losses: tuple[float, int, float]) -> None:
        loss, tokens, seconds = losses
        speed = tokens / seconds
        p = self.progress
        self.bar.update(p.step, loss, speed)
        if self.processes.first and p.step % _REPORT_EVERY == 0:
            rate = self.optimizer.param_groups[0]["lr"]
            values = {"loss": loss, "learning_rate": rate, "tokens_per_second": round(speed)}
            self.journal.write(step=p.step, epoch=p.epoch, seconds=round(p.seconds, 1), **values)

    # Saving and going on

    def _begin(self, resume: bool) -> None:
        checkpoints = self.folder / "checkpoints"
        found = latest_checkpoint(checkpoints)
        if found and not resume:
            raise FileError(
                f"{self.folder} holds a run already, at {found.name}: go on with it (--resume), "
                "or choose another folder"
            )
        if resume and not found:
            raise FileError(f"{self.folder}: there is no checkpoint to resume from")
        torch.manual_seed(self._seed())
        if found:
            self._restore(load_checkpoint(found))
        if self.processes.first:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.journal = Journal(self.folder / "metrics.jsonl", self.progress.step)

    def _seed(self) -> int:
        """Different for each process and each start, so that none repeats the random numbers of another."""
        return hash((self.options.seed, self.progress.step, self.processes.rank)) % 2**63

    def _save(self) -> None:
        states = self.processes.gather(torch.random.get_rng_state())
        if not self.processes.first:
            return
        p = self.progress
        random = {str(rank): state for rank, state in enumerate(states)}
        tensors = {
            "model": dict(self._named_once()),
            "optimizer": _optimizer_tensors(self.optimizer, self.model),
            "random": random,
        }
        if self.average is not None:
            tensors["average"] = self.average.held
        state = {"progress": vars(p), "options": self.options.to_json(), "world": self.processes.world}
        save_checkpoint(
            self.folder / "checkpoints", p.step, Checkpoint(state, tensors), keep=self.options.keep
        )

    def _named_once(self) -> Iterator[tuple[str, Tensor]]:
        yield from self.model.named_parameters()
        kept = self.model.state_dict()
        yield from ((name, buffer) for name, buffer in self.model.named_buffers() if name in kept)

    def _restore(self, checkpoint: Checkpoint) -> None:
        own = dict(self._named_once())
        tensors = checkpoint.tensors
        if set(tensors.get("model", {})) != set(own):
            raise FileError(
                f"{self.folder}: the checkpoint belongs to another model: its parts have other names"
            )
        with torch.no_grad():
            for name, tensor in tensors["model"].items():
                if own[name].shape != tensor.shape:
                    raise FileError(
                        f"{self.folder}: the checkpoint belongs to another model: {name} has another size"
                    )
                own[name].copy_(tensor)
            if self.average is not None and "average" in tensors:
                for name, tensor in tensors["average"].items():
                    self.average.held[name].copy_(tensor)
        _restore_optimizer(self.optimizer, self.model, tensors["optimizer"])
        self.progress = Progress(**checkpoint.state["progress"])
        if checkpoint.state["world"] == self.processes.world:
            torch.random.set_rng_state(tensors["random"][str(self.processes.rank)])
        else:  # another number of processes: their random numbers begin anew
            torch.manual_seed(self._seed())

    @contextlib.contextmanager
    def _watching_signals(self) -> Iterator[None]:
        """Ctrl-C and a request to end finish the step and save; a second Ctrl-C ends at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

        def ask(number: int, frame: Any) -> None:
            self.stop_asked = True
            signal.signal(signal.SIGINT, signal.default_int_handler)

        for number in before:
            signal.signal(number, ask)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _optimizer(model: nn.Module, options: TrainingOptions) -> torch.optim.AdamW:
    """AdamW; biases, norms and other vectors do not decay."""
    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = [p for p in model.parameters() if p.ndim <= 1]
    groups = [
        {"params": matrices, "weight_decay": options.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=options.learning_rate,
        betas=options.betas,
        fused=True,
    )


def _optimizer_tensors(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    found = {}
    for name, p in model.named_parameters():
        for part, value in optimizer.state.get(p, {}).items():
            found[f"{name}/{part}"] = value
    return found


def _restore_optimizer(
    optimizer: torch.optim.Optimizer, model: nn.Module, tensors: dict[str, Tensor]
) -> None:
    parameters = dict(model.named_parameters())
    for key, value in tensors.items():
        name, _, part = key.rpartition("/")
        optimizer.state[parameters[name]][part] = value.to(parameters[name].device)


def _uses_bfloat16(precision: str, device: torch.device) -> bool:
    if precision != "auto":
        return precision == "bfloat16"
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported()
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def _is_lost_connection(error: RuntimeError) -> bool:
    text = str(error).lower()
    return any(word in text for word in ("connection", "closed by peer", "timed out", "nccl", "gloo"))
