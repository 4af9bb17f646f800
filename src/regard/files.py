"""Writing files so that a reader never meets half of one."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from regard.errors import FileError

__all__ = ["check_writable", "make_folder", "sync_folder", "write_atomically"]


def write_atomically(path: str | os.PathLike, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a temporary file beside ``path``, flush it to the disk, and rename it into place.

    What is not a file (a pipe, a terminal, /dev/null) is written to as it is: it cannot be replaced.
    """
    path = Path(path)
    check_writable(path)
    if path.exists() and not path.is_file():
        with _full_disks_explained(path):
            write(path)
        return
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    except OSError as error:
        raise FileError(f"path: cannot write in {path.parent}: {error.strerror}") from error
    os.close(handle)
    temporary = Path(name)
    try:
        with _full_disks_explained(path):
            write(temporary)
            with open(temporary, "rb+") as written:
                os.fsync(written.fileno())
        temporary.chmod(0o666 & ~_umask())
        os.replace(temporary, path)
        sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def _full_disks_explained(path: Path) -> Iterator[None]:
    """What the system says about space, in our words; other errors are those of the work that fills the file."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
            raise
        told = f"cannot write {path}: {error.strerror}"
        raise FileError(f"path: {told}: make room, or write elsewhere; nothing was replaced") from error


def check_writable(path: str | os.PathLike) -> None:
    """See that a file could be written here, before the work that fills it."""
    path = Path(path)
    if not path.parent.is_dir():
        raise FileError(f"path: the folder of {path} does not exist: make it first")
    if path.is_dir():
        raise FileError(f"path: {path} is a folder: give the name of a file")
    if not os.access(path if path.exists() and not path.is_file() else path.parent, os.W_OK):
        raise FileError(f"path: cannot write in {path.parent}: no right to")


def make_folder(path: str | os.PathLike) -> None:
    """Make a folder and those above it, where they are missing."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot make the folder {path}: {error.strerror}") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def sync_folder(folder: Path) -> None:
    """Make the rename itself survive a crash, where the system has such a thing."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
