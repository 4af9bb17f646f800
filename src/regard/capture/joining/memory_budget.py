"""The limit on the memory of the records, and the free memory of this machine."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from regard.errors import ArgumentError
from regard.shapes import whole_number

__all__ = ["MemoryBudget", "available_memory", "bytes_as_text"]

# By default the records may take this part of the free memory, here a quarter.
_SHARE = 4
# Up to this number of bytes the free memory is not read. Reading it costs time in every capture of a short input.
_ALWAYS_FREE = 2**20


class MemoryBudget:
    """Counts reserved bytes up to a limit.

    >>> budget = MemoryBudget(1000)
    >>> budget.take(900), budget.take(200), budget.take(100)
    (True, False, True)
    """

    def __init__(self, limit: int | None = None, device: torch.device | None = None):
        if limit is not None and whole_number("memory", limit) < 1:
            raise ArgumentError("memory", f"expected a number of bytes, got {limit}", "2 GB are 2 * 10**9")
        self._limit, self._device, self.used = None if limit is None else int(limit), device, 0

    @property
    def limit(self) -> int:
        """The largest number of bytes, by default a quarter of the memory that is free at the first use."""
        if self._limit is None:
            self._limit = available_memory(self._device) // _SHARE
        return self._limit

    def take(self, size: int) -> bool:
        """Reserve some bytes, or return False and reserve nothing if they exceed the limit."""
        is_little = self._limit is None and self.used + size <= _ALWAYS_FREE
        if not is_little and self.used + size > self.limit:
            return False
        self.used += size
        return True

    def rest(self) -> MemoryBudget:
        """Return a new budget with the bytes that are left."""
        rest = MemoryBudget(self.limit)
        rest.used = self.used
        return rest


def available_memory(device: torch.device | None = None) -> int:
    """Return the number of bytes that can be allocated on a device.

    ``None`` and ``"cpu"`` are the memory of this machine without swap, within the limits of its cgroups. If the system
    does not report its free memory, the result is a low estimate.
    """
    if device is not None and device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return min([_free_on_this_machine(), *_left_by_cgroups("/sys/fs/cgroup")])


def _left_by_cgroups(root: str | Path) -> list[int]:
    """Return the bytes left under the cgroup limits of versions 1 and 2, without entries if there are no limits."""
    found = []
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            found.append(max(0, _number_in(f"{root}/{limit}") - _number_in(f"{root}/{used}")))
        except (OSError, ValueError):  # no such file, or no limit: "max"
            continue
    return found


def _number_in(path: str) -> int:
    with open(path, "rb") as file:
        return int(file.read())


def _free_on_this_machine() -> int:
    try:
        with open("/proc/meminfo", "rb") as file:
            for line in file:
                if line.startswith(b"MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, OSError, ValueError):
        return 4 * 2**30


def bytes_as_text(size: int) -> str:
    """Return a number of bytes as text with a unit.

    >>> bytes_as_text(1_500_000)
    '1.5 MB'
    """
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} bytes"
