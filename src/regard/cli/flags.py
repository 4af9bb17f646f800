"""Errors with the flags of a command in place of the names of Python arguments."""

from __future__ import annotations

from typing import Any

from regard.errors import RegardError

__all__ = ["flag_of", "in_flags"]


def flag_of(argument: str, command: Any) -> str:
    """Return the flag of an argument, or its name in capitals if it has no flag, or "" if there is no such argument."""
    if argument == "options":
        return "--options"
    for parameter in command.params:
        if parameter.name == argument:
            is_option = parameter.opts[0].startswith("-")
            return max(parameter.opts, key=len) if is_option else parameter.name.upper()
    return ""


def in_flags(error: RegardError, command: Any) -> str:
    """Return the message of an error, with a flag for its argument and for each option that it mentions."""
    parameters = {parameter.name: parameter for parameter in command.params}

    def spell(name: str, value: str) -> str:
        flag = flag_of(name, command)
        if not flag:
            return f"{name}={value}"
        if value == "False" and parameters[name].secondary_opts:
            return parameters[name].secondary_opts[0]
        if value == "True" and parameters[name].is_flag:
            return flag
        return f"{flag} {value}".rstrip()

    message = error.in_words(spell)
    flag = flag_of(error.argument, command) if error.argument else ""
    if flag:
        return f"{flag}: {message}"
    # The path that a function was given is in the message. The name of its argument means nothing to the user.
    return message if error.argument in (None, "path", "folder") else f"{error.argument}: {message}"
