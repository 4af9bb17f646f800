"""Messages in the words of the command line: Regard's errors name arguments, a command has flags for them."""

from __future__ import annotations

import itertools
import re
from typing import Any

__all__ = ["flag_of", "in_flags", "with_flag_of_value"]

_SETTING = re.compile(r"(?<![\w./-])(?P<name>[a-z][a-z_]*)=(?P<value>'[^']*'|[\w./:@%+-]*\w)?")
_LONG_NAME = re.compile(r"(?<![\w./-])[a-z]+(?:_[a-z]+)+(?![\w./(-])")


def flag_of(argument: str, command: Any) -> str:
    """The flag, or the name in capitals, that a command has for an argument; empty if it has none."""
    if argument == "options":
        return "--options"
    for parameter in command.params:
        if parameter.name == argument:
            is_option = parameter.opts[0].startswith("-")
            return max(parameter.opts, key=len) if is_option else parameter.name.upper()
    return ""


def in_flags(message: str, command: Any) -> str:
    """The message with ``name=value`` and ``long_name`` as the command's own flags, where it has such a flag."""
    parameters = {parameter.name: parameter for parameter in command.params}

    def setting(match: re.Match[str]) -> str:
        name, value = match["name"], (match["value"] or "").strip("'")
        flag = flag_of(name, command)
        if not flag:
            return match[0]
        if value == "False" and parameters[name].secondary_opts:
            return parameters[name].secondary_opts[0]
        if value == "True" and parameters[name].is_flag:
            return flag
        return f"{flag} {value}" if value else flag

    def long_name(match: re.Match[str]) -> str:
        return flag_of(match[0], command) or match[0]

    return _LONG_NAME.sub(long_name, _SETTING.sub(setting, message))


def with_flag_of_value(message: str, words: list[str]) -> str:
    """The message with the option whose value it speaks of, instead of the argument at its start."""
    argument, sign, rest = message.partition(": ")
    if not sign or not argument.isidentifier():
        return message
    split = [part for word in words for part in (word.split("=", 1) if word.startswith("--") else [word])]
    pairs = itertools.pairwise(split)
    option = next((one for one, value in pairs if one.startswith("--") and _names(value, rest)), None)
    return f"{option}: {rest}" if option else rest


def _names(value: str, text: str) -> bool:
    """Whether a text speaks of a value as a whole: "fr" is not in "from.txt"."""
    return re.search(rf"(?<![\w/.-]){re.escape(value)}(?![\w/-])", text) is not None
