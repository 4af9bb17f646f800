"""Atomic writing of files, reading of JSON files, and finding of files in folders by class."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from regard.errors import FileError

# Windows has no fcntl.
try:
    import fcntl
except ImportError:
    fcntl = None

# The number of seconds to wait for the lock of a folder.
PATIENCE = 1.0

__all__ = [
    "check_writable",
    "class_folders",
    "files_below",
    "in_natural_order",
    "is_named",
    "make_folder",
    "read_json",
    "remove_leftovers",
    "split_folder",
    "sync_folder",
    "temporary_beside",
    "write_atomically",
]


def write_atomically(path: str | os.PathLike, write: Callable[[Path], object]) -> None:
    """Call ``write`` with the path of a temporary file beside ``path``, and rename that file to ``path``.

    The file is flushed to the disk before. If ``write`` raises, an existing file is unchanged. If ``path`` is a
    symbolic link, its target is replaced and the link is kept. The new file has the mode of the old one. Devices, pipes
    and files that this process has open (``/dev/stdout``) cannot be replaced, so they are written to directly. Raises
    FileError if ``path`` cannot be written or the disk is full.
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
        _copy_permissions(temporary, target)
        os.replace(temporary, target)
    sync_folder(target.parent)


@contextlib.contextmanager
def temporary_beside(target: Path, *, folder: bool = False) -> Iterator[Path]:
    """Return a context manager that makes a temporary file or folder beside ``target``, and gives its path.

    It is removed at the end unless it was renamed. It is locked meanwhile. Temporary files of ``target`` without a lock
    were left by killed processes, and are removed at the start.
    """
    make = tempfile.mkdtemp if folder else tempfile.mkstemp
    with _swept(target):
        try:
            made = make(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
        except OSError as error:
            raise FileError(f"cannot write in {target.parent}: {error.strerror}", argument="path") from error
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
    """Return a context manager that raises the errors of a full or failing disk as FileError.

    Other errors are not changed.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
            raise
        problem = (
            f"cannot write {path}: {error.strerror}: make room, or write elsewhere; nothing was replaced"
        )
        raise FileError(problem, argument="path") from error


def check_writable(path: str | os.PathLike) -> None:
    """Raise FileError if ``path`` cannot be written, because it is a folder, has no folder or no permission.

    Nothing is written. It is called before the work of computing the content.
    """
    if not isinstance(path, str | os.PathLike):
        raise FileError(f"expected the name of a file, got {type(path).__name__}", argument="path")
    name, path = os.fspath(path), Path(path)
    if not name:
        raise FileError("expected the name of a file, got an empty one", argument="path")
    if path.is_dir():
        raise FileError(f"{path} is a folder: give the name of a file", argument="path")
    if _is_stream(path):
        if not path.exists():
            raise FileError(f"{path} is not open", argument="path")
        if not os.access(path, os.W_OK):
            raise FileError(f"cannot write to {path}: no permission", argument="path")
        return
    target = _resolved(path)
    if not target.parent.is_dir():
        leads = f", which {path} leads to," if path.is_symlink() else ""
        raise FileError(
            f"the folder of {target if leads else path}{leads} does not exist: make it first", argument="path"
        )
    if not os.access(target.parent, os.W_OK):
        raise FileError(f"cannot write in {target.parent}: no permission", argument="path")


def read_json(path: str | os.PathLike, hint: str = "", *, argument: str | None = None) -> dict[str, Any]:
    """Read a JSON object from a file, or raise FileError that names the file.

    ``hint`` is added to the message if the file does not exist, such as "is this the folder of a model?". ``argument``
    is the name of the caller's argument that the error is about.
    """

    def failure(problem: str) -> FileError:
        return FileError(f"{path}: {problem}", argument=argument)

    try:
        value = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise failure("no such file" + (f": {hint}" if hint else "")) from error
    except OSError as error:
        raise failure(f"cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise failure(f"not JSON, or cut short ({error})") from error
    if not isinstance(value, dict):
        raise failure(f"expected a JSON object, got {type(value).__name__}")
    return value


def make_folder(path: str | os.PathLike) -> None:
    """Make a folder and its missing parents, if it does not exist, or raise FileError."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot make the folder {path}: {error.strerror}") from error


def sync_folder(folder: Path) -> None:
    """Flush the entries of a folder to the disk, so that a rename survives a crash.

    It does nothing on systems without ``O_DIRECTORY``.
    """
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# -- links, devices and permissions -----------------------------------------------------------------------------------


def _resolved(path: Path) -> Path:
    """Return the target of a symbolic link, which need not exist, or the path itself."""
    if not path.is_symlink():
        return path
    try:
        os.stat(path)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise FileError(f"{path} is a symbolic link to itself", argument="path") from None
    return Path(os.path.realpath(path))


def _is_stream(path: Path) -> bool:
    """Return whether a path is a device, a pipe, or a file that this process has open."""
    return _descriptor(path) is not None or (path.exists() and not path.is_file() and not path.is_dir())


def _descriptor(path: Path) -> int | None:
    """Return the file descriptor that a path such as ``/dev/stdout`` or ``/proc/self/fd/3`` names, or None."""
    # Linux follows at most 40 links.
    for _ in range(40):
        if path.name.isdigit() and os.path.realpath(path.parent) in (f"/proc/{os.getpid()}/fd", "/dev/fd"):
            return int(path.name)
        if not path.is_symlink():
            return None
        path = path.parent / os.readlink(path)
    return None


def _write_stream(path: Path, write: Callable[[Path], object]) -> None:
    """Write to a device or a pipe, or at the current position of an open file.

    ``write`` gets the path of the device or pipe, or of a temporary file that is then copied into the open file.
    """
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


def _copy_permissions(temporary: Path, target: Path) -> None:
    """Give the temporary file the mode and the owner of ``target``, or the usual mode of a new file if that is new."""
    try:
        before = os.stat(target)
    except FileNotFoundError:
        temporary.chmod(0o666 & ~_umask())
        return
    now = os.stat(temporary)
    if hasattr(os, "chown") and (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        # Only root may change the owner.
        with contextlib.suppress(PermissionError):
            os.chown(temporary, before.st_uid, before.st_gid)
    temporary.chmod(stat.S_IMODE(before.st_mode))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


# -- files by class ----------------------------------------------------------------------------------------------

# The names of the folders of the parts of a data set.
_PARTS = {
    "train": ("train", "training"),
    "test": ("test", "testing"),
    "validation": ("valid", "validation", "val"),
}


def files_below(folder: Path, suffixes: tuple[str, ...], noun: str, *, argument: str) -> list[Path]:
    """Return the files in a folder and the folders below it, by name, or raise FileError if there are none.

    The names of the files end in one of the ``suffixes``. Hidden files are left out. ``noun`` names the files in the
    error, such as "pictures", and ``argument`` is the name of the caller's argument that it is about.
    """
    if not folder.is_dir():
        raise FileError(f"no folder {folder}", argument=argument)
    found = [
        path for path in folder.rglob("*") if is_named(path.relative_to(folder), suffixes) and path.is_file()
    ]
    if not found:
        known = ", ".join(filter(None, suffixes))
        raise FileError(f"{folder} has no {noun}: expected files in {known}", argument=argument)
    return sorted(found, key=lambda path: in_natural_order(path.relative_to(folder).as_posix()))


def class_folders(
    folder: Path, suffixes: tuple[str, ...], noun: str, *, argument: str
) -> dict[str, list[Path]]:
    """Return the files in each folder of a folder, by the name of that folder, which is a class.

    The arguments are those of :func:`files_below`. Raises FileError if there are fewer than two such folders, or one
    without files.
    """
    inside = (path for path in folder.iterdir() if not path.name.startswith("."))
    names = sorted((path.name for path in inside if path.is_dir()), key=in_natural_order)
    if len(names) < 2:
        number = "no folder" if not names else f"one folder, {names[0]}"
        problem = f"{folder} has {number}: expected one for each class, two or more"
        raise FileError(problem, argument=argument)
    files: dict[str, list[Path]] = {}
    for name in names:
        try:
            files[name] = files_below(folder / name, suffixes, noun, argument=argument)
        except FileError as error:
            told = f"the class {name!r} is empty: {error.in_words()}"
            raise FileError(told, argument=argument) from None
    return files


def split_folder(folder: Path, split: str, suffixes: tuple[str, ...]) -> Path:
    """Return the folder of a part of a data set, such as "train" or "test", or the folder itself if it has no parts.

    ``suffixes`` are the ends of the names of the files in class folders.
    """
    inside = {path.name: path for path in folder.iterdir() if path.is_dir()}
    parts = [inside[name] for part in ("train", "test") for name in _PARTS[part] if name in inside]
    others = [
        name for name in inside if name[0] != "." and not any(name in names for names in _PARTS.values())
    ]

    def holds_files(part: Path) -> bool:
        return any(is_named(Path(path.name), suffixes) and path.is_file() for path in part.iterdir())

    # Beside folders of classes, such a folder with files is one of the classes.
    if not parts or (others and any(map(holds_files, parts))):
        return folder
    for name in _PARTS.get(split, (split,)):
        if name in inside:
            return inside[name]
    raise FileError(f"{folder} has no folder {_PARTS.get(split, (split,))[0]}", argument="source")


def in_natural_order(name: str) -> tuple[object, ...]:
    """Return a key that sorts names as people do, with ``img2`` before ``img10``.

    >>> sorted(["b", "a10", "a2", "10", "9"], key=in_natural_order)
    ['9', '10', 'a2', 'a10', 'b']
    """
    parts = re.split(r"(\d+)", name)
    # Parts with odd numbers are digits. Each key is a tuple, so that numbers are never compared with texts.
    return tuple((0, int(part), part) if place % 2 else (1, 0, part) for place, part in enumerate(parts))


def is_named(path: Path, suffixes: tuple[str, ...]) -> bool:
    """Return whether a file has one of the suffixes, where "" is that of a name without a dot, and is not hidden."""
    if any(part.startswith(".") for part in path.parts):
        return False
    name = path.name.lower()
    return name.endswith(tuple(filter(None, suffixes))) or ("" in suffixes and "." not in name)


# -- locks of temporary files ------------------------------------------------------------------------------------


def _is_in_use(path: Path) -> bool:
    """Return whether a running process holds the lock of a file or folder.

    The answer is True if the lock cannot be tested.
    """
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
    """Open a file or folder, take its lock and return its descriptor, or None if the lock could not be taken.

    Another process may hold the lock, such as the shell's ``flock FOLDER COMMAND`` around this process. Its end is
    waited for, up to ``PATIENCE`` seconds. Some systems have no locks. The system releases the lock when the process
    ends.
    """
    if fcntl is None:
        return None
    try:
        handle = os.open(path, os.O_RDONLY)
    # The folder may be writable but not readable.
    except OSError:
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
    """Return a context manager that first removes the temporary files of a target that killed processes left behind.

    Inside it no other process removes any, so that a new temporary file is safe until it is locked. Nothing is removed
    if the folder cannot be locked.
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
    """Remove the temporary files of ``target`` that killed processes left behind."""
    with _swept(target):
        pass


def _sweep(target: Path) -> None:
    prefix = f".{target.name}."
    try:
        paths = [Path(entry.path) for entry in os.scandir(target.parent) if _is_temporary(entry.name, prefix)]
    # The folder may be writable but not readable.
    except OSError:
        return
    for path in paths:
        if not _is_in_use(path):
            _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(PermissionError):
            path.unlink(missing_ok=True)


def _is_temporary(name: str, prefix: str) -> bool:
    """Return whether a name is the prefix, eight random characters and ``.part``, as made by `temporary_beside`."""
    return name.startswith(prefix) and name.endswith(".part") and len(name) == len(prefix) + 8 + len(".part")
