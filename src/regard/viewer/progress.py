"""Progress of the computation of a page, as a bar on a terminal.

Nothing is written if the error stream is no terminal, or if the computation takes less than two seconds.
"""

from __future__ import annotations

import os
import sys
import time
from types import TracebackType
from typing import Any

__all__ = ["PageProgress"]

PATIENCE = 2.0  # seconds before the first report
# Seconds between lines on a terminal that cannot overwrite a line.
LINE_EVERY = 10.0


class PageProgress:
    """Reports on the error stream how many of ``total`` weights are computed, if that is a terminal.

    ``hint`` is a line that is written once before the first report. ``at_once`` writes the first report without delay.
    """

    def __init__(self, total: int, hint: str = "", *, at_once: bool = False):
        self.total, self.hint, self.done = max(1, total), hint, 0
        self.began = time.monotonic()
        self._next = self.began + (0.0 if at_once else PATIENCE)
        self._bar: Any = None
        self._reported = False
        self._wanted = sys.stderr is not None and sys.stderr.isatty()

    def __enter__(self) -> PageProgress:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def add(self, weights: int) -> None:
        """Count this number of weights as computed, and report the progress if it is time."""
        self.done += weights
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done)
        elif self._wanted and time.monotonic() >= self._next and self.done < self.total:
            self._report()

    def _report(self) -> None:
        if self.hint and not self._reported:
            print(self.hint, file=sys.stderr, flush=True)
        self._reported = True
        if os.environ.get("TERM") != "dumb":
            self._open_bar()
            return
        now = time.monotonic()
        left = (now - self.began) * (self.total - self.done) / max(1, self.done)
        print(f"page: {self.done / self.total:.0%}, {left:.0f} s left", file=sys.stderr, flush=True)
        self._next = now + LINE_EVERY

    def _open_bar(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("page {task.percentage:.0f} %"),
            BarColumn(bar_width=None),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task("", total=self.total, completed=self.done)
        self._bar.start()
