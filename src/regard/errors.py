"""Every error Regard raises, and the wording they share.

A message names the argument, what was expected, what came, and the fix:

>>> raise ShapeError("mask", "cannot broadcast (2,5,6) to (b,h,q,k) = (2,8,5,7)", "6 keys given, 7 in k")
Traceback (most recent call last):
    ...
regard.errors.ShapeError: mask: cannot broadcast (2,5,6) to (b,h,q,k) = (2,8,5,7): 6 keys given, 7 in k
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

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
]


class RegardError(Exception):
    """The base of all errors of this package."""


class ArgumentError(RegardError, ValueError):
    """An argument has a value that cannot be used."""

    def __init__(self, argument: str, problem: str, fix: str = ""):
        self.argument = argument
        super().__init__(f"{argument}: {problem}" + (f": {fix}" if fix else ""))


class ShapeError(ArgumentError):
    """Sizes do not fit together."""


class OutsideError(ArgumentError, IndexError):
    """An index beyond the end."""


class MaskError(ArgumentError):
    """A mask that is ambiguous or of the wrong kind."""


class DtypeError(ArgumentError, TypeError):
    """A tensor has a dtype, device or type that cannot be used."""


class UnknownArgumentError(ArgumentError, TypeError):
    """A keyword that the function does not take."""


class UnknownNameError(ArgumentError):
    """A name that is not one of those known; suggests the nearest."""

    def __init__(self, argument: str, name: object, known: Iterable[str]):
        known = list(known)
        super().__init__(
            argument,
            f"unknown name {name!r}",
            f"{did_you_mean(str(name), known)}known are {', '.join(known)}",
        )


class FileError(RegardError, OSError):
    """A file is missing, cut short, altered or of another kind."""


class CaptureError(RegardError, RuntimeError):
    """Attention that could not be seen, or was seen and not kept; the message says why and what to try."""


class Interrupted(RegardError):
    """A run that was asked to stop has stopped, with everything saved; the message says how to go on."""


class MissingExtraError(RegardError, ImportError):
    """An optional dependency is not installed; the message has the command that installs it."""

    def __init__(self, package: str, extra: str, purpose: str):
        super().__init__(f"{purpose} needs {package}: install it with  pip install 'regard[{extra}]'")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A suggestion to put in an error message, or nothing.

    >>> did_you_mean("scaled_dott", ["dot", "scaled_dot"])
    "did you mean 'scaled_dot'? "
    """
    nearest = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"did you mean {nearest[0]!r}? " if nearest else ""
