"""``regard train TASK``."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from regard.cli.task_commands import task_group, with_settings
from regard.errors import Interrupted
from regard.tasks.registry import TASKS, settings_of

__all__ = ["train"]

HELP = """

The best model is in the folder's best/. The same command under torchrun trains with many processes. A file with
options is named with --options FILE.
"""

# A run of fewer steps, such as some passes over a few sentences, hardly trains a model.
FEW_STEPS = 100


def _command(task: str) -> Callable[..., None]:
    """Return the command that trains a task."""
    default = f"runs/{task.rpartition(':')[2].lower()}"

    def train_task(
        settings: dict[str, Any],
        out: Path = typer.Option(None, "--out", help="The folder of the run.", show_default=default),
        resume: bool = typer.Option(
            False, "--resume", help="Continue from the newest checkpoint of the folder."
        ),
    ) -> None:
        from regard import tasks

        folder = out or Path(default)
        try:
            if resume:
                outcome = tasks.resume(folder, settings, task=task)
            else:
                outcome = tasks.train(task, settings, folder)
        except KeyboardInterrupt:
            # Outside the steps, such as while the data is read.
            raise Interrupted(_unsaved(task, folder)) from None
        # Of several processes, the first one reports.
        if os.environ.get("RANK", "0") == "0":
            _report(task, folder, outcome, settings if resume else None)
            if not resume and "steps" not in settings and 0 < outcome.step < FEW_STEPS:
                typer.echo(
                    f"{outcome.step} steps are few: train longer with  {_resuming(task, folder)} --epochs …"
                )

    train_task.__doc__ = (TASKS[task].trains if task in TASKS else f"Train {task}.") + HELP
    return with_settings(settings_of(task), train_task)


def _report(task: str, folder: Path, outcome: Any, changes: dict[str, Any] | None) -> None:
    """Print how a run ended. ``changes`` are the settings that a resumed run was given."""
    numbers = ", ".join(f"{name} {value:.2f}" for name, value in outcome.best.items())
    if outcome.stopped == "interrupted" and outcome.step == 0:
        raise Interrupted(_unsaved(task, folder), outcome.signal)
    if outcome.stopped == "interrupted":
        message = f"interrupted at step {outcome.step} and saved: go on with  {_resuming(task, folder)}"
        raise Interrupted(message, outcome.signal)
    if changes is not None and outcome.first_step == outcome.step:
        typer.echo(f"nothing was trained: {_reason(outcome, changes)}: {numbers}")
        patience = ", or more --patience" if outcome.stopped == "no improvement" else ""
        typer.echo(f"to train further, give more --steps, --epochs or --minutes{patience}")
    else:
        minutes = outcome.seconds / 60
        typer.echo(f"{outcome.stopped} after {outcome.step} steps, {minutes:.1f} minutes: {numbers}")
    typer.echo(f"the best model is in {folder / 'best'}")
    command = _next_command(task, folder)
    if command:
        typer.echo(f"use it with  {command}")


def _next_command(task: str, folder: Path) -> str:
    """Return a command that uses the trained model, or "" for none."""
    from regard import tasks

    settings = tasks.settings_of_run(folder, task=task)
    return tasks.find_task(task).next_command(settings, shlex.quote(str(folder)))


def _unsaved(task: str, folder: Path) -> str:
    """Return the message for a run that was interrupted and wrote no checkpoint of its last step."""
    if any((folder / "checkpoints").glob("step-*")):
        return f"interrupted: go on from the newest checkpoint with  {_resuming(task, folder)}"
    return "interrupted before the first step: nothing is saved yet: start again with the same command"


def _resuming(task: str, folder: Path) -> str:
    """Return the command that resumes a run."""
    command = f"regard train {task} --resume --out {shlex.quote(str(folder))}"
    return f"torchrun … -m {command}" if int(os.environ.get("WORLD_SIZE", "1")) > 1 else command


def _reason(outcome: Any, changes: dict[str, Any]) -> str:
    """Return why a resumed run had no step to take."""
    if outcome.stopped == "no improvement":
        return f"the run had stopped at step {outcome.step}, because validations no longer improved"
    if changes.get("steps", outcome.step) < outcome.step:
        return f"--steps {changes['steps']} is below step {outcome.step}, which the run has reached"
    if "minutes" in changes:
        return f"the updates of the run took {changes['minutes']:g} minutes or more"
    if "epochs" in changes:
        return f"the run has reached step {outcome.step}, and --epochs {changes['epochs']:g} ends there or before"
    return f"the run had ended at step {outcome.step} ({outcome.stopped})"


train = task_group(
    _command,
    "Train a model on your files, or on the corpus that comes with Regard. TASK may be module:Class.",
)
