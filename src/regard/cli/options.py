"""Commands whose options are the fields of a dataclass.

A setting is written down once, with its default and its line of help; the command line and Python both read it there.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

import typer

__all__ = ["with_settings"]


def with_settings(settings: type, command: Callable[..., None]) -> Callable[..., None]:
    """``command(settings: dict, ...)`` as a command with an option for each field of ``settings``.

    Only options that were given are in the dict: what the others are depends on these.
    """
    written = typing.get_type_hints(command)  # as types: their names are known in the command's module only
    parameters = inspect.signature(command).parameters.values()
    own = [p.replace(annotation=written[p.name]) for p in parameters if p.name != "settings"]
    hints = typing.get_type_hints(settings)
    added = [
        inspect.Parameter(
            one.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=_option(one, hints[one.name]),
            annotation=_optional(hints[one.name]),
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


def _kinds(hint: Any) -> tuple[type, ...]:
    return typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)


def _optional(hint: Any) -> Any:
    """The type with None: an option that is not given is None, whatever its default."""
    return hint if type(None) in _kinds(hint) else hint | None


def _option(one: dataclasses.Field, hint: Any) -> Any:
    flag = "--" + one.name.replace("_", "-")
    if bool in _kinds(hint):
        flag = f"{flag}/--no-{one.name.replace('_', '-')}"
    shown = "none" if one.default is None else str(one.default).lower() if hint is bool else str(one.default)
    return typer.Option(None, flag, help=one.metadata["help"], show_default=shown)


def _keyword(parameter: inspect.Parameter) -> inspect.Parameter:
    return parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
