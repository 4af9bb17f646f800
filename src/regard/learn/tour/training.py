"""Training of two translators side by side, each in a process of its own, with one display of their progress."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from regard.errors import RegardError
from regard.training.progress import as_clock, in_terminal

__all__ = ["TrainingRun", "train_side_by_side"]

# The seconds between two looks at the metrics of the runs, and between two lines where there is no terminal.
LOOK_EVERY = 0.25
TELL_EVERY = 30.0


@dataclass(frozen=True)
class TrainingRun:
    """A run of ``regard train translate``, with the name it is shown by, its flags and its folder."""

    name: str
    flags: Sequence[str]
    folder: Path

    @property
    def command(self) -> str:
        """The command that trains the same model."""
        return " ".join(["regard", "train", "translate", *self.flags])

    @property
    def model(self) -> Path:
        """The folder of the trained model."""
        return self.folder / "best"

    def progress(self) -> dict[str, Any]:
        """Return the last line of the metrics that has a loss, or {} before there is one."""
        return next((values for values in reversed(self._metrics()) if "loss" in values), {})

    @property
    def steps(self) -> int:
        """The last step in the metrics, which is that of the last validation after the training."""
        return max((values.get("step", 0) for values in self._metrics()), default=0)

    def _metrics(self) -> list[dict[str, Any]]:
        """Return the lines of the metrics, without one that is being written."""
        try:
            lines = (self.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        except OSError:
            return []
        found = []
        for line in lines:
            with contextlib.suppress(json.JSONDecodeError):
                found.append(json.loads(line))
        return found


def train_side_by_side(runs: Sequence[TrainingRun], minutes: float, say: Callable[[str], None]) -> None:
    """Train all runs at the same time, and show their progress on the error stream.

    ``minutes`` is how long each trains. ``say`` is called with lines of progress if the error stream is not a terminal.
    A run that fails ends the others, and raises RegardError with the message of the run.
    """
    cores = max(1, (os.cpu_count() or 1) // len(runs))
    environment = {**os.environ, "OMP_NUM_THREADS": str(cores), "PYTHONPATH": _search_path()}
    processes: list[subprocess.Popen] = []
    display = _Display(runs, minutes, say)
    with contextlib.ExitStack() as opened:
        opened.callback(_end, processes)
        opened.callback(display.close)
        files = [opened.enter_context(tempfile.TemporaryFile()) for _ in runs]
        for run, file in zip(runs, files, strict=True):
            words = [sys.executable, "-m", "regard", "train", "translate", *run.flags]
            words += ["--minutes", f"{minutes:g}", "--out", str(run.folder)]
            processes.append(subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=file, env=environment))
        while any(process.poll() is None for process in processes):
            _check(runs, processes, files)
            display.update()
            time.sleep(LOOK_EVERY)
        _check(runs, processes, files)
        display.update()


def _end(processes: Sequence[subprocess.Popen]) -> None:
    """End the processes that still run, and wait for all."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    for process in processes:
        process.wait()


def _search_path() -> str:
    """Return PYTHONPATH with the folder that this Regard was imported from first."""
    here = str(Path(__file__).parents[3])
    return os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))


def _check(
    runs: Sequence[TrainingRun], processes: Sequence[subprocess.Popen], files: Sequence[IO[bytes]]
) -> None:
    """Raise RegardError with the last line of a run that failed."""
    for run, process, file in zip(runs, processes, files, strict=True):
        if process.poll() in (None, 0):
            continue
        file.seek(0)
        lines = file.read().decode("utf-8", "replace").strip().splitlines()
        why = lines[-1].removeprefix("regard: ") if lines else f"exit code {process.returncode}"
        raise RegardError(f"the training of '{run.name}' failed: {why}: try  {run.command}")


class _Display:
    """The progress of the runs, as bars in a terminal and otherwise as lines."""

    def __init__(self, runs: Sequence[TrainingRun], minutes: float, say: Callable[[str], None]):
        self.runs, self.seconds, self.say = runs, 60 * minutes, say
        self.told = time.monotonic()
        self.bar: Any = None
        if in_terminal():
            self._open()

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("step {task.fields[step]}  loss {task.fields[loss]}  {task.fields[left]}"),
            console=Console(stderr=True),
        )
        self.tasks = [
            self.bar.add_task(run.name, total=self.seconds, step="–", loss="–", left="") for run in self.runs
        ]
        self.bar.start()

    def update(self) -> None:
        """Show the last step and loss of each run."""
        found = [run.progress() for run in self.runs]
        if self.bar is not None:
            for task, values in zip(self.tasks, found, strict=True):
                if values:
                    left = as_clock(max(0.0, self.seconds - values["seconds"]))
                    shown = {"step": f"{values['step']:,}", "loss": _loss(values), "left": left}
                    self.bar.update(task, completed=min(values["seconds"], self.seconds), **shown)
        elif time.monotonic() - self.told >= TELL_EVERY and all(found):
            self.told = time.monotonic()
            self.say("; ".join(_line(run, values) for run, values in zip(self.runs, found, strict=True)))

    def close(self) -> None:
        """Stop the bars, whose last state stays in the terminal."""
        if self.bar is not None:
            self.bar.stop()


def _line(run: TrainingRun, values: Mapping[str, Any]) -> str:
    return f"{run.name}: step {values['step']:,}, loss {_loss(values)}"


def _loss(values: Mapping[str, Any]) -> str:
    return "–" if values["loss"] is None else f"{values['loss']:.2f}"
