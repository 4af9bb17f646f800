"""A group of commands with one command for each task, made when it is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperGroup

from regard.errors import did_you_mean
from regard.tasks.registry import TASKS

__all__ = ["FORMER_FLAGS", "TaskGroup"]

# Flags of earlier versions that have another name now.
FORMER_FLAGS = {
    "--source-language": "--from",
    "--target-language": "--to",
    "--model": "--architecture",
    "--attention": "--score",
}


class TaskGroup(TyperGroup):
    """Has a command for each registered task, and one for each ``module:Class``."""

    make: Callable[[str], Callable[..., None]]  # makes the function of a command from the name of its task

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the registered tasks."""
        return list(TASKS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of a task, or None if there is no such task."""
        if cmd_name not in TASKS and ":" not in cmd_name:
            return None
        if cmd_name not in self.commands:
            app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
            app.command(cmd_name)(type(self).make(cmd_name))
            self.commands[cmd_name] = typer.main.get_command(app)
        return self.commands[cmd_name]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Name the nearest task if there is none of that name."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and self.get_command(ctx, name) is None:
            near = did_you_mean(name, TASKS)
            ctx.fail(f"there is no task {name!r}: {near}known are {', '.join(TASKS)}, or give module:Class")
        return super().resolve_command(ctx, args)
