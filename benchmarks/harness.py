"""Timing in turns, peak memory, and a table of ratios.

The load of the machine may change, so the programs that are compared run in turns, and the ratio is that of their
fastest turns. Memory is the difference between the peak during a call and the memory before it.
"""

from __future__ import annotations

import ctypes
import gc
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch

Work = Callable[[], object]


class Line(NamedTuple):
    """One row of the table."""

    work: str
    against: str
    wanted: str
    reached: str
    met: bool


def seconds(*programs: Work, turns: int, clock: Callable[[], float] = time.perf_counter) -> list[float]:
    """Return the time of the fastest turn of each program, after one turn of each to warm up.

    With ``clock=time.process_time`` it is CPU time, which other programs on the machine change less.
    """
    _settle_allocator()
    for program in programs:
        program()
    best = [float("inf")] * len(programs)
    for _ in range(turns):
        for i, program in enumerate(programs):
            begin = clock()
            program()
            best[i] = min(best[i], clock() - begin)
    return best


def _settle_allocator() -> None:
    """Free a large block once, so that glibc keeps freed memory in the process.

    glibc returns free memory to the system if there is more than twice the size of the largest block freed so far. A
    program near this limit, such as MiniLM at 512 tokens, may or may not have page faults, which would change its time.
    """
    torch.empty(30 * 2**20, dtype=torch.uint8).fill_(0)


def peak_bytes(program: Work) -> int | None:
    """Return the rise of the peak memory of the process by a call, or None where it cannot be measured."""
    status, refs = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not refs.exists() or not hasattr(ctypes.CDLL(None), "malloc_trim"):
        return None
    # The memory for modules and caches that the first call loads is not counted.
    program()
    gc.collect()
    # Return free memory to the system, so that a call that uses it again raises the peak.
    ctypes.CDLL(None).malloc_trim(0)
    refs.write_text("5")  # reset the peak
    before = _field(status, "VmRSS")
    program()
    return max(_field(status, "VmHWM") - before, 1)


def _field(status: Path, name: str) -> int:
    line = next(x for x in status.read_text().splitlines() if x.startswith(name))
    return int(line.split()[1]) * 1024


def at_least(work: str, against: str, ratio: float, wanted: float, detail: str = "") -> Line:
    """Return a row that is met if the ratio is at least ``wanted``."""
    return Line(work, against, f">= {wanted:g}x", f"{ratio:.2f}x {detail}".strip(), ratio >= wanted)


def at_most(work: str, against: str, ratio: float, wanted: float, detail: str = "") -> Line:
    """Return a row that is met if the ratio is at most ``wanted``."""
    return Line(work, against, f"<= {wanted:g}x", f"{ratio:.3f}x {detail}".strip(), ratio <= wanted)


def show(title: str, lines: list[Line]) -> None:
    """Print a table."""
    rows = [("work", "against", "wanted", "reached", "")]
    rows += [
        (line.work, line.against, line.wanted, line.reached, "met" if line.met else "NOT met")
        for line in lines
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    print(f"\n{title}")
    for row in rows:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
