"""The state of a training run, which a checkpoint stores."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import FileError
from regard.training.averaging import AveragedWeights
from regard.training.checkpoints import Checkpoint
from regard.training.distributed import Processes
from regard.training.optimizer import optimizer_tensors, restore_optimizer
from regard.training.options import TrainingOptions
from regard.training.settings import DURATIONS

__all__ = ["Progress", "RunState", "random_kept", "seed_everything"]

_TABLES = {"model", "optimizer", "random"}


@dataclass
class Progress:
    """The counters of a run.

    - ``step`` is the number of updates of the weights.
    - ``epoch`` is the index of the epoch, and ``batch`` that of the next batch in it.
    - ``best`` holds the numbers of the best validation, and is empty before the first. ``best_step`` is its step.
    - ``stale`` is the number of validations since the best one.
    - ``validated`` is the step of the last validation.
    - ``seconds`` is the time of steps and validations, and ``training_seconds`` that of steps alone.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    best: dict[str, float] = field(default_factory=dict)
    best_step: int = 0
    stale: int = 0
    validated: int = 0
    seconds: float = 0.0
    training_seconds: float = 0.0

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Progress:
        """Return the counters that a checkpoint holds.

        Without ``validated`` it is the step. Early versions did not store it, and saved after a validation.
        """
        return cls(**{"validated": values["step"], **values})


@dataclass
class RunState:
    """A model in training with its optimizer, its averaged weights (in the first process) and its counters.

    ``data`` is the fingerprint of the training data.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    average: AveragedWeights | None
    data: str = ""
    progress: Progress = field(default_factory=Progress)

    def snapshot(self, options: TrainingOptions, processes: Processes) -> Checkpoint:
        """Return the state as a checkpoint, with the random states of all processes.

        All processes have to call this. The tensors are those of the model and the optimizer, not copies.
        """
        tensors = {
            "model": dict(_named_once(self.model)),
            "optimizer": optimizer_tensors(self.optimizer, self.model),
            **_random_tables(processes),
        }
        if self.average is not None:
            tensors["average"] = self.average.held
        numbers = {
            "progress": vars(self.progress),
            "options": options.to_json(),
            "world": processes.world,
            "data": self.data,
        }
        return Checkpoint(numbers, tensors)

    def restore(self, checkpoint: Checkpoint, options: TrainingOptions, processes: Processes) -> None:
        """Load a checkpoint, or raise FileError and change nothing if it belongs to another model or other data.

        Patience is counted anew if the options say another length than those of the checkpoint. The random state of
        this process is loaded too. If the number of processes has changed, it is seeded anew.
        """
        tensors, own = checkpoint.tensors, dict(_named_once(self.model))
        if not {"progress", "world"} <= checkpoint.state.keys() or not tensors.keys() >= _TABLES:
            raise FileError("the checkpoint is not one of a training run: parts of it are missing")
        _check_same_model(own, tensors["model"])
        if checkpoint.state.get("data", self.data) != self.data:
            raise FileError(
                "the training data is not what the run was started with: "
                "restore that data, or start a new run in another folder"
            )
        with torch.no_grad():
            for name, tensor in tensors["model"].items():
                own[name].copy_(tensor)
        restore_optimizer(self.optimizer, self.model, tensors["optimizer"])
        if self.average is not None:
            self.average.restart(self.model, tensors.get("average"))
        self.progress = Progress.from_json(checkpoint.state["progress"])
        if _another_length(checkpoint.state.get("options", {}), options):
            # The learning rate rises again, so earlier validations say nothing about the longer run.
            self.progress.stale = 0
        if checkpoint.state["world"] == processes.world:
            _restore_random(tensors, processes)
        else:
            # With another number of processes, there is no saved random state for each.
            seed_everything(options.seed, self.progress.step, processes.rank)


def _another_length(kept: dict[str, Any], options: TrainingOptions) -> bool:
    """Return whether a run is to be longer or shorter than the options in its checkpoint say, if they say it."""
    return any(name in kept and kept[name] != getattr(options, name) for name in DURATIONS)


def _named_once(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield the name and tensor of all parameters and of the saved buffers, a shared tensor only once."""
    yield from model.named_parameters()
    kept = model.state_dict()
    yield from ((name, buffer) for name, buffer in model.named_buffers() if name in kept)


def _check_same_model(own: dict[str, Tensor], saved: dict[str, Tensor]) -> None:
    for name in sorted(own.keys() ^ saved.keys()):
        where = "it lacks" if name in own else "it has"
        raise FileError(f"the checkpoint belongs to another model: {where} {name}")
    for name, tensor in own.items():
        if tensor.shape != saved[name].shape:
            sizes = f"{tuple(saved[name].shape)}, in this model {tuple(tensor.shape)}"
            raise FileError(f"the checkpoint belongs to another model: {name} is {sizes}")


# Random numbers


def seed_everything(seed: int, step: int, rank: int) -> None:
    """Seed the random numbers of torch with a hash of the three numbers, so that each process has its own."""
    mixed = hashlib.sha256(f"{seed} {step} {rank}".encode()).digest()
    torch.manual_seed(int.from_bytes(mixed[:8], "big") >> 1)


@contextmanager
def random_kept(device: torch.device) -> Iterator[None]:
    """Return a context manager that restores torch's random numbers, of the CPU and of ``device``, at its end."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        yield


def _random_tables(processes: Processes) -> dict[str, dict[str, Tensor]]:
    tables = {"random": processes.gather(torch.random.get_rng_state())}
    if processes.device.type == "cuda":
        tables["random_cuda"] = processes.gather(torch.cuda.get_rng_state(processes.device))
    return {name: {str(i): state for i, state in enumerate(states)} for name, states in tables.items()}


def _restore_random(tensors: dict[str, dict[str, Tensor]], processes: Processes) -> None:
    torch.random.set_rng_state(tensors["random"][str(processes.rank)].clone())
    if processes.device.type == "cuda" and "random_cuda" in tensors:
        torch.cuda.set_rng_state(tensors["random_cuda"][str(processes.rank)].clone(), processes.device)
