"""GGUF files of llama.cpp, with their metadata and their quantised tensors.

The format is described in the document ``gguf.md`` of the project ggml. The header is read here, with every size
compared with that of the file before memory is allocated. The package ``gguf`` turns quantised tensors into float32.
"""

from __future__ import annotations

import itertools
import math
import mmap
import os
import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.errors import FileError, MissingExtraError

__all__ = ["GGUF_MAGIC", "GGUFFile"]

GGUF_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_MOST_AXES = 4
_MOST_NESTING = 4
_STRING, _ARRAY, _BOOL = 8, 9, 7
# The numbers of types of metadata, and how the struct module reads them.
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", _BOOL: "?", 10: "Q", 11: "q", 12: "d"}


class _Place(NamedTuple):
    """Where a tensor is in the file, and in which type."""

    start: int
    size: int
    kind: int


class GGUFFile:
    """The metadata of a GGUF file, and its tensors by name.

    The constructor reads the metadata, ``metadata``, and the shapes of the tensors, ``shapes``, first axis first. It
    raises FileError if the file is no GGUF file, is cut short or altered, or has a type that cannot be read, and
    MissingExtraError without the package ``gguf``.

    >>> GGUFFile("no/such/file.gguf")
    Traceback (most recent call last):
        ...
    regard.errors.FileError: no/such/file.gguf: cannot be read: No such file or directory
    """

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        _package()
        try:
            with self.path.open("rb") as file:
                if not os.fstat(file.fileno()).st_size:
                    raise FileError(f"{self.path}: an empty file, not a GGUF file")
                self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except FileError:
            raise
        except OSError as error:
            raise FileError(f"{self.path}: cannot be read: {error.strerror or error}") from None
        self.metadata: dict[str, Any] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._places: dict[str, _Place] = {}
        self._read_header(_Cursor(self._bytes, self.path))

    def where(self, name: str) -> Path:
        """Return the path of the file, which holds all tensors."""
        return self.path

    def read(self, names: list[str]) -> dict[str, Tensor]:
        """Return the named tensors in float32, or raise FileError if one holds infinite numbers or NaN."""
        return {name: self._read(name) for name in names}

    def type_name(self, name: str) -> str:
        """Return the name of the type of a tensor in the file, such as "Q4_1"."""
        return _package().GGMLQuantizationType(self._places[name].kind).name

    def _read(self, name: str) -> Tensor:
        place, package = self._places[name], _package()
        kind = package.GGMLQuantizationType(place.kind)
        shape = self.shapes[name]
        stored = np.frombuffer(self._bytes, np.uint8, place.size, place.start)
        rows = stored.reshape(math.prod(shape[:-1]), -1)
        # An invalid float16 scale gives NaN, which is found below.
        with np.errstate(all="ignore"):
            numbers = package.quants.dequantize(rows, kind)
        tensor = torch.from_numpy(np.array(numbers, dtype=np.float32)).reshape(
            shape
        )  # a copy of the mapped file
        if not tensor.isfinite().all():
            raise FileError(f"{self.path}: {name} holds numbers that are not finite: the file is damaged")
        return tensor

    def _read_header(self, cursor: _Cursor) -> None:
        if cursor.take(4) != GGUF_MAGIC:
            raise FileError(f"{self.path}: not a GGUF file: it does not begin with the letters GGUF")
        version = cursor.number("I")
        if version not in _VERSIONS:
            told = "a file in big-endian order" if version >= 2**16 else f"version {version} of the format"
            raise FileError(f"{self.path}: {told}, which Regard cannot read: expected version 2 or 3")
        tensors, entries = cursor.count("tensors", 24), cursor.count("entries of metadata", 13)
        for _ in range(entries):
            key = cursor.text()
            if key in self.metadata:
                raise FileError(f"{self.path}: {key} is there twice: the file is damaged")
            self.metadata[key] = cursor.value(cursor.number("I"))
        listed = [self._listed(cursor) for _ in range(tensors)]
        alignment = self.metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
            raise FileError(f"{self.path}: general.alignment: expected a power of 2, got {alignment!r}")
        first = -(-cursor.place // alignment) * alignment
        for name, shape, kind, offset in listed:
            self._add(name, shape, kind, first + offset)
        self._check_overlaps()

    def _listed(self, cursor: _Cursor) -> tuple[str, tuple[int, ...], int, int]:
        """Read the name, the shape, the type and the offset of one tensor."""
        name, axes = cursor.text(), cursor.number("I")
        if not 1 <= axes <= _MOST_AXES:
            raise FileError(f"{self.path}: {name} has {axes} axes: expected 1 to {_MOST_AXES}")
        shape = tuple(cursor.number("Q") for _ in range(axes))[::-1]
        return name, shape, cursor.number("I"), cursor.number("Q")

    def _add(self, name: str, shape: tuple[int, ...], kind: int, start: int) -> None:
        if name in self.shapes:
            raise FileError(f"{self.path}: {name} is there twice: the file is damaged")
        block, size = self._type(name, kind)
        if not all(shape) or shape[-1] % block:
            raise FileError(f"{self.path}: {name} is {shape}: expected rows of a multiple of {block} numbers")
        length = math.prod(shape) // block * size
        if start + length > len(self._bytes):
            told = f"cut short: {name} ends at byte {start + length:,} of {len(self._bytes):,}"
            raise FileError(f"{self.path}: {told}")
        self.shapes[name], self._places[name] = shape, _Place(start, length, kind)

    def _type(self, name: str, number: int) -> tuple[int, int]:
        """Return the numbers in a block of a type and the bytes of a block, or raise FileError for other types."""
        package = _package()
        try:
            kind = package.GGMLQuantizationType(number)
            block, size = package.GGML_QUANT_SIZES[kind]
        except (ValueError, KeyError):
            raise FileError(
                f"{self.path}: {name} is of type {number}, which the package gguf does not know"
            ) from None
        try:
            package.quants.dequantize(np.zeros((1, size), np.uint8), kind)
        except NotImplementedError:
            raise FileError(f"{self.path}: {name} is of type {kind.name}, which Regard cannot read") from None
        return block, size

    def _check_overlaps(self) -> None:
        order = sorted(self._places, key=lambda name: self._places[name].start)
        for name, following in itertools.pairwise(order):
            place = self._places[name]
            if place.start + place.size > self._places[following].start:
                raise FileError(f"{self.path}: {name} and {following} overlap: the file is damaged")


class _Cursor:
    """A reader of numbers and texts one after the other, which raises FileError at the end of the file."""

    def __init__(self, content: mmap.mmap, path: Path):
        self.content, self.path, self.place = content, path, 0

    def take(self, size: int) -> bytes:
        """Return the next ``size`` bytes."""
        if size > len(self.content) - self.place:
            raise FileError(f"{self.path}: cut short, or not a GGUF file: its header ends too early")
        taken = self.content[self.place : self.place + size]
        self.place += size
        return taken

    def number(self, code: str) -> Any:
        """Return the next number, of a type of the struct module."""
        return struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0]

    def count(self, of: str, least: int) -> int:
        """Return the next number, which counts things of at least ``least`` bytes, if the file can hold so many."""
        number = self.number("Q")
        if number > (len(self.content) - self.place) // least:
            raise FileError(f"{self.path}: cut short or altered: it says to hold {number:,} {of}")
        return number

    def text(self) -> str:
        """Return the next text, with bytes that are not UTF-8 as lone surrogates."""
        return self.take(self.count("bytes of a text", 1)).decode("utf-8", "surrogateescape")

    def value(self, kind: int, depth: int = 0) -> Any:
        """Return the next value of metadata, of the type with the number ``kind``."""
        if kind == _STRING:
            return self.text()
        if kind in _SCALARS:
            return self.number(_SCALARS[kind])
        if kind != _ARRAY or depth >= _MOST_NESTING:
            raise FileError(f"{self.path}: altered: metadata of the unknown type {kind}")
        inner = self.number("I")
        if inner in _SCALARS:
            code = _SCALARS[inner]
            count = self.count("numbers", struct.calcsize("<" + code))
            return list(struct.unpack(f"<{count}{code}", self.take(count * struct.calcsize("<" + code))))
        return [self.value(inner, depth + 1) for _ in range(self.count("values", 8))]


def _package() -> Any:
    try:
        import gguf
        import gguf.quants
    except ImportError as error:
        raise MissingExtraError("gguf", "gguf", "a GGUF file") from error
    return gguf
