"""``regard evaluate TASK``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import typer

from regard.cli.streams import DEVICE, MODEL
from regard.cli.task_commands import task_group, with_settings
from regard.tasks.registry import TASKS, evaluation_of

__all__ = ["evaluate"]

HELP = """

Without --data, the test part of the embedded corpus is used where the task has one.
"""


def _command(task: str) -> Callable[..., None]:
    """Return the command that evaluates a task."""

    def evaluate_task(
        settings: dict[str, Any],
        model: str = MODEL,
        compare: list[str] = typer.Option(
            None, "--compare", help="Another model to measure on the same data; may be given several times."
        ),
        device: str = DEVICE,
        as_json: bool = typer.Option(False, "--json", help="The numbers as one JSON object."),
    ) -> None:
        from regard import tasks

        report = tasks.evaluate(task, model, settings, compare=compare or (), device=device, show=True)
        for note in report.notes:
            print(note, file=sys.stderr)
        typer.echo(json.dumps(report.to_json(), ensure_ascii=False) if as_json else str(report))

    evaluate_task.__doc__ = (TASKS[task].measures if task in TASKS else f"Measure a model of {task}.") + HELP
    return with_settings(evaluation_of(task), evaluate_task)


evaluate = task_group(_command, "Measure a model on data it was not trained on. TASK may be module:Class.")
