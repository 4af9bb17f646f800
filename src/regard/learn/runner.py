"""Runs the file of a learner in a process of its own, with limits, and reads its results."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import regard
from regard.errors import FileError
from regard.learn.exercise import Case, Exercise

__all__ = ["Limits", "Result", "Run", "run_file", "trace_file"]


# Bytes of the largest source file that is checked.
LARGEST_FILE = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of the process that runs a learner's file.

    ``cpu`` and ``wall`` are seconds of computing and of waiting for the file and its function together. Time for
    loading packages such as torch does not count. ``total`` is the number of seconds after which the process is ended
    in any case. ``memory`` and ``output`` are in bytes.
    """

    cpu: float = 5.0
    wall: float = 20.0
    total: float = 120.0
    memory: int = 2 * 1024**3
    output: int = 1_000_000


@dataclass(frozen=True)
class Result:
    """The result of one call. ``report`` says its kind, and ``arrays`` are its numbers."""

    report: dict[str, Any]
    arrays: tuple[np.ndarray, ...] = ()


@dataclass(frozen=True)
class Run:
    """What a run of a learner's file gave.

    ``trouble`` is None, or the reason why the file could not be run to its end. ``printed`` is the output of the file.
    ``trace`` has the variables of a traced run, with their lines.
    """

    trouble: dict[str, Any] | None
    results: list[Result]
    printed: str = ""
    trace: list[tuple[dict[str, Any], np.ndarray]] = field(default_factory=list)


def run_file(path: Path, exercise: Exercise, limits: Limits | None = None) -> Run:
    """Run the file and call its function once for each case of the exercise."""
    return _run(path, exercise, None, limits or Limits())


def trace_file(path: Path, exercise: Exercise, case: int, limits: Limits | None = None) -> Run:
    """Run the file, call its function for one case and keep the values of its variables."""
    return _run(path, exercise, case, limits or Limits())


def _run(path: Path, exercise: Exercise, trace: int | None, limits: Limits) -> Run:
    _check_readable(path)
    with tempfile.TemporaryDirectory(prefix="regard-learn-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        _write_job(folder, path, exercise, trace, limits)
        # The file runs in an empty folder of its own, where a relative path leads to no file of the user.
        (folder / "here").mkdir()
        command = [sys.executable, "-P", "-B", "-m", "regard.learn.child", str(folder)]
        process = subprocess.Popen(
            command,
            cwd=folder / "here",
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        printed, ended = _watch(process, limits)
        return _read_run(folder, printed, ended, process.returncode)


def _check_readable(path: Path) -> None:
    """Raise FileError if the file cannot be read or is no source file, before a process is started."""
    if path.is_dir():
        raise FileError(f"{path} is a folder: give the name of a Python file", argument="check")
    if path.exists() and not path.is_file():
        raise FileError(f"{path} is no regular file: give the name of a Python file", argument="check")
    try:
        with open(path, "rb") as file:
            size = len(file.read(LARGEST_FILE + 1))
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or error}", argument="check") from error
    if size > LARGEST_FILE:
        raise FileError(f"{path} has more than 1 MB: give the name of a Python file", argument="check")


def _environment() -> dict[str, str]:
    """Return the environment of the process, in which this copy of Regard is found."""
    root = str(Path(regard.__file__).parents[1])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}
    return {**inherited, **one_thread, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUTF8": "1"}


def _write_job(folder: Path, path: Path, exercise: Exercise, trace: int | None, limits: Limits) -> None:
    arrays: dict[str, np.ndarray] = {}
    job = {
        "path": str(path.absolute()),
        "function": exercise.function,
        "count": len(exercise.returns),
        "trace": trace,
        "cpu": limits.cpu,
        "wall": limits.wall,
        "memory": limits.memory,
        "cases": _cases(exercise.cases, arrays),
    }
    (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
    np.savez(folder / "arguments.npz", **arrays)  # type: ignore[arg-type]


def _cases(cases: Sequence[Case], arrays: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """Return the cases for the job, with the names of their arrays, which are added to ``arrays``."""
    written = []
    for number, case in enumerate(cases):
        values = dict(case.arguments)
        for name, value in values.items():
            if isinstance(value, np.ndarray):
                arrays[f"{number}.{name}"] = value
                values[name] = {"array": f"{number}.{name}"}
        written.append(values)
    return written


def _watch(process: subprocess.Popen[bytes], limits: Limits) -> tuple[str, str]:
    """Wait for the end of a process and return its output and why it was ended, or "".

    The process and its children are ended if they print too much or take too long.
    """
    chunks: list[bytes] = []
    too_much = threading.Event()

    def read() -> None:
        size = 0
        assert process.stdout is not None
        while chunk := process.stdout.read1(65536):  # type: ignore[attr-defined]
            size += len(chunk)
            if size > limits.output:
                too_much.set()
                _end(process)
                return
            chunks.append(chunk)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    late = False
    try:
        process.wait(limits.total)
    except subprocess.TimeoutExpired:
        late = True
    finally:
        _end(process)
        process.wait()
        reader.join(2.0)
        if process.stdout is not None and not reader.is_alive():
            process.stdout.close()
    reason = "output" if too_much.is_set() else "late" if late else ""
    return b"".join(chunks).decode("utf-8", "replace"), reason


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and all that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            # The process leads a group of its own, since it was started in a new session.
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _read_run(folder: Path, printed: str, ended: str, code: int) -> Run:
    """Read the report of a process, or make one if the process ended before it was written."""
    if ended == "output":
        return Run({"kind": "output", "line": 0}, [], printed)
    try:
        report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        with np.load(folder / "results.npz", allow_pickle=False) as arrays:
            numbers = {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, zipfile.BadZipFile, KeyError):
        return Run(_ended(ended, code), [], printed)
    results = []
    for number, outcome in enumerate(report["outcomes"]):
        names = [name for name in numbers if name.startswith(f"{number}.")]
        parts = sorted(names, key=lambda name: int(name.split(".")[1]))
        results.append(Result(outcome, tuple(numbers[name] for name in parts)))
    trace = [(record, numbers[f"trace.{number}"]) for number, record in enumerate(report["trace"])]
    return Run(report["trouble"], results, printed, trace)


def _ended(ended: str, code: int) -> dict[str, Any]:
    """Return the trouble of a process that ended without a report."""
    limit = getattr(signal, "SIGXCPU", None)
    if ended == "late" or (limit is not None and code == -limit):
        return {"kind": "time", "line": 0, "waited": ended == "late"}
    return {"kind": "ended", "line": 0, "code": code}
