"""Commands whose options are the fields of a settings dataclass."""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

import typer

from regard.settings import Settings, flag_of_field

__all__ = ["with_settings"]


def with_settings(settings: type[Settings], command: Callable[..., None]) -> Callable[..., None]:
    """Return ``command(settings: dict, ...)`` as a command with an option for each field of ``settings``.

    The dict has only the options that were given, because the defaults of the others depend on them.
    """
    hints = typing.get_type_hints(
        command
    )  # as types, since their names are known in the command's module only
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
