"""The folder of a run: its checkpoints, its best model and its metrics."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from regard.errors import FileError
from regard.training.checkpoints import (
    Found,
    latest_checkpoint,
    newest_whole,
    recover_folder,
    save_checkpoint,
    set_aside,
    write_folder,
)
from regard.training.distributed import Processes, share_checkpoint
from regard.training.options import TrainingOptions
from regard.training.progress import Journal
from regard.training.state import Progress, RunState

__all__ = ["RunFolder", "refuse_a_run"]


def refuse_a_run(path: Path) -> None:
    """See that a folder holds no run yet: a new one would spoil it."""
    newest = latest_checkpoint(path / "checkpoints")
    if newest:
        raise FileError(
            f"{path} holds a run already, at {newest.name}: go on with it (--resume), or choose another folder"
        )


class RunFolder:
    """Where a run is kept. Only the first process reads and writes here."""

    journal: Journal

    def __init__(self, path: Path, options: TrainingOptions):
        self.path, self.options = path, options
        self.checkpoints, self.best = path / "checkpoints", path / "best"
        self.saved = 0  # the step of the checkpoint that was written or read last

    def begin(self, state: RunState, processes: Processes, *, resume: bool) -> None:
        """Bring ``state`` to where the run was, or see that there is no run yet; then open the folder.

        Nothing is written before it is certain that the run can go on.
        """
        found = processes.on_first(lambda: self._found(resume))
        checkpoint = share_checkpoint(processes, found.checkpoint if found else None)
        if checkpoint is not None:
            try:
                state.restore(checkpoint, self.options, processes)
            except FileError as error:
                raise FileError(f"{self.path}: {error}") from None
            self.saved = state.progress.step
        processes.on_first(lambda: self._open(state.progress, found))

    def save(self, state: RunState, processes: Processes) -> None:
        """Write a checkpoint, unless there is one of this step: a whole one is never replaced."""
        step = state.progress.step
        if step == self.saved:
            return
        checkpoint = state.snapshot(self.options, processes)
        keep = self.options.keep
        processes.on_first(lambda: save_checkpoint(self.checkpoints, step, checkpoint, keep=keep))
        self.saved = step

    def keep_best(self, write: Callable[[Path], object]) -> None:
        """Let ``write`` fill the folder of the best model; until that is done, the one before stays."""
        write_folder(self.best, write)

    def _found(self, resume: bool) -> Found | None:
        """The checkpoint to go on from."""
        if not resume:
            refuse_a_run(self.path)
        found = newest_whole(self.checkpoints)
        if resume and not found:
            raise FileError(f"{self.path}: there is no checkpoint to resume from")
        return found

    def _open(self, progress: Progress, found: Found | None) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            recover_folder(self.best)
            for path, problem in (found.damaged if found else {}).items():
                aside = set_aside(path)
                print(
                    f"regard: WARNING: a checkpoint is damaged: {problem}. It is kept as {aside.name}; "
                    f"training goes on from the one before it, at step {progress.step}.",
                    file=sys.stderr,
                    flush=True,
                )
        except OSError as error:
            raise FileError(f"cannot write in {self.path}: {error.strerror or error}") from error
        self.journal = Journal(self.path / "metrics.jsonl", progress.step, progress.validated)
