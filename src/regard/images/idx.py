"""Files in the format idx, in which MNIST is published.

The format is described at http://yann.lecun.com/exdb/mnist/. A file begins with two zero bytes, the type of its
numbers, the number of axes, and the length of each axis as a big-endian integer of 32 bits.
"""

from __future__ import annotations

import contextlib
import gzip
import math
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from regard.errors import FileError

__all__ = ["MOST_BYTES", "read_idx"]

# Bytes of all pictures of a set at most, since they are held in memory. A small compressed file may claim any size.
MOST_BYTES = 2**33

# The types of numbers, by the third byte of a file.
_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
# Axes of a file at most. NumPy has at most 64, and the files that are in use have up to 4.
_MOST_AXES = 8
_GZIP = b"\x1f\x8b"
_CHUNK = 2**24  # bytes that are read at once


def read_idx(path: str | os.PathLike, *, argument: str = "path") -> np.ndarray:
    """Return the array of an idx file, which may be compressed with gzip.

    Raises FileError if the file is missing, truncated, too long or of another format, with ``argument`` as the name of
    its argument.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "labels-idx1-ubyte")
    >>> _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1]))
    >>> read_idx(path)
    array([7, 2, 1], dtype=uint8)
    """
    path = Path(path)
    with _stream_of(path, argument) as file:
        start = file.read(4)
        if len(start) < 4 or start[:2] != b"\0\0" or start[2] not in _TYPES:
            begins = start.hex(" ") or "nothing"
            raise FileError(f"{path} is no idx file: it begins with {begins}", argument=argument)
        kind, axes = np.dtype(_TYPES[start[2]]), start[3]
        lengths = file.read(4 * axes)
        if not 1 <= axes <= _MOST_AXES or len(lengths) < 4 * axes:
            problem = f"{path} is truncated or damaged: its header names {axes} axes"
            raise FileError(problem, argument=argument)
        shape = struct.unpack(f">{axes}I", lengths)
        expected = math.prod(shape) * kind.itemsize
        if expected > MOST_BYTES:
            problem = (
                f"{path} claims {expected:,} bytes for the shape {shape}, more than {MOST_BYTES >> 30} GiB"
            )
            raise FileError(problem, argument=argument)
        content = _read_up_to(file, expected + 1)
    if len(content) != expected:
        given = f"{len(content):,} bytes" if len(content) < expected else "more bytes"
        problem = "is truncated" if len(content) < expected else "is too long"
        told = f"{path} {problem}: {given} after the header, expected {expected:,} for the shape {shape}"
        raise FileError(told, argument=argument)
    # A copy, in the byte order of the machine.
    return np.frombuffer(content, dtype=kind).reshape(shape).astype(kind.newbyteorder("="))


@contextlib.contextmanager
def _stream_of(path: Path, argument: str) -> Iterator[IO[bytes]]:
    """Open a file, decompressed if necessary, and turn the errors of reading it into FileError."""
    try:
        with open(path, "rb") as file:
            compressed = file.read(2) == _GZIP
            file.seek(0)
            with gzip.open(file) if compressed else contextlib.nullcontext(file) as stream:
                yield stream  # pyright: ignore[reportReturnType]  # both are binary streams
    except FileError:
        raise
    except FileNotFoundError:
        raise FileError(f"no file {path}", argument=argument) from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FileError(f"{path} is truncated or damaged: {error}", argument=argument) from None
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}", argument=argument) from None


def _read_up_to(file: IO[bytes], most: int) -> bytes:
    """Read at most ``most`` bytes in parts, so that a wrong header allocates no memory."""
    parts: list[bytes] = []
    while most > 0 and (part := file.read(min(most, _CHUNK))):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)
