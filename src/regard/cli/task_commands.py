"""Commands with a command for each task, whose options are the fields of the settings of the task."""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperGroup

from regard.errors import did_you_mean
from regard.settings import Settings, flag_of_field
from regard.tasks.registry import TASKS

__all__ = ["FORMER_FLAGS", "task_group", "with_settings"]

# Flags of earlier versions that have another name now.
FORMER_FLAGS = {
    "--source-language": "--from",
    "--target-language": "--to",
    "--model": "--architecture",
    "--attention": "--score",
}


def task_group(make: Callable[[str], Callable[..., None]], help: str) -> typer.Typer:
    """Return a group with a command for each task. ``make`` makes the function of a command from the task's name."""
    group = type("TaskGroup", (_TaskGroup,), {"make": staticmethod(make)})
    app = typer.Typer(cls=group, help=help, no_args_is_help=True)
    # Typer takes an app without a callback and without commands for no group.
    app.callback()(lambda: None)
    return app


class _TaskGroup(TyperGroup):
    """Has a command for each registered task, and one for each ``module:Class``, made when it is called."""

    # Makes the function of a command from the name of its task.
    make: Callable[[str], Callable[..., None]]

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


def with_settings(settings: type[Settings], command: Callable[..., None]) -> Callable[..., None]:
    """Return ``command(settings: dict, ...)`` as a command with an option for each field of ``settings``.

    The dict has only the options that were given, because the defaults of the others depend on them.
    """
    # The annotations as types, since their names are known in the command's module only.
    hints = typing.get_type_hints(command)
    parameters = inspect.signature(command).parameters.values()
    own = [p.replace(annotation=hints[p.name]) for p in parameters if p.name != "settings"]
    field_hints = typing.get_type_hints(settings)
    added = [
        inspect.Parameter(
            one.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=_option(one, field_hints[one.name], _title(settings, one.name)),
            annotation=_optional(field_hints[one.name]),
        )
        for one in dataclasses.fields(settings)
    ]
    names = {one.name for one in dataclasses.fields(settings)}

    def run(**values: Any) -> None:
        given = {name: value for name, value in values.items() if name in names and value is not None}
        command(settings=given, **{name: value for name, value in values.items() if name not in names})

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = inspect.Signature([*[_keyword(p) for p in own], *added])
    run.__annotations__ = {p.name: p.annotation for p in [*own, *added]}
    return run


def _title(settings: type[Settings], name: str) -> str:
    """Return the title of the group that a field belongs to."""
    home = next(kind for kind in settings.__mro__ if name in inspect.get_annotations(kind))
    return getattr(home, "title", Settings.title)


def _kinds(hint: Any) -> tuple[type, ...]:
    return typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)


def _optional(hint: Any) -> Any:
    """Return the type with None, which is the value of an option that is not given."""
    return hint if type(None) in _kinds(hint) else hint | None


def _option(one: dataclasses.Field, hint: Any, title: str) -> Any:
    flag = flag_of_field(one)
    if bool in _kinds(hint):
        flag = f"{flag}/--no-{flag.removeprefix('--')}"
    shown: str | bool = str(one.default).lower() if hint is bool else str(one.default)
    if one.default is None:
        shown = False
    return typer.Option(None, flag, help=one.metadata["help"], show_default=shown, rich_help_panel=title)


def _keyword(parameter: inspect.Parameter) -> inspect.Parameter:
    return parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
