"""The folder of a run, with its checkpoints, its best model and its metrics."""

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
    """Raise FileError if a folder already holds a run, which a new run would overwrite."""
    newest = latest_checkpoint(path / "checkpoints")
    if newest:
        raise FileError(
            f"{path} holds a run already, at {newest.name}: resume it (--resume), or choose another folder"
        )


class RunFolder:
    """The folder of a run, which only the first process reads and writes.

    ``journal`` is the file of metrics. It exists in the first process, after :meth:`begin`.
    """

    journal: Journal

    def __init__(self, path: Path, options: TrainingOptions):
        self.path, self.options = path, options
        self.checkpoints, self.best = path / "checkpoints", path / "best"
        # The step of the checkpoint that was written or read last.
        self.saved = 0

    def begin(self, state: RunState, processes: Processes, *, resume: bool) -> None:
        """Open the folder, for a new run or, with ``resume``, after loading the newest checkpoint into ``state``.

        Raises FileError if a new run would overwrite another, or if there is no checkpoint to resume from. Nothing is
        written before these checks. All processes have to call this. Newer checkpoints that are damaged are renamed,
        with a warning on the error stream, and the lines of the metrics after the checkpoint are removed.
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
        """Write a checkpoint, unless the one written or read last is of the same step.

        All processes have to call this, and the first process writes. Old checkpoints are removed, until
        ``options.keep`` are left. Nothing is written at step 0.
        """
        step = state.progress.step
        if step == self.saved:
            return
        checkpoint = state.snapshot(self.options, processes)
        keep = self.options.keep
        processes.on_first(lambda: save_checkpoint(self.checkpoints, step, checkpoint, keep=keep))
        self.saved = step

    def keep_best(self, write: Callable[[Path], object]) -> None:
        """Replace the folder of the best model by one that ``write`` fills, once it is complete."""
        write_folder(self.best, write)

    def _found(self, resume: bool) -> Found | None:
        """Return the checkpoint to resume from, or None for a new run, or raise FileError as :meth:`begin` says."""
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
