"""One process or many: what differs, in one place.

Under ``torchrun`` each process reads the same plan of batches and takes its share of every one; gradients are summed
by torch's DistributedDataParallel (gloo between CPUs, NCCL between GPUs).
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from regard.errors import RegardError

__all__ = ["LostProcessError", "Processes"]


class LostProcessError(RegardError):
    """Another process of the job has ended."""


_CPU = torch.device("cpu")


@dataclass(frozen=True)
class Processes:
    """This process's place among those that train together."""

    rank: int = 0
    world: int = 1
    device: torch.device = _CPU

    @classmethod
    def join(cls) -> Processes:
        """Join the others if ``torchrun`` has started this process; stand alone otherwise."""
        gpu = torch.cuda.is_available()
        if "RANK" not in os.environ or int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return cls(device=torch.device("cuda" if gpu else "cpu"))
        device = torch.device(f"cuda:{os.environ['LOCAL_RANK']}" if gpu else "cpu")
        if gpu:
            torch.cuda.set_device(device)
        if not dist.is_initialized():
            dist.init_process_group("nccl" if gpu else "gloo")
        return cls(dist.get_rank(), dist.get_world_size(), device)

    def leave(self) -> None:
        """Say goodbye to the others."""
        if self.world > 1 and dist.is_initialized():
            dist.destroy_process_group()

    @property
    def first(self) -> bool:
        """Whether this is the process that prints and writes."""
        return self.rank == 0

    def sum(self, *numbers: float) -> list[float]:
        """Each number, summed over the processes."""
        if self.world == 1:
            return list(numbers)
        total = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return total.tolist()

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """The tensors of all processes, in the order of their ranks."""
        if self.world == 1:
            return [tensor]
        mine = tensor.to(self.device)
        found = [torch.empty_like(mine) for _ in range(self.world)]
        dist.all_gather(found, mine)
        return [one.cpu() for one in found]

    def agree(self, mine: bool) -> bool:
        """Whether any process says yes."""
        return self.sum(float(mine))[0] > 0

    def same(self, value: float) -> float:
        """The first process's value, for all."""
        if self.world == 1:
            return value
        held = torch.tensor([value], dtype=torch.float64, device=self.device)
        dist.broadcast(held, 0)
        return held.item()

    def wait(self) -> None:
        """Until all processes are here."""
        if self.world > 1:
            self.sum(0.0)
