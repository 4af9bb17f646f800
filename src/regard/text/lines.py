"""Reading of lines in UTF-8 from plain files, gzip files and standard input, one line at a time."""

from __future__ import annotations

import contextlib
import gzip
import io
import itertools
import os
import sys
import zlib
from collections.abc import Iterator
from typing import IO, NamedTuple

from regard.errors import FileError

__all__ = ["LONGEST", "Line", "check_readable", "lines_of", "name_of", "whole_text"]

# The most bytes of a line that is read into memory.
LONGEST = 2**24
_CHUNK = 2**16
# The byte-order mark.
_MARK = b"\xef\xbb\xbf"


class Line(NamedTuple):
    """A line with its number, from 1, and the name of its file.

    ``text`` is None if the line is too long or cannot be decoded. ``problem`` says why it cannot be decoded, and is
    empty for a line that is too long.
    """

    text: str | None
    number: int
    file: str
    problem: str = ""

    @property
    def place(self) -> str:
        """The file and the number of the line, for messages."""
        return f"{self.file}, line {self.number}"


def name_of(path: str | os.PathLike) -> str:
    """Return the name of a file for messages, where ``-`` is standard input."""
    return "standard input" if path == "-" else os.fspath(path)


def check_readable(argument: str, path: str | os.PathLike) -> None:
    """Raise FileError if a file does not exist, is a folder or may not be read, without opening it.

    ``argument`` is the name of the argument that names the file, for the error. Standard input (``-``) always passes.
    """
    if path == "-":
        return
    if os.path.isdir(path):
        raise FileError(f"{path} is a folder: name a file in it", argument=argument)
    if not os.path.exists(path):
        raise FileError(f"no file {path}", argument=argument)
    # The file is not opened, because a named pipe can be opened only once.
    if not os.access(path, os.R_OK):
        raise FileError(f"no permission to read {path}", argument=argument)


def lines_of(argument: str, path: str | os.PathLike) -> Iterator[Line]:
    """Yield the lines of a file, without their ends (LF or CRLF) and without a byte-order mark.

    ``path`` may be ``-`` for standard input, or end in ``.gz``. ``argument`` is the name of the argument that names the
    file, for errors. Only LF ends a line, since U+2028, U+0085, form feeds and CR may occur in a sentence. In a file
    that has a CR but no LF, except as its last byte, CR ends a line. A line that is not UTF-8 has a ``problem`` in
    place of a text. A line of 16 MiB or more has neither. A file that cannot be read, or seems to be UTF-16 or
    compressed, raises FileError.
    """
    name = name_of(path)
    offset = 0
    with _explained(argument, name), _opened(path) as file:
        for number, (data, size) in enumerate(_raw_lines(file), start=1):
            if data is None:
                yield Line(None, number, name)
            # A file that holds only a byte-order mark has no lines.
            elif number > 1 or data != _MARK:
                start = data.removeprefix(_MARK) if number == 1 else data
                yield _decoded(start, number, name, offset + size)
            offset += size


def whole_text(argument: str, path: str | os.PathLike) -> str:
    """Return all text of a file (also ``.gz``) or of standard input (``-``), without a byte-order mark.

    Raises FileError if it cannot be read or is not UTF-8.
    """
    name = name_of(path)
    with _explained(argument, name), _opened(path) as file:
        data = file.read()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        told = f"byte 0x{data[error.start]:02x} at offset {error.start} of the file is not UTF-8"
        advice = _other_kind(data) or "convert the file, for example with  iconv -f latin1 -t utf-8"
        raise FileError(f"{name}, line {number}: {told}: {advice}", argument=argument) from None


def _raw_lines(file: IO[bytes]) -> Iterator[tuple[bytes | None, int]]:
    """Yield each line with its end, or None if it is too long, and its size in bytes."""
    first = file.readline(LONGEST)
    ahead = [first]
    if b"\r" in first.removesuffix(b"\n").removesuffix(b"\r"):
        ahead.append(file.readline(LONGEST) if first.endswith(b"\n") else b"")
        if not ahead[1]:
            yield from _lines_by_returns(first, file)
            return
    while data := ahead.pop(0) if ahead else file.readline(LONGEST):
        size = len(data)
        if size < LONGEST or data.endswith(b"\n"):
            yield data, size
            continue
        while (rest := file.readline(_CHUNK)) and not rest.endswith(b"\n"):
            size += len(rest)
        yield None, size + len(rest)


def _lines_by_returns(first: bytes, file: IO[bytes]) -> Iterator[tuple[bytes | None, int]]:
    """Yield the same as ``_raw_lines`` for a file in which CR ends a line, as LF and CRLF do."""
    # The incomplete line at the end of the bytes read so far, and the bytes before it if the line is too long.
    held, dropped = b"", 0
    for chunk in itertools.chain([first], iter(lambda: file.read(_CHUNK), b"")):
        # A CR at the end may be the first half of a CRLF.
        *lines, held = (held + chunk).splitlines(keepends=True)
        for line in lines:
            yield None if dropped else line, dropped + len(line)
            dropped = 0
        if len(held) >= LONGEST:
            held, dropped = b"", dropped + len(held)
    if held or dropped:
        yield None if dropped else held, dropped + len(held)


def _decoded(data: bytes, number: int, name: str, end: int) -> Line:
    """Decode line ``number`` of the file ``name``, where ``end`` is the offset after its last byte.

    Raises FileError if it is the first line of a file that seems to be UTF-16 or compressed.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        at = end - len(data) + error.start
        problem = f"byte 0x{data[error.start]:02x} at offset {at} of the file is not UTF-8: "
        if number == 1 and (advice := _other_kind(data)):
            raise FileError(f"{name}, line {number}: {problem}{advice}") from None
        advice = "convert the file, for example with  iconv -f latin1 -t utf-8"
        return Line(None, number, name, problem + advice)
    return Line(text.removesuffix("\n").removesuffix("\r"), number, name)


def _other_kind(data: bytes) -> str:
    """Return advice on a file that seems to be UTF-16 or compressed by its first bytes, or an empty text."""
    if data.startswith(b"\x1f\x8b"):
        return "it is compressed by gzip: give it a name that ends in .gz"
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "it seems to be UTF-16: convert it with  iconv -f utf-16 -t utf-8"
    return ""


def _standard_input() -> IO[bytes]:
    """Return a new binary file on standard input, which leaves the descriptor open when it is closed.

    Python aborts if a thread still waits in ``sys.stdin.buffer`` when the program ends.
    """
    try:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    # Standard input may be replaced by an object in memory.
    except io.UnsupportedOperation:
        return sys.stdin.buffer


@contextlib.contextmanager
def _opened(path: str | os.PathLike) -> Iterator[IO[bytes]]:
    if path == "-":
        yield _standard_input()
    elif os.fspath(path).endswith(".gz"):
        with gzip.open(path, "rb") as file:
            yield file  # pyright: ignore[reportReturnType]
    else:
        with open(path, "rb") as file:
            yield file


@contextlib.contextmanager
def _explained(argument: str, path: str | os.PathLike) -> Iterator[None]:
    """Return a context manager that raises errors of reading ``path`` as FileError."""
    try:
        yield
    except FileError:
        raise
    except FileNotFoundError as error:
        raise FileError(f"no file {path}", argument=argument) from error
    except PermissionError as error:
        raise FileError(f"no permission to read {path}", argument=argument) from error
    except gzip.BadGzipFile as error:
        raise FileError(f"{path} is not a gzip file, or is damaged: {error}", argument=argument) from error
    except (EOFError, zlib.error) as error:
        raise FileError(f"{path} is cut short or damaged: {error}", argument=argument) from error
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}", argument=argument) from error
