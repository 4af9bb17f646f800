"""A process that imports the tasks once and runs commands in forked children, which saves seconds for each command."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Any

# Seconds after which a child is ended.
LONGEST = 240


class CommandHost:
    """A process that forks children. :meth:`run` returns the exit code and the output of each child."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def run(
        self, words: list[str], folders: list[Path], *, code: str = "", **environment: str
    ) -> list[tuple[int, str]]:
        """Run a command of Regard in each folder at the same time, after the Python ``code``.

        The environment variable ``RANK`` is the number of the folder.
        """
        places = [str(folder) for folder in folders]
        order = {"words": words, "folders": places, "code": code, "environment": environment}
        print(json.dumps(order), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        assert answer, "the host has died"
        return [(exit_code, output) for exit_code, output in json.loads(answer)]

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(LONGEST)
        self.process.stdout.close()


def serve() -> None:
    from regard.tasks import TASKS, find_task

    for task in TASKS:
        find_task(task)
    for line in sys.stdin:
        order = json.loads(line)
        with contextlib.ExitStack() as files:
            outputs = [files.enter_context(tempfile.TemporaryFile()) for _ in order["folders"]]
            children = [forked(order, rank, output.fileno()) for rank, output in enumerate(outputs)]
            print(json.dumps([ended(*pair) for pair in zip(children, outputs, strict=True)]), flush=True)


def ended(child: int, output: IO[bytes]) -> tuple[int, str]:
    """Wait for a child, and return its exit code and its output."""
    exit_code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    output.seek(0)
    return exit_code, output.read().decode()


def forked(order: dict[str, Any], rank: int, output: int) -> int:
    """Fork a child that runs a command and ends Python as any program does, and return its process id."""
    child = os.fork()
    if child:
        return child
    from regard.cli import main

    signal.alarm(LONGEST)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(order["folders"][rank])
    os.environ.update(order["environment"], RANK=str(rank))
    exec(order["code"], {})
    main(order["words"])
    raise SystemExit(0)


if __name__ == "__main__":
    serve()
