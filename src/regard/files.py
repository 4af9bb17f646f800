"""Writing files so that a reader never meets half of one."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from regard.errors import FileError

try:
    import fcntl
except ImportError:  # a system without locks, such as Windows
    fcntl = None

PATIENCE = 1.0  # seconds to wait for the lock of a folder

__all__ = [
    "check_writable",
    "make_folder",
    "remove_leftovers",
    "sync_folder",
    "temporary_beside",
    "write_atomically",
]


def write_atomically(path: str | os.PathLike, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a temporary file beside ``path``, flush it to the disk, and rename it into place.

    A link stays a link: the file that it leads to is replaced. The new file has the mode of the one before. Devices,
    pipes and what this process has open (``/dev/stdout``) cannot be replaced and are written to as they are.
    """
    check_writable(path)
    path = Path(path)
    if _is_stream(path):
        with _full_disks_explained(path):
            _write_stream(path, write)
        return
    target = _resolved(path)
    with temporary_beside(target) as temporary:
        with _full_disks_explained(path):
            write(temporary)
            with open(temporary, "rb+") as written:
                os.fsync(written.fileno())
        _take_rights(temporary, target)
        os.replace(temporary, target)
    sync_folder(target.parent)


@contextlib.contextmanager
def temporary_beside(target: Path, *, folder: bool = False) -> Iterator[Path]:
    """A new file, or folder, beside ``target`` that is gone afterwards unless it was renamed.

    It is locked as long as this block runs. What a killed process has left is known by having no lock, and is removed.
    """
    make = tempfile.mkdtemp if folder else tempfile.mkstemp
    with _swept(target):
        try:
            made = make(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
        except OSError as error:
            raise FileError(f"path: cannot write in {target.parent}: {error.strerror}") from error
        temporary = Path(made if isinstance(made, str) else made[1])
        if not isinstance(made, str):
            os.close(made[0])
        handle = _locked(temporary)
    try:
        yield temporary
    finally:
        _remove(temporary)
        if handle is not None:
            os.close(handle)


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
    name, path = os.fspath(path), Path(path)
    if not name:
        raise FileError("path: expected the name of a file, got an empty one")
    if path.is_dir():
        raise FileError(f"path: {path} is a folder: give the name of a file")
    if _is_stream(path):
        if not path.exists():
            raise FileError(f"path: {path} is not open")
        if not os.access(path, os.W_OK):
            raise FileError(f"path: cannot write to {path}: no right to")
        return
    target = _resolved(path)
    if not target.parent.is_dir():
        leads = f", which {path} leads to," if path.is_symlink() else ""
        raise FileError(
            f"path: the folder of {target if leads else path}{leads} does not exist: make it first"
        )
    if not os.access(target.parent, os.W_OK):
        raise FileError(f"path: cannot write in {target.parent}: no right to")


def make_folder(path: str | os.PathLike) -> None:
    """Make a folder and those above it, where they are missing."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot make the folder {path}: {error.strerror}") from error


def sync_folder(folder: Path) -> None:
    """Make the rename itself survive a crash, where the system has such a thing."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# -- links, devices and rights -----------------------------------------------------------------------------------


def _resolved(path: Path) -> Path:
    """Follow links to the file that a path leads to, which need not exist."""
    if not path.is_symlink():
        return path
    try:
        os.stat(path)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise FileError(f"path: {path} is a link that leads to itself") from None
    return Path(os.path.realpath(path))


def _is_stream(path: Path) -> bool:
    """Whether a path is a device, a pipe, or a file that this process has open."""
    return _descriptor(path) is not None or (path.exists() and not path.is_file() and not path.is_dir())


def _descriptor(path: Path) -> int | None:
    """The number of the open file that a path such as ``/dev/stdout`` or ``/proc/self/fd/3`` stands for."""
    for _ in range(40):  # as many links as the system follows
        if path.name.isdigit() and os.path.realpath(path.parent) in (f"/proc/{os.getpid()}/fd", "/dev/fd"):
            return int(path.name)
        if not path.is_symlink():
            return None
        path = path.parent / os.readlink(path)
    return None


def _write_stream(path: Path, write: Callable[[Path], object]) -> None:
    """Write to a device, a pipe, or at the current position of a file that is open."""
    number = _descriptor(path)
    if number is None or stat.S_ISFIFO(os.fstat(number).st_mode) or stat.S_ISCHR(os.fstat(number).st_mode):
        write(path)
        return
    with tempfile.TemporaryDirectory(prefix="regard-") as folder:
        filled = Path(folder, "part")
        write(filled)
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        with open(filled, "rb") as source, open(number, "wb", closefd=False) as sink:
            shutil.copyfileobj(source, sink)


def _take_rights(temporary: Path, target: Path) -> None:
    """Give the new file the mode and the owner of the one that it replaces, if there is one."""
    try:
        before = os.stat(target)
    except FileNotFoundError:
        temporary.chmod(0o666 & ~_umask())
        return
    now = os.stat(temporary)
    if hasattr(os, "chown") and (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        with contextlib.suppress(PermissionError):  # only root may give files away
            os.chown(temporary, before.st_uid, before.st_gid)
    temporary.chmod(stat.S_IMODE(before.st_mode))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


# -- locks of temporary files ------------------------------------------------------------------------------------


def _is_in_use(path: Path) -> bool:
    """Whether a living process holds the lock of a file or folder, or might hold it."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # pyright: ignore[reportOptionalMemberAccess]
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def _locked(path: Path) -> int | None:
    """Open a file or folder and take its lock, which the system gives back when the process ends, however it ends.

    None where there is no lock to have: a system or disk without locks, or another process that does not give it back
    soon, such as the shell's ``flock FOLDER COMMAND`` while this is the command.
    """
    if fcntl is None:
        return None
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:  # a folder that may be written in, but not read
        return None
    until = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return handle
        except OSError as error:
            if not isinstance(error, BlockingIOError) or time.monotonic() > until:
                os.close(handle)
                return None
        time.sleep(0.005)


@contextlib.contextmanager
def _swept(target: Path) -> Iterator[None]:
    """Remove what killed processes have left of writing a target.

    Within the block no other process does so: a temporary file is made before it is locked.
    """
    handle = _locked(target.parent)
    try:
        if handle is not None:
            _sweep(target)
        yield
    finally:
        if handle is not None:
            os.close(handle)


def remove_leftovers(target: Path) -> None:
    """Remove what killed processes have left of writing ``target``."""
    with _swept(target):
        pass


def _sweep(target: Path) -> None:
    prefix = f".{target.name}."
    try:
        left = [Path(one.path) for one in os.scandir(target.parent) if _is_temporary(one.name, prefix)]
    except OSError:  # a folder that may be written in, but not read
        return
    for path in left:
        if not _is_in_use(path):
            _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(PermissionError):
            path.unlink(missing_ok=True)


def _is_temporary(name: str, prefix: str) -> bool:
    """Whether a name is a prefix, eight random characters and the ending, as ``temporary_beside`` makes them."""
    return name.startswith(prefix) and name.endswith(".part") and len(name) == len(prefix) + 8 + len(".part")
