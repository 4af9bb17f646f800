"""Paths and contents of a run's data, so that a run can go on from any folder and with data that was moved."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from regard.errors import FileError, RegardError, option
from regard.tasks.minilm import MINILM
from regard.tasks.registry import installed_models
from regard.tasks.settings import TaskSettings

__all__ = [
    "absolute",
    "check_contents",
    "content_hash",
    "contents_of",
    "found_again",
    "known_by",
    "local_path",
]

_Settings = TypeVar("_Settings", bound=TaskSettings)
# Added to the name of a setting, the key of the hash of all pictures that its table names.
_PICTURES = " pictures"


def local_path(value: str | None) -> Path | None:
    """Return the file or folder that a setting names, or None for standard input and names of data sets and models."""
    if value is None or value == "-":
        return None
    if not value.startswith("hf:"):
        path = Path(value)
        return None if not path.exists() and _is_model(value) else path
    path = Path(value[3:]).expanduser()
    return path if path.exists() else None


def _is_model(name: str) -> bool:
    """Return whether a name is that of a model rather than of a file."""
    return name == MINILM or any(one.name == name for one in installed_models())


def absolute(settings: _Settings) -> _Settings:
    """Return the settings with paths that do not depend on the current folder."""
    return replace(settings, **{name: _absolute(getattr(settings, name)) for name in settings.locations})


def _absolute(value: str | None) -> str | None:
    path = local_path(value)
    if value is None or path is None:
        return value
    return f"{'hf:' if value.startswith('hf:') else ''}{os.path.abspath(path)}"


def found_again(value: str | None, folder: Path) -> str | None:
    """Return the path of a data file, or of the file with its name in the folder of the run if the path is gone.

    A run keeps a copy of standard input in its folder. A run that was moved finds it there.
    """
    if value is None or value.startswith("hf:") or Path(value).exists():
        return value
    beside = folder / Path(value).name
    return str(beside) if beside.exists() else value


def contents_of(settings: TaskSettings) -> dict[str, str]:
    """Return a hash of the contents of each file or folder that the settings name, and of the pictures in tables."""
    paths = {name: local_path(getattr(settings, name)) for name in settings.locations}
    there = {name: path for name, path in paths.items() if path and (path.is_file() or path.is_dir())}
    contents = {name: content_hash(path) for name, path in there.items()}
    for name in there:
        pictures = _pictures_of(settings, name)
        if pictures:
            contents[f"{name}{_PICTURES}"] = _hash_of_all(pictures)
    return contents


def _pictures_of(settings: TaskSettings, name: str) -> list[Path]:
    try:
        return settings.pictures_of(name)
    except (RegardError, OSError):  # the same error is raised when the data is read
        return []


def _hash_of_all(paths: Iterable[Path]) -> str:
    """Return a hash of the contents of files in their order, in which a file that cannot be read counts as empty."""
    hashes = []
    for path in paths:
        try:
            hashes.append(_file_hash(path))
        except OSError:
            hashes.append("")
    return hashlib.sha256("\n".join(hashes).encode()).hexdigest()


def check_contents(settings: TaskSettings, contents: Mapping[str, str]) -> None:
    """Raise FileError if files are missing, or have other contents than when the run was started."""
    now = contents_of(settings)
    for name in settings.locations:
        value = getattr(settings, name)
        if value is None or value == "-":
            continue
        if name not in contents and (local_path(value) is None or value.startswith("hf:")):
            continue
        if name not in now:
            problem = f"no file {value}, which the run was started with"
            raise FileError(f"{problem}: say where it is, with {option(name)}", argument=name)
        for key in (name, f"{name}{_PICTURES}"):
            if key in contents and now.get(key) != contents[key]:
                raise _changed(name, value, pictures=key != name)


def _changed(name: str, value: str, *, pictures: bool) -> FileError:
    """Return the error for data, or pictures that it names, with other contents than when the run was started."""
    what = "validation data" if "valid" in name else "training data"
    what = "model to start from" if name == "start" else what
    part = "a picture of " if pictures else ""
    return FileError(
        f"{value}: {part}the {what} is not what the run was started with, so it cannot go on as if uninterrupted: "
        f"bring it back, say where it is with {option(name)}, or start a run in another folder",
        argument=name,
    )


def known_by(name: str) -> str:
    """Return the name of a data set, or a hash of its contents if it is on this machine."""
    path = local_path(name)
    return name if path is None else f"hf:{content_hash(path)}"


def content_hash(path: Path) -> str:
    """Return the SHA-256 of a file, or of the names and contents of all files in a folder."""
    try:
        if path.is_file():
            return _file_hash(path)
        names = sorted(one.relative_to(path).as_posix() for one in path.rglob("*") if one.is_file())
        parts = [f"{name} {_file_hash(path / name)}" for name in names]
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}", argument="data") from error
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _file_hash(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
