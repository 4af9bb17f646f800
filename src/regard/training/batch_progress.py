"""The progress of a loop over batches on the error stream, while a model is measured or predicts."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterable, Iterator, Sized
from contextvars import ContextVar
from typing import Any, TypeVar

from regard.training.progress import TELL_EVERY, as_clock, in_terminal

__all__ = ["CountBar", "progress_shown", "with_progress"]

_Batch = TypeVar("_Batch", bound=Sized)
_SHOWN: ContextVar[bool] = ContextVar("shown", default=False)
# The seconds after which a bar is shown, since a shorter loop needs none.
_BAR_AFTER = 2.0


@contextlib.contextmanager
def progress_shown() -> Iterator[None]:
    """Show the progress of the loops of :func:`with_progress` within this block."""
    token = _SHOWN.set(True)
    try:
        yield
    finally:
        _SHOWN.reset(token)


def with_progress(batches: Iterable[_Batch], total: int, unit: str = "texts") -> Iterator[_Batch]:
    """Yield batches, and show how many of ``total`` items they had, the speed and the remaining time.

    In a terminal it is a progress bar, elsewhere a line every minute. Nothing is shown outside of
    :func:`progress_shown`.

    >>> list(with_progress([[1, 2], [3]], total=3))
    [[1, 2], [3]]
    """
    if not _SHOWN.get():
        yield from batches
        return
    done = 0
    with contextlib.closing(CountBar(total, unit)) as bar:
        for batch in batches:
            yield batch
            done += len(batch)
            bar.update(done)


class CountBar:
    """A display of the number of items, the speed and the remaining time.

    In a terminal it is a progress bar, which appears after two seconds. Elsewhere it is a line every minute, or nothing
    without ``lines``. ``total`` is None if it is not known. Without ``wanted`` nothing is shown.
    """

    def __init__(self, total: int | None, unit: str, *, lines: bool = True, wanted: bool = True):
        self.total, self.unit, self.lines = total, unit, lines
        self.wanted, self.in_terminal = wanted, in_terminal()
        self.began = self.told = time.monotonic()
        self._bar: Any = None

    def _opened(self) -> Any:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        bar = Progress(
            TextColumn("{task.completed:,.0f}{task.fields[of]} " + self.unit),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[speed]} " + f"{self.unit}/s  left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
            # Results that are printed meanwhile go to the standard output, and not above the bar.
            redirect_stdout=False,
        )
        of = "" if self.total is None else f"/{self.total:,}"
        self._task = bar.add_task("", total=self.total, speed="–", of=of)
        bar.start()
        return bar

    def update(self, done: int) -> None:
        """Show that ``done`` items are done."""
        if not self.wanted:
            return
        now = time.monotonic()
        speed = done / max(now - self.began, 1e-9)
        if self.in_terminal:
            if self._bar is None and now - self.began >= _BAR_AFTER:
                self._bar = self._opened()
            if self._bar is not None:
                self._bar.update(self._task, completed=done, speed=f"{speed:,.1f}")
        elif self.lines and self.total is not None and now - self.told >= TELL_EVERY:
            self.told = now
            left = as_clock((self.total - done) / speed)
            print(
                f"{done:,}/{self.total:,} {self.unit}  {speed:,.1f} {self.unit}/s  {left} left",
                file=sys.stderr,
                flush=True,
            )

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
