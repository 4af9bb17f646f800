"""Communication between the processes of a run, which is trained by one process or several.

Under ``torchrun`` each process reads the same plan of batches and takes its share of every batch. Torch's
DistributedDataParallel sums the gradients (with gloo between CPUs, NCCL between GPUs). Only the first process reads and
writes checkpoints, so the others need no access to its disk.
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
# How long the others wait for the first process while it prepares data or validates. A process that ended is noticed at
# once.
WAITING = timedelta(hours=24)
_Result = TypeVar("_Result")
# Whether this process has been in a process group.
_met = False


class LostProcessError(RegardError):
    """Raised when another process of the job has ended."""


@dataclass(frozen=True)
class Processes:
    """The rank and the device of this process among the ``world`` processes of a run.

    ``joined`` says whether :meth:`join` made the process group, so that :meth:`leave` destroys it. All processes have
    to call the methods that communicate in the same order. These are ``sum``, ``gather``, ``agree``, ``same``,
    ``same_text``, ``broadcast`` and ``on_first``.
    """

    rank: int = 0
    world: int = 1
    device: torch.device = _CPU
    joined: bool = False

    @classmethod
    def join(cls) -> Processes:
        """Join the process group if ``torchrun`` started several processes, or return a single process otherwise.

        The device is a GPU if there is one. Raises LostProcessError if the other processes cannot be reached.
        """
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
        """Destroy the process group if :meth:`join` made it."""
        if self.joined and dist.is_initialized():
            dist.destroy_process_group()

    @property
    def first(self) -> bool:
        """True in the process of rank 0, which prints and writes files."""
        return self.rank == 0

    def sum(self, *numbers: float) -> list[float]:
        """Return each number summed over all processes, the same in every process."""
        if self.world == 1:
            return list(numbers)
        total = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return total.tolist()

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """Return the tensors of all processes on the CPU, in the order of their ranks, in every process.

        All have to be of one shape and dtype. A single process gets its tensor back on its own device.
        """
        if self.world == 1:
            return [tensor]
        mine = tensor.to(self.device)
        found = [torch.empty_like(mine) for _ in range(self.world)]
        dist.all_gather(found, mine)
        return [one.cpu() for one in found]

    def agree(self, mine: bool) -> bool:
        """Return whether ``mine`` is True in at least one process, the same in every process."""
        return self.sum(float(mine))[0] > 0

    def same(self, value: float) -> float:
        """Return the value that the first process passes, in every process."""
        if self.world == 1:
            return value
        return self.broadcast(torch.tensor([value], dtype=torch.float64)).item()

    def same_text(self, text: str) -> str:
        """Return the text that the first process passes, in every process."""
        if self.world == 1:
            return text
        size = int(self.same(len(text.encode())))
        held = torch.zeros(size, dtype=torch.uint8)
        if self.first:
            held = torch.tensor(list(text.encode()), dtype=torch.uint8)
        return bytes(self.broadcast(held).tolist()).decode() if size else ""

    def broadcast(self, tensor: Tensor) -> Tensor:
        """Send the tensor of the first process to all others, and return it on the CPU in every process.

        The others pass a tensor of the same shape and dtype, whose numbers are ignored. It needs a process group, also
        with one process.
        """
        held = tensor.to(self.device).contiguous()
        dist.broadcast(held, 0)
        return held.cpu()

    def on_first(self, action: Callable[[], _Result]) -> _Result | None:
        """Call ``action`` in the first process while the others wait, and return its result there and None elsewhere.

        If it raises, the first process raises the same exception and the others raise LostProcessError.
        """
        if self.world == 1:
            return action()
        if not self.first:
            failure = self.same_text("")
            if failure:
                raise LostProcessError(f"process {self.rank} ends with the first one: {failure}")
            return None
        try:
            result = action()
        # The others would wait for ever if they were not told of every kind of exception.
        except Exception as error:
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
    """Return whether this process has made a process group, after which it should exit with ``os._exit``.

    The threads of the connection live on after the group is destroyed, because DDP imports functions that have the
    group as a default argument. If such a thread needs Python while Python shuts down, the process is aborted.
    """
    return _met


def joined(module: nn.Module) -> DistributedDataParallel:
    """Return a module wrapped in DistributedDataParallel, which averages gradients over processes.

    The weights of the first process are copied into the modules of the others. Buffers are not synchronised at each
    step, because only those of the first process are saved. The argument for that has another name from torch 2.13 on.
    """
    known = inspect.signature(DistributedDataParallel).parameters
    name = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
    chosen: dict[str, Any] = {"gradient_as_bucket_view": True, name: False}
    return DistributedDataParallel(module, **chosen)


def share_checkpoint(processes: Processes, held: Checkpoint | None) -> Checkpoint | None:
    """Return in every process the checkpoint that the first process passes as ``held``, or None if that is None.

    The other processes pass None. They get no averaged weights, which only the first process uses.
    """
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
    """Return the dtype and shape of each tensor by group and name, as JSON values, without the averaged weights."""
    return {
        table: {name: (str(x.dtype).removeprefix("torch."), list(x.shape)) for name, x in tensors.items()}
        for table, tensors in checkpoint.tensors.items()
        if table != "average"
    }


def is_lost_connection(error: RuntimeError) -> bool:
    """Return whether the message of an error means that the connection to another process was lost."""
    text = str(error).lower()
    return any(word in text for word in ("connection", "closed by peer", "timed out", "nccl", "gloo"))
