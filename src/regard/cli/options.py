"""Commands whose options are the fields of a dataclass, and files that hold options.

A setting is written down once, with its default and its line of help; the command line, an option file and Python all
read it from there.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import tomllib
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from regard.errors import ArgumentError, FileError, MissingExtraError, UnknownArgumentError, did_you_mean

__all__ = ["read_option_file", "with_settings"]


def with_settings(settings: type, command: Callable[..., None]) -> Callable[..., None]:
    """``command(settings: dict, ...)`` as a command with an option for each field of ``settings``.

    Only options that were given are in the dict, so that an option file can supply the others.
    """
    own = [p for p in inspect.signature(command).parameters.values() if p.name != "settings"]
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


def read_option_file(path: Path | None, settings: type) -> dict[str, Any]:
    """The options in a YAML, TOML or JSON file; names as on the command line or in Python."""
    if path is None:
        return {}
    values = _parsed(path)
    known = [one.name for one in dataclasses.fields(settings)]
    found = {}
    for name, value in values.items():
        plain = str(name).replace("-", "_")
        if plain not in known:
            raise UnknownArgumentError(
                str(name), f"not an option ({path})", did_you_mean(plain, known).strip()
            )
        found[plain] = value
    return _checked(found, settings, path)


def _parsed(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{path}: cannot be read: {error}") from None
    try:
        if path.suffix == ".toml":
            values = tomllib.loads(text)
        elif path.suffix == ".json":
            values = json.loads(text)
        elif path.suffix in (".yaml", ".yml"):
            values = _read_yaml(text)
        else:
            raise ArgumentError("options", f"expected a .yaml, .toml or .json file, got {path.name}")
    except (ValueError, tomllib.TOMLDecodeError) as error:
        if isinstance(error, ArgumentError):
            raise
        raise FileError(f"{path}: not valid {path.suffix[1:].upper()}: {error}") from None
    if not isinstance(values, dict):
        raise FileError(f"{path}: expected names and values, got {type(values).__name__}")
    return values


def _read_yaml(text: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise MissingExtraError("pyyaml", "text", "an option file in YAML (TOML needs nothing)") from None

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None


def _checked(values: dict[str, Any], settings: type, path: Path) -> dict[str, Any]:
    """Each value of the type its setting has."""
    hints = typing.get_type_hints(settings)
    for name, value in values.items():
        kinds = _kinds(hints[name])
        if value is None and type(None) in kinds:
            continue
        if isinstance(value, int) and not isinstance(value, bool) and float in kinds:
            values[name] = float(value)
        elif not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            wanted = " or ".join(kind.__name__ for kind in kinds if kind is not type(None))
            raise ArgumentError(name, f"expected {wanted}, got {value!r} ({path})")
    return values


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
