"""Files with options of a command, which ``--options FILE`` reads.

The options of the command line override those of the file.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from regard.cli.task_commands import FORMER_FLAGS
from regard.errors import ArgumentError, FileError, MissingExtraError, did_you_mean
from regard.files import read_json

__all__ = ["check_flags", "command_of", "with_option_files"]


def command_of(group: Any, words: list[str]) -> tuple[Any, int]:
    """Return the command that words call, and how many of them name it."""
    count = 0
    while count < len(words) and hasattr(group, "get_command") and not words[count].startswith("-"):
        found = group.get_command(None, words[count])
        if found is None:
            break
        group = found
        count += 1
    return group, count


def check_flags(group: Any, words: list[str]) -> None:
    """Raise ArgumentError for flags of earlier versions, and for options with an empty text that is not the default.

    An empty path would be the current folder.
    """
    command, _ = command_of(group, words)
    named = {flag: one for one in command.params for flag in one.opts if flag.startswith("-")}
    end = words.index("--") if "--" in words else len(words)  # what follows is no option
    for word, following in itertools.zip_longest(words[:end], words[1:end]):
        flag, sign, rest = word.partition("=")
        one = named.get(flag)
        if one is None and (now := _present_flag(flag, command)):
            raise WrongFlag(f"{flag} is called {now} now")
        if one is not None and not one.is_flag and one.default != "" and (rest if sign else following) == "":
            raise ArgumentError(one.name, "expected a value, got an empty text", "give one, or leave it out")


class WrongFlag(typer.BadParameter):
    """Raised for a flag of an earlier version."""

    def format_message(self) -> str:
        """Return the message alone."""
        return self.message


def _present_flag(flag: str, command: Any) -> str:
    """Return the name that a flag of an earlier version has now, or "" if the command has no such flag."""
    now = FORMER_FLAGS.get(flag, "")
    return now if any(now in one.opts for one in command.params) else ""


def with_option_files(group: Any, words: list[str]) -> list[str]:
    """Return the words with each ``--options FILE`` replaced by the options in the file."""
    rest, files = _taken_out(words)
    if not files:
        return words
    command, count = command_of(group, rest)
    added = [word for path in files for word in _words(command, Path(path))]
    return [*rest[:count], *added, *rest[count:]]


def _taken_out(words: list[str]) -> tuple[list[str], list[str]]:
    """Return the words without ``--options FILE``, and the files."""
    rest, files = [], []
    waiting = iter(words)
    for word in waiting:
        if word == "--":  # what follows is no option
            rest += [word, *waiting]
        elif word == "--options":
            path = next(waiting, None)
            if path is None:
                raise ArgumentError("options", "expected the name of a file, got nothing")
            files.append(path)
        elif word.startswith("--options="):
            files.append(word.partition("=")[2])
        else:
            rest.append(word)
    return rest, files


def _words(command: Any, path: Path) -> Iterator[str]:
    """Yield the options of a file as words of the command line."""
    known = {flag[2:]: one for one in command.params for flag in one.opts if flag.startswith("--")}
    known |= {one.name.replace("_", "-"): one for one in known.values()}  # as in Python
    for name, value in _parsed(path).items():
        plain = str(name).replace("_", "-")
        if plain not in known and (now := _present_flag(f"--{plain}", command)):
            raise ArgumentError("options", f"{path}: {name} is called {now[2:]} now")
        if plain not in known:
            problem = f"{path}: {name} is not an option of this command"
            raise ArgumentError("options", problem, did_you_mean(plain, known).strip())
        yield from _as_words(known[plain], value, str(name), path)


def _as_words(option: Any, value: Any, name: str, path: Path) -> Iterator[str]:
    flag = max(option.opts, key=len)
    if value is None:
        return
    if option.is_flag:
        if not isinstance(value, bool):
            raise ArgumentError(name, f"expected true or false, got {value!r} ({path})")
        if value or option.secondary_opts:
            yield flag if value else option.secondary_opts[0]
        return
    several = value if isinstance(value, list) else [value]
    if isinstance(value, list) and not option.multiple:
        raise ArgumentError(name, f"expected one value, got {value!r} ({path})")
    for one in several:
        if isinstance(one, bool | dict | list):
            raise ArgumentError(name, f"expected a number or text, got {one!r} ({path})")
        yield f"{flag}={one}"


def _parsed(path: Path) -> dict[str, Any]:
    if path.suffix not in (".yaml", ".yml", ".toml", ".json"):
        raise ArgumentError("options", f"expected a .yaml, .toml or .json file, got {path.name}")
    from regard.text.lines import check_readable, whole_text

    check_readable("options", path)
    text = whole_text("options", path)
    if path.suffix == ".json":
        return read_json(path)
    try:
        values = tomllib.loads(text) if path.suffix == ".toml" else _read_yaml(text)
    except ValueError as error:
        raise FileError(f"{path}: not valid {path.suffix[1:].upper()}: {error}") from None
    if values is None:  # an empty YAML file
        return {}
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
