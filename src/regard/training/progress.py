"""Reports of a training run, as a progress bar in the terminal and as lines of JSON in a file."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar

from regard.errors import FileError
from regard.files import write_atomically

__all__ = ["Counted", "Journal", "ProgressBar", "as_clock", "in_terminal"]

# The seconds between two lines if the error stream is not a terminal.
TELL_EVERY = 60.0
# The number of items after which the clock is read again.
_LOOK_EVERY = 1024
_Item = TypeVar("_Item")


class Journal:
    """The file ``metrics.jsonl``, with a line of JSON for each report.

    The constructor makes the file, or removes the lines of steps after ``step`` and of validations after the step
    ``validated`` (by default ``step``). ``validated`` is an earlier step if the run was interrupted just before a
    validation, which is then repeated. Lines that are not JSON objects are removed too.
    """

    def __init__(self, path: Path, step: int, validated: int | None = None):
        self.path = path
        kept = [
            line for line in _lines(path) if _belongs(line, step, step if validated is None else validated)
        ]
        text = "".join(json.dumps(line) + "\n" for line in kept)
        write_atomically(path, lambda part: part.write_text(text, encoding="utf-8"))

    def write(self, **values: Any) -> None:
        """Append one line with these values, in which infinite numbers and NaN are null."""
        line = {name: None if _undefined(value) else value for name, value in values.items()}
        try:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps(line, allow_nan=False) + "\n")
        except OSError as error:
            raise FileError(f"cannot write {self.path}: {error.strerror or error}") from error


def _belongs(line: dict[str, Any], step: int, validated: int) -> bool:
    """Return whether a line is of training up to ``step``, or of a validation up to ``validated``.

    Lines of training have a learning rate.
    """
    at = line.get("step", 0)
    return at <= step and ("learning_rate" in line or at <= validated)


def _undefined(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _lines(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    found = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            value = json.loads(line)
        # The last line of a process that was killed may be incomplete.
        except json.JSONDecodeError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


class ProgressBar:
    """A display of the loss, the speed and the remaining time on the error stream.

    In a terminal it is a progress bar, elsewhere a line every minute. ``total`` is the last step, or infinite if it is
    not known yet, and ``start`` the step at which this process begins. ``unit`` is what the speed counts. Without
    ``wanted`` only :meth:`say` prints.
    """

    def __init__(self, total: float, start: int, *, wanted: bool = True, unit: str = "tokens"):
        self.total, self.start, self.done, self.unit = total, start, start, unit
        self.wanted, self.shown = wanted, wanted and in_terminal()
        self.began = self._told = time.monotonic()
        # The step of the last line, and the sums of the losses and of the speeds since then.
        self._since_told = (start, 0.0, 0.0)
        self._bar: Any = None
        if self.shown:
            self._open()

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("step {task.completed:.0f}{task.fields[of]}"),
            BarColumn(bar_width=None),
            TextColumn("loss {task.fields[loss]}  {task.fields[speed]} " + f"{self.unit}/s  left"),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=Console(stderr=True),
        )
        self._task = self._bar.add_task(
            "", total=_known(self.total), completed=self.start, of="", loss="–", speed="–"
        )
        self._bar.start()

    def update(self, step: int, loss: float, speed: float, total: float | None = None) -> None:
        """Show the loss and the speed (``unit`` per second) of step number ``step``.

        ``total`` is the last step, if it has changed. That of a timed run follows its speed.
        """
        self.done = step
        self.total = max(step, self.total if total is None else total)
        if self._bar is not None:
            shown = {"loss": "–" if math.isnan(loss) else f"{loss:.3f}", "speed": f"{speed:,.0f}"}
            of = "" if self.total == math.inf else f"/{self.total:.0f}"
            self._bar.update(self._task, completed=step, total=_known(self.total), of=of, **shown)
        elif self.wanted:
            self._tell_sometimes(step, loss, speed)

    def _tell_sometimes(self, step: int, loss: float, speed: float) -> None:
        """Print a line every minute, with the means since the last line and the remaining time at the mean speed."""
        since, losses, speeds = self._since_told
        self._since_told = since, losses + loss, speeds + speed
        now = time.monotonic()
        if now - self._told < TELL_EVERY:
            return
        steps = step - since
        left = (now - self.began) / (step - self.start) * (self.total - step)
        means = f"loss {(losses + loss) / steps:.3f}  {(speeds + speed) / steps:,.0f} {self.unit}/s"
        self.say(f"step {step:,}/{self.total:,.0f}  {means}  {as_clock(left)} left")
        self._told, self._since_told = now, (step, 0.0, 0.0)

    def say(self, text: str) -> None:
        """Print a line on the error stream, above the bar if there is one."""
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Stop the bar, whose last state stays in the terminal."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _known(total: float) -> float | None:
    """Return the number of steps for the bar, or None if it is not known yet."""
    return None if total == math.inf else total


class Counted(Generic[_Item]):
    """An iterable that counts the items of another and shows the count on the error stream.

    In a terminal one line is updated, elsewhere a line is printed every minute. The line begins with ``doing``. Without
    ``wanted`` nothing is shown.

    >>> list(Counted("abc", "reading letters", wanted=False))
    ['a', 'b', 'c']
    """

    def __init__(self, items: Iterable[_Item], doing: str, *, wanted: bool = True):
        self.items, self.doing, self.wanted = items, doing, wanted

    def __iter__(self) -> Iterator[_Item]:
        if not self.wanted:
            yield from self.items
            return
        began = told = time.monotonic()
        every = 0.5 if in_terminal() else TELL_EVERY
        count = 0
        try:
            for count, item in enumerate(self.items, start=1):
                if not count % _LOOK_EVERY and time.monotonic() - told >= every:
                    told = time.monotonic()
                    self._tell(count, told - began)
                yield item
        finally:
            if told > began and in_terminal():
                # The next output starts on a new line.
                print(file=sys.stderr)

    def _tell(self, count: int, seconds: float) -> None:
        line = f"{self.doing}: {count:,} in {as_clock(seconds)}"
        if in_terminal():
            print(f"\r{line}", end="", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)


def in_terminal() -> bool:
    """Return whether the error stream is a terminal in which a line can be overwritten."""
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def as_clock(seconds: float) -> str:
    """Format a number of seconds as hours, minutes and seconds.

    >>> as_clock(83.4), as_clock(7384)
    ('1:23', '2:03:04')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
