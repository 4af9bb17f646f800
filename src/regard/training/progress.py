"""What a training run tells: a bar in the terminal, and lines of JSON in a file."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from pathlib import Path
from typing import Any

from regard.errors import FileError
from regard.files import write_atomically

__all__ = ["Journal", "ProgressBar"]


class Journal:
    """``metrics.jsonl``: one line for each report. Going on from a step forgets the lines after it.

    A run that was interrupted just before a validation repeats that step's validation: ``validated`` says up to
    which step their lines are kept.
    """

    def __init__(self, path: Path, step: int, validated: int | None = None):
        self.path = path
        kept = [
            line for line in _lines(path) if _belongs(line, step, step if validated is None else validated)
        ]
        text = "".join(json.dumps(line) + "\n" for line in kept)
        write_atomically(path, lambda part: part.write_text(text, encoding="utf-8"))

    def write(self, **values: Any) -> None:
        """Add one line. JSON has no word for infinite and undefined numbers: they are null."""
        line = {name: None if _undefined(value) else value for name, value in values.items()}
        try:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps(line, allow_nan=False) + "\n")
        except OSError as error:
            raise FileError(f"cannot write {self.path}: {error.strerror or error}") from error


def _belongs(line: dict[str, Any], step: int, validated: int) -> bool:
    at = line.get("step", 0)
    return at <= step and (
        "learning_rate" in line or at <= validated
    )  # a line of training, or of a validation


def _undefined(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _lines(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    found = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            value = json.loads(line)
        except json.JSONDecodeError:
            continue  # the last line of a process that was killed
        if isinstance(value, dict):
            found.append(value)
    return found


class ProgressBar:
    """Loss, tokens a second and time left, on the error stream; silent where that is no terminal."""

    def __init__(self, total: int, start: int, *, wanted: bool = True):
        self.total, self.start, self.done = total, start, start
        self.shown = wanted and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self.began = time.monotonic()
        self._bar: Any = None
        if self.shown:
            self._open()

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("step {task.completed:.0f}/{task.total:.0f}"),
            BarColumn(bar_width=None),
            TextColumn("loss {task.fields[loss]}  {task.fields[speed]} tokens/s  left"),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=Console(stderr=True),
        )
        self._task = self._bar.add_task("", total=self.total, completed=self.start, loss="–", speed="–")
        self._bar.start()

    def update(self, step: int, loss: float, speed: float) -> None:
        """Show where training is."""
        self.done = step
        if self._bar is not None:
            shown = "–" if math.isnan(loss) else f"{loss:.3f}"
            self._bar.update(self._task, completed=step, loss=shown, speed=f"{speed:,.0f}")

    def say(self, text: str) -> None:
        """A line above the bar, or on the error stream."""
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
