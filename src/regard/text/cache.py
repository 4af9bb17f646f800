"""Encoded texts in memory-mapped files, so that they need not fit into memory.

A cache is a folder with one or more stores, such as "source" and "target". A store is a file of ids and a file of
offsets. ``manifest.json`` has their dtypes, sizes and hashes. The folder is filled under another name and renamed, so a
cache is never incomplete.
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import numpy as np

from regard.errors import ArgumentError, FileError, OutsideError
from regard.files import read_json, temporary_beside

__all__ = [
    "StoreWriter",
    "TokenStore",
    "check_identified",
    "fingerprint_of",
    "open_stores",
    "write_stores",
]

FORMAT = "regard.tokens/1"
_MANIFEST = "manifest.json"
_OFFSET = np.dtype("<i8")
_ID_TYPES = {name: np.dtype(name) for name in ("<u2", "<u4")}


class TokenStore:
    """Sequences of token ids in one array, where sequence i is ``ids[offsets[i] : offsets[i + 1]]``.

    >>> store = TokenStore.from_lists([[7, 8], [], [9]])
    >>> len(store), store[0], store.lengths()
    (3, array([7, 8], dtype=uint32), array([2, 0, 1]))
    >>> store.padded([0, 2], end=2)[0]
    array([[7, 8, 2],
           [9, 2, 0]])
    """

    def __init__(self, ids: np.ndarray, offsets: np.ndarray):
        # Slices of a plain view are several times faster than slices of np.memmap.
        self.ids = np.asarray(ids)  # (tokens,)
        self.offsets = np.asarray(offsets)  # (n + 1,)

    @classmethod
    def from_lists(cls, sequences: Iterable[Sequence[int]]) -> Self:
        """Make a store in memory from lists of ids."""
        sequences = list(sequences)
        lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))  # (n,)
        ids = np.fromiter(itertools.chain.from_iterable(sequences), np.uint32, int(lengths.sum()))
        return cls(ids, np.concatenate([[0], np.cumsum(lengths)]))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, place: int) -> np.ndarray:
        if not -len(self) <= place < len(self):
            raise OutsideError("place", f"expected a number below {len(self)}, got {place}")
        place %= len(self)
        return self.ids[self.offsets[place] : self.offsets[place + 1]]

    def lengths(self) -> np.ndarray:
        """Return the length of each sequence, ``(n,)``."""
        return np.diff(self.offsets)

    def padded(
        self,
        indices: Sequence[int] | np.ndarray,
        *,
        start: int | None = None,
        end: int | None = None,
        pad: int = 0,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the sequences at ``indices`` as one padded int64 array ``(b,longest)``, and their lengths ``(b,)``.

        The ids ``start`` and ``end`` are added around each sequence if given, and are counted in its length. The id
        ``pad`` fills the end of each row.
        """
        indices = np.asarray(indices, dtype=np.int64)  # (b,)
        if indices.size and not 0 <= indices.min() <= indices.max() < len(self):
            raise OutsideError("indices", f"expected numbers from 0 to {len(self) - 1}")
        begins = self.offsets[indices]  # (b,)
        inner = self.offsets[indices + 1] - begins  # (b,)
        before = int(start is not None)
        around = before + int(end is not None)
        lengths = inner + around  # (b,)
        out = np.full((len(indices), int(lengths.max(initial=around))), pad, dtype=np.int64)  # (b, longest)
        columns = np.arange(out.shape[1] - before)
        real = columns < inner[:, None]  # (b, longest - before)
        out[:, before:][real] = self.ids[(begins[:, None] + columns)[real]]
        if start is not None:
            out[:, 0] = start
        if end is not None:
            out[np.arange(len(indices)), lengths - 1] = end
        return out, lengths


# The stores of a cache by name, and its manifest.
Opened = tuple[dict[str, TokenStore], dict[str, Any]]


class StoreWriter:
    """A writer that appends sequences to the two files of the store ``name`` in a folder.

    Ids take 2 bytes each if ``vocabulary_size`` allows it, and 4 otherwise.
    """

    def __init__(self, folder: Path, name: str, vocabulary_size: int):
        self.dtype = _ID_TYPES["<u2" if vocabulary_size <= 2**16 else "<u4"]
        self._paths = [folder / part for part in _parts(name)]
        self._digests = [hashlib.blake2b(digest_size=16) for _ in self._paths]
        self.sequences = 0
        self.tokens = 0
        self._put(0, np.zeros(0, self.dtype))
        self._put(1, np.zeros(1, _OFFSET))

    def append(self, sequences: Sequence[Sequence[int]]) -> None:
        """Append sequences, which is fast for thousands at a time and slow for single ones."""
        lengths = np.fromiter(map(len, sequences), _OFFSET, len(sequences))
        ids = np.fromiter(itertools.chain.from_iterable(sequences), self.dtype, int(lengths.sum()))
        self._put(0, ids)
        self._put(1, self.tokens + np.cumsum(lengths, dtype=_OFFSET))
        self.sequences += len(sequences)
        self.tokens += len(ids)

    def _put(self, which: int, values: np.ndarray) -> None:
        data = values.tobytes()
        with _writing(self._paths[which]), open(self._paths[which], "ab") as file:
            file.write(data)
        self._digests[which].update(data)

    def close(self) -> dict[str, Any]:
        """Flush the files to the disk, and return the entry of the store in the manifest."""
        for path in self._paths:
            with _writing(path), open(path, "rb+") as file:
                os.fsync(file.fileno())
        return {
            "dtype": self.dtype.str,
            "sequences": self.sequences,
            "tokens": self.tokens,
            "digests": [digest.hexdigest() for digest in self._digests],
        }


def write_stores(
    folder: str | os.PathLike,
    sizes: Mapping[str, int],
    fill: Callable[[dict[str, StoreWriter]], Mapping[str, Any]],
) -> Opened:
    """Write a cache with a store for each name in ``sizes``, and return its stores by name and its manifest.

    ``sizes`` maps the name of a store to the size of its vocabulary. ``fill`` is called with the writers of the stores
    by name, appends to them, and returns further values for the manifest. An existing cache is replaced once the new
    one is complete. Raises FileError if the folder holds other files.
    """
    folder = Path(folder)
    if not folder.parent.is_dir():
        raise FileError(f"the folder of {folder} does not exist: make it first", argument="folder")
    _check_ours(folder)
    with temporary_beside(folder, folder=True) as part:
        writers = {name: StoreWriter(part, name, size) for name, size in sizes.items()}
        more = fill(writers)
        stores = {name: writer.close() for name, writer in writers.items()}
        with _writing(folder):
            _write_manifest(part / _MANIFEST, {"format": FORMAT, "stores": stores, **more})
        # The stores are opened before the folder is renamed, since another process may replace it after that. A memory
        # map stays valid when its file is removed.
        opened = open_stores(part)
        with _writing(folder):
            _swap(part, folder)
    return opened


def open_stores(folder: str | os.PathLike, *, verify: bool = False) -> Opened:
    """Return the stores of a cache by name, memory-mapped, and its manifest.

    Raises FileError if a file is missing or of the wrong size, if the manifest changed or, with ``verify``, if the
    contents of a file changed.
    """
    folder = Path(folder)
    manifest = _read_manifest(folder)
    stores = {}
    for name, said in manifest["stores"].items():
        dtypes = (_ID_TYPES[said["dtype"]], _OFFSET)
        counts = (said["tokens"], said["sequences"] + 1)
        arrays = []
        for path, dtype, count, digest in zip(_parts(name), dtypes, counts, said["digests"], strict=True):
            arrays.append(_mapped(folder / path, dtype, count, digest if verify else None))
        stores[name] = TokenStore(*arrays)
    return stores, manifest


def check_identified(files: Sequence[str | os.PathLike], identity: object) -> None:
    """Raise ArgumentError if data has neither files nor an identity, so that its cache would fit all other data."""
    if not files and identity is None:
        told, fix = "expected files or an identity, got neither", "name the source of the data"
        raise ArgumentError("files", told, fix)


def fingerprint_of(*values: object, files: Iterable[str | os.PathLike] = ()) -> str:
    """Return a SHA-256 hash of JSON values and of the contents of files, not of their names.

    Raises FileError if a file cannot be read.
    """
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode())
    for path in files:
        try:
            with open(path, "rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        except OSError as error:
            raise FileError(f"cannot read {path}: {error.strerror}", argument="files") from error
    return digest.hexdigest()


def _parts(name: str) -> tuple[str, str]:
    return f"{name}.ids", f"{name}.offsets"


def _mapped(path: Path, dtype: np.dtype, count: int, digest: str | None) -> np.ndarray:
    try:
        size = path.stat().st_size
        if size != count * dtype.itemsize:
            raise FileError(
                f"{path} is cut short: {size} bytes, expected {count * dtype.itemsize}", argument="folder"
            )
        # An empty file cannot be memory-mapped.
        mapped = np.memmap(path, dtype, "r", shape=(count,)) if count else np.empty(0, dtype)
    except FileNotFoundError as error:
        raise FileError(f"{path} is missing", argument="folder") from error
    except (OSError, ValueError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"cannot read {path}: {error}", argument="folder") from error
    # The mapped data is hashed instead of the file, because the file may have been replaced since.
    if digest is not None and hashlib.blake2b(mapped.data, digest_size=16).hexdigest() != digest:
        raise FileError(f"{path} was altered: delete the folder to build it again", argument="folder")
    return mapped


def _write_manifest(path: Path, manifest: dict[str, Any]) -> None:
    text = json.dumps({**manifest, "hash": fingerprint_of(manifest)}, indent=1, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / _MANIFEST
    if not path.is_file():
        raise FileError(f"there is no cache of tokens in {folder}", argument="folder")
    manifest = read_json(path, argument="folder")
    if manifest.get("format") != FORMAT:
        raise FileError(f"{path} is not the manifest of a cache of tokens ({FORMAT})", argument="folder")
    if manifest.pop("hash", None) != fingerprint_of(manifest):
        raise FileError(f"{path} was altered: delete the folder to build it again", argument="folder")
    return manifest


def _check_ours(folder: Path) -> None:
    """Raise FileError if a folder exists and holds other files than those of a cache."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise FileError(f"{folder} is a file: name a folder", argument="folder") from None
    strange = [name for name in names if name != _MANIFEST and not name.endswith((".ids", ".offsets"))]
    if strange:
        raise FileError(f"{folder} holds other files ({strange[0]}): name a new folder", argument="folder")


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Return a context manager that raises errors of the system as FileError, which names ``path``."""
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror or error}", argument="folder") from error


def _swap(part: Path, folder: Path) -> None:
    """Rename the new folder ``part`` to ``folder``, and remove the old one.

    Other processes may do the same at the same time. If one has put an equal cache there, that is kept.
    """
    # Temporary folders are readable by their owner only.
    part.chmod(0o755)
    ours = _read_manifest(part)
    for _ in range(100):
        try:
            # This fails if the folder exists and is not empty.
            os.rename(part, folder)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        with suppress(FileError):
            # Another process has built the same cache.
            if open_stores(folder, verify=True)[1] == ours:
                return
        # The folder is missing if another process has just moved it.
        with temporary_beside(folder, folder=True) as old, suppress(FileNotFoundError):
            os.rename(folder, old / "cache")
    raise FileError(f"other processes keep replacing {folder}: use a folder for each", argument="folder")
