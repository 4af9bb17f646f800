"""A lock on the folder of a run.

Two trainings at once would mix their metrics and their best models.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.errors import FileError

# Windows has no fcntl.
try:
    import fcntl
except ImportError:
    fcntl = None

__all__ = ["LOCK", "lock_run"]

LOCK = ".lock"
# The locks of this process by lock file, as the thread that took the lock and the file descriptor.
_held: dict[Path, tuple[int, int]] = {}


def _forget_in_child() -> None:
    """Close the locks of the parent in a forked process, which would otherwise keep them after the parent ends."""
    for _, handle in _held.values():
        os.close(handle)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)


@contextlib.contextmanager
def lock_run(folder: Path, *, make: bool = True) -> Iterator[None]:
    """Return a context manager that holds the lock of a run's folder, or raises FileError if the lock is held.

    The error names the process that holds the lock. The system releases the lock when the process ends, however it
    ends. A forked process does not keep it. The thread that holds the lock may enter such a block again. With ``make``
    a missing folder is made, and removed if it is empty at the end. Without ``make`` a missing folder is not locked.
    Nothing is locked on Windows, nor on a disk without locks.
    """
    place, thread = folder.resolve() / LOCK, threading.get_ident()
    if fcntl is None or _holder_of(place) == thread or not (make or folder.is_dir()):
        yield
        return
    missing = [path for path in (place.parent, *place.parent.parents) if not os.path.exists(path)]
    handle = _taken(place, folder)
    _held[place] = (thread, handle)
    try:
        yield
    finally:
        # A forked process has forgotten the lock.
        if _held.pop(place, None) is not None:
            # The file is removed while it is locked, so that no process removes the lock of another.
            with contextlib.suppress(OSError):
                place.unlink()
            os.close(handle)
            with contextlib.suppress(OSError):
                for made in missing:
                    made.rmdir()  # fails unless it is empty


def _holder_of(place: Path) -> int | None:
    return _held[place][0] if place in _held else None


def _taken(place: Path, folder: Path) -> int:
    """Open and lock the file ``place``, write this process into it, and return its file descriptor.

    Raises FileError, which names ``folder``, if another process holds the lock.
    """
    while True:
        handle = _open(place)
        try:
            _take(handle, folder)
            if _is_still_there(handle, place):
                _sign(handle)
                return handle
        except BaseException:
            os.close(handle)
            raise
        # The process that held the lock removed the file after it was opened here.
        os.close(handle)


def _open(place: Path) -> int:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        # The folder may come from elsewhere, so a symbolic link or a pipe of that name is not written to.
        if os.path.lexists(place) and not stat.S_ISREG(os.lstat(place).st_mode):
            raise FileError(f"{place}: expected a plain file, the lock of a training run: remove it")
        return os.open(place, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"cannot write in {place.parent}: {error.strerror}") from error


def _take(handle: int, folder: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # pyright: ignore[reportOptionalMemberAccess]
    except BlockingIOError:
        raise FileError(
            f"another training is writing in {folder}, {_holder(handle)}: "
            "wait until it has ended, stop it, or choose another folder"
        ) from None
    # A network disk may have no locks.
    except OSError:
        pass


def _is_still_there(handle: int, place: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(place))
    except FileNotFoundError:
        return False


def _sign(handle: int) -> None:
    """Write the id of this process, the machine and the time into the file of a lock."""
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    text = json.dumps({"process": os.getpid(), "machine": socket.gethostname(), "since": since})
    os.ftruncate(handle, 0)
    os.pwrite(handle, (text + "\n").encode(), 0)


def _holder(handle: int) -> str:
    """Return a description of the process that holds a lock, read from its file, for an error message."""
    try:
        values: dict[str, Any] = json.loads(os.pread(handle, 4096, 0))
        return f"process {values['process']} on {values['machine']} since {values['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "which has just begun"
