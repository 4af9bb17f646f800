"""Timing by turns, peak memory, and a table of ratios.

The machine is shared and noisy, so two programs are never timed one after the other: they take turns, and the
ratio is that of their fastest turns. Memory is the rise of the process's peak above what it held before.
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


def seconds(*programs: Work, turns: int) -> list[float]:
    """The fastest turn of each program, taken by turns after one turn to warm up."""
    _settle_allocator()
    for program in programs:
        program()
    best = [float("inf")] * len(programs)
    for _ in range(turns):
        for i, program in enumerate(programs):
            begin = time.perf_counter()
            program()
            best[i] = min(best[i], time.perf_counter() - begin)
    return best


def _settle_allocator() -> None:
    """Have glibc keep what is freed, as it does in a process that has once freed a large block.

    It gives memory back to the system above twice the size of the largest block freed so far. A program that works at
    that border is timed by its page faults, and which of two programs crosses it is chance: MiniLM at 512 tokens does.
    """
    torch.empty(30 * 2**20, dtype=torch.uint8).fill_(0)


def peak_bytes(program: Work) -> int | None:
    """How far the peak of the process's memory rises above what it held before; None off Linux with glibc."""
    status, refs = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not refs.exists() or not hasattr(ctypes.CDLL(None), "malloc_trim"):
        return None
    program()  # what is loaded or cached by a first call is not counted
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # give back what was freed, so that using it again counts
    refs.write_text("5")  # forget the peak so far
    before = _field(status, "VmRSS")
    program()
    return max(_field(status, "VmHWM") - before, 1)


def _field(status: Path, name: str) -> int:
    line = next(x for x in status.read_text().splitlines() if x.startswith(name))
    return int(line.split()[1]) * 1024


def at_least(work: str, against: str, ratio: float, wanted: float, detail: str = "") -> Line:
    """A line that is met when the ratio is large enough."""
    return Line(work, against, f">= {wanted:g}x", f"{ratio:.2f}x {detail}".strip(), ratio >= wanted)


def at_most(work: str, against: str, ratio: float, wanted: float, detail: str = "") -> Line:
    """A line that is met when the ratio is small enough."""
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
