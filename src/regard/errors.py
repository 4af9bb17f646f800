"""The exceptions that Regard raises.

A message names the argument, the expected value, the actual value and the fix.

>>> raise ShapeError("mask", "cannot broadcast (2,5,6) to (b,h,q,k) = (2,8,5,7)", "6 keys given, 7 in k")
Traceback (most recent call last):
    ...
regard.errors.ShapeError: mask: cannot broadcast (2,5,6) to (b,h,q,k) = (2,8,5,7): 6 keys given, 7 in k
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "ArgumentError",
    "CaptureError",
    "DtypeError",
    "FileError",
    "Interrupted",
    "MaskError",
    "MissingExtraError",
    "OutsideError",
    "RegardError",
    "ShapeError",
    "UnknownArgumentError",
    "UnknownNameError",
    "did_you_mean",
    "former_names",
    "install_command",
    "option",
    "renamed",
]


# Up to this number of known names, an error lists all of them.
_MOST_NAMES = 24
# The number of names that an error lists otherwise.
_EXAMPLES = 5


# Unicode reserves these code points for use inside a program, so no text contains them.
_NAME, _VALUE, _END = "\ufdd0", "\ufdd1", "\ufdd2"
_MENTION = re.compile(f"{_NAME}([^{_VALUE}]*){_VALUE}([^{_END}]*){_END}")


def option(name: str, value: object = None) -> str:
    """Return the mention of an option for an error message, whose spelling is chosen when the message is shown.

    Python shows it as ``name=value``. The command line shows it as ``--name value``, or as the flag that the command
    has for it. Without a value, Python shows ``name=``.

    >>> str(ArgumentError("valid", f"the same as {option('data', 'x.tsv')}"))
    'valid: the same as data=x.tsv'
    """
    return f"{_NAME}{name}{_VALUE}{'' if value is None else value}{_END}"


def _in_python(name: str, value: str) -> str:
    return f"{name}={value}"


class RegardError(Exception):
    """The base class of all exceptions of this package.

    ``argument`` is the name of the argument or option that the error is about, or None.

    >>> import torch, regard
    >>> try:
    ...     regard.attention(torch.zeros(2, 3), torch.zeros(4, 5), torch.zeros(4, 5))
    ... except RegardError as error:
    ...     print(error.argument)
    k
    """

    def __init__(self, message: str = "", *, argument: str | None = None):
        self.argument = argument
        self._message = message
        super().__init__(self._told())

    def in_words(self, spell: Callable[[str, str], str] = _in_python) -> str:
        """Return the message without the name of the argument.

        ``spell`` takes the name and the value (or "") of each option that the message mentions, and returns its
        spelling, by default that of Python.
        """
        return _MENTION.sub(lambda match: spell(match[1], match[2]), self._message)

    def rename(self, argument: str) -> None:
        """Change the name of the argument that the error is about."""
        self.argument = argument
        self.args = (self._told(),)

    def rename_options(self, names: Mapping[str, str]) -> None:
        """Change the names of the options that the message mentions, where ``names`` has another name."""
        self._message = _MENTION.sub(
            lambda match: option(names.get(match[1], match[1]), match[2]), self._message
        )
        self.args = (self._told(),)

    def _told(self) -> str:
        return self.in_words() if self.argument is None else f"{self.argument}: {self.in_words()}"


@contextlib.contextmanager
def renamed(**names: str) -> Iterator[None]:
    """Return a context manager that renames the arguments of errors of this package raised inside it.

    A function reports its own arguments. Its caller may know them by other names. ``names`` maps the names of the
    function's arguments to those of the caller. Options that a message mentions are renamed too.

    >>> with renamed(path="out"):
    ...     raise FileError("no file x", argument="path")
    Traceback (most recent call last):
        ...
    regard.errors.FileError: out: no file x
    """
    try:
        yield
    except RegardError as error:
        error.rename_options(names)
        if error.argument in names:
            error.rename(names[error.argument])
        raise


class ArgumentError(RegardError, ValueError):
    """Raised when an argument has a value that cannot be used.

    ``argument`` is the name of the argument. The message is the problem, and the fix after a colon.
    """

    argument: str

    def __init__(self, argument: str, problem: str, fix: str = ""):
        super().__init__(problem + (f": {fix}" if fix else ""), argument=argument)


class ShapeError(ArgumentError):
    """Raised when the shapes of the arguments do not fit together."""


class OutsideError(ArgumentError, IndexError):
    """Raised when an index is out of range."""


class MaskError(ArgumentError):
    """Raised when a mask is ambiguous or of the wrong kind."""


class DtypeError(ArgumentError, TypeError):
    """Raised when an argument has a dtype, device or type that cannot be used."""


class UnknownArgumentError(ArgumentError, TypeError):
    """Raised when a function has no keyword argument, or a config no setting, of this name."""


class UnknownNameError(ArgumentError):
    """Raised when a name is not one of the known names.

    The message suggests the closest one.
    """

    def __init__(self, argument: str, name: object, known: Iterable[str]):
        known = list(known)
        shown = known if len(known) <= _MOST_NAMES else [*known[:_EXAMPLES], f"{len(known) - _EXAMPLES} more"]
        super().__init__(
            argument,
            f"unknown name {name!r}",
            f"{did_you_mean(str(name), known)}known are {', '.join(shown)}",
        )


_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def former_names(
    **names: str,
) -> Callable[[Callable[_Arguments, _Result]], Callable[_Arguments, _Result]]:
    """Return a decorator that makes a function raise UnknownArgumentError for a former name of an argument.

    ``names`` maps former names to present names. The error gives the present name.

    >>> @former_names(tokens="query_tokens")
    ... def draw(query_tokens): ...
    >>> draw(tokens=["a"])
    Traceback (most recent call last):
        ...
    regard.errors.UnknownArgumentError: tokens: no longer an argument of draw(): use query_tokens=
    """

    def decorate(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
        @functools.wraps(function)
        def checked(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
            for former, present in names.items():
                if former in kwargs:
                    problem = f"no longer an argument of {function.__name__}()"
                    raise UnknownArgumentError(former, problem, f"use {present}=")
            return function(*args, **kwargs)

        return checked

    return decorate


class FileError(RegardError, OSError):
    """Raised when a file is missing, truncated, modified or of another format."""


class CaptureError(RegardError, RuntimeError):
    """Raised when a capture did not record an attention.

    The message gives the reason and a remedy.
    """


class Interrupted(RegardError):
    """Raised when a run stops on request after saving its state.

    The message says how to resume. ``signal`` is the number of the signal that asked for it, by default that of Ctrl-C
    (SIGINT).
    """

    def __init__(self, message: str, signal: int | None = None):
        self.signal = signal or 2
        super().__init__(message)


class MissingExtraError(RegardError, ImportError):
    """Raised when an optional dependency is not installed.

    The message has the command that installs it.
    """

    def __init__(self, package: str, extra: str, purpose: str):
        super().__init__(f"{purpose} needs {package}: install it with  {install_command(extra)}")


def install_command(extra: str) -> str:
    """Return the pip command that installs an extra of Regard.

    If Regard comes from a folder, such as a clone of its repository, the command names that folder. Otherwise it names
    the package in an index.

    >>> install_command("plot").endswith("[plot]'")
    True
    """
    import shlex

    folder, editable = _source_folder()
    return f"pip install {'-e ' if editable else ''}" + shlex.quote(f"{folder or 'regard'}[{extra}]")


def _source_folder() -> tuple[Path | None, bool]:
    """Return the folder that Regard was installed from, or None, and whether its files are used in place."""
    import importlib.metadata
    import json
    import urllib.parse
    import urllib.request
    from pathlib import Path

    clone = Path(__file__).parents[2]
    if (clone / "pyproject.toml").is_file():
        return clone, True
    try:
        record = importlib.metadata.distribution("regard").read_text("direct_url.json")
        url = urllib.parse.urlsplit(json.loads(record or "{}").get("url", ""))
    except (importlib.metadata.PackageNotFoundError, OSError, ValueError, AttributeError):
        return None, False
    folder = Path(urllib.request.url2pathname(url.path))
    known = url.scheme == "file" and (folder / "pyproject.toml").is_file()
    return (folder if known else None), False


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a suggestion of the closest known name for an error message, or "" if none is close.

    A suggestion ends in a space, so that more text can follow.

    >>> did_you_mean("scaled_dott", ["dot", "scaled_dot"])
    "did you mean 'scaled_dot'? "
    """
    known = list(known)
    # A name that is the last part of a dotted name.
    longer = [full_name for full_name in known if name and full_name.endswith(f".{name}")]
    nearest = longer or difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {nearest[0]!r}? " if nearest else ""
