"""One process or many: what differs, in one place.

Under ``torchrun`` each process reads the same plan of batches and takes its share of every one; gradients are summed
by torch's DistributedDataParallel (gloo between CPUs, NCCL between GPUs). Only the first process reads and writes
checkpoints: the others need not see its disk.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from regard.errors import RegardError
from regard.training.checkpoints import Checkpoint

__all__ = [
    "LostProcessError",
    "Processes",
    "has_met_others",
    "is_lost_connection",
    "joined",
    "share_checkpoint",
]

_CPU = torch.device("cpu")
WAITING = timedelta(
    hours=24
)  # for the first process, while it prepares data or validates; a lost one shows at once
_Result = TypeVar("_Result")
_met = False


class LostProcessError(RegardError):
    """Another process of the job has ended."""


@dataclass(frozen=True)
class Processes:
    """This process's place among those that train together."""

    rank: int = 0
    world: int = 1
    device: torch.device = _CPU
    joined: bool = False  # whether the group was made here, and so is to be left here

    @classmethod
    def join(cls) -> Processes:
        """Join the others if ``torchrun`` has started this process; stand alone otherwise."""
        gpu = torch.cuda.is_available()
        if "RANK" not in os.environ or int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return cls(device=torch.device("cuda" if gpu else "cpu"))
        device = torch.device(f"cuda:{os.environ['LOCAL_RANK']}" if gpu else "cpu")
        if gpu:
            torch.cuda.set_device(device)
        new = not dist.is_initialized()
        if new:
            _meet("nccl" if gpu else "gloo")
        return cls(dist.get_rank(), dist.get_world_size(), device, joined=new)

    def leave(self) -> None:
        """Say goodbye to the others."""
        if self.joined and dist.is_initialized():
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
        return self.broadcast(torch.tensor([value], dtype=torch.float64)).item()

    def same_text(self, text: str) -> str:
        """The first process's text, for all."""
        if self.world == 1:
            return text
        size = int(self.same(len(text.encode())))
        held = torch.zeros(size, dtype=torch.uint8)
        if self.first:
            held = torch.tensor(list(text.encode()), dtype=torch.uint8)
        return bytes(self.broadcast(held).tolist()).decode() if size else ""

    def broadcast(self, tensor: Tensor) -> Tensor:
        """The first process's tensor, for all; the others give one of the same shape and dtype."""
        held = tensor.to(self.device).contiguous()
        dist.broadcast(held, 0)
        return held.cpu()

    def on_first(self, action: Callable[[], _Result]) -> _Result | None:
        """Let the first process do something, while the others wait; if it fails there, all end together."""
        if self.world == 1:
            return action()
        if not self.first:
            failure = self.same_text("")
            if failure:
                raise LostProcessError(f"process {self.rank} ends with the first one: {failure}")
            return None
        try:
            result = action()
        except Exception as error:  # whatever it is, the others shall not wait for ever
            self.same_text(str(error) or "it failed")
            raise
        self.same_text("")
        return result


def _meet(backend: str) -> None:
    global _met
    try:
        dist.init_process_group(backend, timeout=WAITING)
        _met = True
    except (RuntimeError, ValueError) as error:
        where = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        first_line = str(error).partition("\n")[0]
        raise LostProcessError(f"the other processes cannot be reached at {where}: {first_line}") from error


def has_met_others() -> bool:
    """Whether this process has been one of several.

    Torch keeps the threads of their connection even when the group is destroyed (DDP imports functions that have it as
    a default argument; and where it does not, destroying it after a failure may wait for ever). One of them that needs
    Python while Python ends aborts the process: it should end with ``os._exit``.
    """
    return _met


def joined(module: nn.Module) -> DistributedDataParallel:
    """The module with the weights of the first process, and with gradients averaged over all of them.

    Buffers are tables or statistics, and the first process's are the ones that are kept: they are not sent at
    each step. Torch 2.13 has a new name for that.
    """
    known = inspect.signature(DistributedDataParallel).parameters
    name = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
    chosen: dict[str, Any] = {"gradient_as_bucket_view": True, name: False}
    return DistributedDataParallel(module, **chosen)


def share_checkpoint(processes: Processes, held: Checkpoint | None) -> Checkpoint | None:
    """The checkpoint that the first process has read, for all; or none, where it has none."""
    if processes.world == 1:
        return held
    plan = None if held is None else {"state": held.state, "tables": _layout(held)}
    plan = json.loads(processes.same_text(json.dumps(plan)))
    if plan is None:
        return None
    tensors: dict[str, dict[str, Tensor]] = {}
    for table, layout in plan["tables"].items():
        tensors[table] = {}
        for name, (dtype, shape) in layout.items():
            mine = held.tensors[table][name] if held else torch.empty(shape, dtype=getattr(torch, dtype))
            tensors[table][name] = processes.broadcast(mine)
    return held or Checkpoint(plan["state"], tensors)


def _layout(checkpoint: Checkpoint) -> dict[str, dict[str, tuple[str, list[int]]]]:
    """Dtype and shape of each tensor, as JSON can tell them; the averages stay with the first process."""
    return {
        table: {name: (str(x.dtype).removeprefix("torch."), list(x.shape)) for name, x in tensors.items()}
        for table, tensors in checkpoint.tensors.items()
        if table != "average"
    }


def is_lost_connection(error: RuntimeError) -> bool:
    """Whether torch says, in one of its many ways, that another process is gone."""
    text = str(error).lower()
    return any(word in text for word in ("connection", "closed by peer", "timed out", "nccl", "gloo"))
