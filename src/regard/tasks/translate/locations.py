"""Paths and contents of a run's data, so that a run can go on from any folder and with data that was moved."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from regard.errors import FileError
from regard.tasks.translate.settings import TranslationSettings

__all__ = [
    "LOCATIONS",
    "absolute",
    "check_contents",
    "content_hash",
    "contents_of",
    "found_again",
    "local_path",
]

# Settings that say where data is. What it holds defines a run; where it stands does not.
LOCATIONS = ("data", "target_data", "valid", "target_valid", "exclude")


def local_path(value: str | None) -> Path | None:
    """The file or folder that a setting names, or None for standard input and for data sets that are not local."""
    if value is None or value == "-":
        return None
    if not value.startswith("hf:"):
        return Path(value)
    path = Path(value[3:]).expanduser()
    return path if path.exists() else None


def absolute(settings: TranslationSettings) -> TranslationSettings:
    """The settings with paths that do not depend on the current folder."""
    return replace(settings, **{name: _absolute(getattr(settings, name)) for name in LOCATIONS})


def _absolute(value: str | None) -> str | None:
    path = local_path(value)
    if value is None or path is None:
        return value
    return f"{'hf:' if value.startswith('hf:') else ''}{os.path.abspath(path)}"


def found_again(value: str | None, folder: Path) -> str | None:
    """The path of a data file, replaced by a file of its name in the folder of the run where nothing is there any more.

    A copy of standard input is kept in the folder of the run. A run that was moved finds it there.
    """
    if value is None or value.startswith("hf:") or Path(value).exists():
        return value
    beside = folder / Path(value).name
    return str(beside) if beside.exists() else value


def contents_of(settings: TranslationSettings) -> dict[str, str]:
    """A hash of what each file or folder of the settings holds."""
    paths = {name: local_path(getattr(settings, name)) for name in LOCATIONS}
    there = {name: path for name, path in paths.items() if path and (path.is_file() or path.is_dir())}
    return {name: content_hash(path) for name, path in there.items()}


def check_contents(settings: TranslationSettings, contents: Mapping[str, str]) -> None:
    """Refuse to go on with files that are missing, or that hold something else than when the run was started."""
    now = contents_of(settings)
    for name in LOCATIONS:
        value, flag = getattr(settings, name), name.replace("_", "-")
        if value is None or value == "-" or (value.startswith("hf:") and name not in contents):
            continue
        if name not in now:
            raise FileError(
                f"{name}: no file {value}, which the run was started with: say where it is, with --{flag}"
            )
        if name in contents and now[name] != contents[name]:
            what = "validation" if "valid" in name else "training"
            raise FileError(
                f"{name}: {value}: the {what} data is not what the run was started with, so it cannot go on as if "
                f"uninterrupted: bring the data back, say where it is with --{flag}, or start a run in another folder"
            )


def content_hash(path: Path) -> str:
    """The SHA-256 of a file, or of the names and contents of all files in a folder."""
    try:
        if path.is_file():
            return _file_hash(path)
        names = sorted(one.relative_to(path).as_posix() for one in path.rglob("*") if one.is_file())
        parts = [f"{name} {_file_hash(path / name)}" for name in names]
    except OSError as error:
        raise FileError(f"data: cannot read {path}: {error.strerror}") from error
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _file_hash(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
