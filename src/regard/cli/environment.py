"""Handling of closed streams, the locale, the width of the terminal and warnings of libraries."""

from __future__ import annotations

import io
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from regard.errors import FileError

__all__ = ["ClosedStream", "plain_warnings", "prepare_streams", "read_arguments", "say", "undecoded"]


def say(message: str) -> None:
    """Print one line on standard error."""
    print("regard: " + " ".join(message.split()), file=sys.stderr)


def read_arguments() -> list[str]:
    """Return the words of the command line.

    If the locale cannot decode them, the process is started again in UTF-8.
    """
    words = sys.argv[1:]
    if not sys.flags.utf8_mode and any(_is_undecoded(word) for word in words):
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])
    return words


def undecoded(words: list[str]) -> str | None:
    """Return the first word that is not UTF-8 in a form that can be printed, or None."""
    return next(
        (os.fsencode(word).decode("utf-8", "backslashreplace") for word in words if _is_undecoded(word)), None
    )


def _is_undecoded(word: str) -> bool:
    return any("\udc80" <= character <= "\udcff" for character in word)


def prepare_streams(words: list[str]) -> None:
    """Replace closed streams, and remove COLUMNS and LINES from the environment if they are no numbers."""
    # Files that are opened later must not get the numbers of the closed streams, which libraries write to.
    closed = {
        name: os.open(os.devnull, os.O_RDWR)
        for name in ("stdin", "stdout", "stderr")
        if getattr(sys, name) is None
    }
    if "stdin" in closed:
        sys.stdin = ClosedStream("standard input", "name a file, or pipe text in")
    if "stdout" in closed:
        fix = "write to a file with --out where the command has it, or to a pipe"
        sys.stdout = ClosedStream("standard output", fix)
        # A training writes its model into a folder, so it does not fail because its last line cannot be printed.
        if words[:1] == ["train"]:
            sys.stdout = os.fdopen(closed["stdout"], "w", encoding="utf-8")
    if "stderr" in closed:
        sys.stderr = os.fdopen(closed["stderr"], "w", encoding="utf-8")
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot write 猫 gets an escape, not a crash.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    for name in ("COLUMNS", "LINES"):
        if name in os.environ and not os.environ[name].strip("0").isdigit():
            del os.environ[name]


class ClosedStream(io.TextIOBase):
    """Replaces a closed stream, and raises an error that says so when it is read or written."""

    def __init__(self, name: str, fix: str):
        self.message = f"{name} is closed: {fix}"

    def _refuse(self, *_: Any) -> NoReturn:
        raise FileError(self.message)

    read = readline = write = fileno = __next__ = _refuse

    @property
    def buffer(self) -> NoReturn:
        """Raise the error that the stream is closed."""
        raise FileError(self.message)

    def isatty(self) -> bool:
        """Return False."""
        return False


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Show each Python warning, and each logged one, as one plain line on standard error."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        say(str(message))

    shown, warnings.showwarning = warnings.showwarning, show
    handler = _PlainLines(logging.WARNING)
    logging.getLogger().addHandler(handler)
    # Matplotlib logs missing folders and fonts. Regard itself warns of those that matter.
    matplotlib = logging.getLogger("matplotlib")
    level = matplotlib.level
    matplotlib.setLevel(logging.ERROR)
    try:
        yield
    finally:
        warnings.showwarning = shown
        logging.getLogger().removeHandler(handler)
        matplotlib.setLevel(level)


class _PlainLines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        say(record.getMessage())
