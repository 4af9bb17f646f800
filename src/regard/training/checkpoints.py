"""Checkpoints, each a folder that is either complete or absent.

``step-00001200/`` holds the tensors (``*.safetensors``), the numbers (``state.json``) and ``manifest.json`` with the
SHA-256 of each file. It is written under another name, flushed to the disk and renamed. If that fails at any point,
the earlier checkpoints are unchanged.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from regard.errors import FileError
from regard.files import read_json, sync_folder

__all__ = [
    "Checkpoint",
    "Found",
    "latest_checkpoint",
    "load_checkpoint",
    "newest_whole",
    "recover_folder",
    "save_checkpoint",
    "set_aside",
    "write_folder",
]

MANIFEST = "manifest.json"
STATE = "state.json"
FORMAT = 1
_NAME = re.compile(r"step-(\d{8,})")


@dataclass
class Checkpoint:
    """The state of a training run.

    ``state`` holds JSON values. ``tensors`` holds groups of tensors by name, such as ``model`` and ``optimizer``.
    """

    state: dict[str, Any]
    tensors: dict[str, dict[str, Tensor]] = field(default_factory=dict)


@dataclass
class Found:
    """The newest complete checkpoint with its folder, and the problem of each newer one that is damaged."""

    path: Path
    checkpoint: Checkpoint
    damaged: dict[Path, str] = field(default_factory=dict)


def save_checkpoint(folder: Path, step: int, checkpoint: Checkpoint, *, keep: int) -> Path:
    """Write a checkpoint into ``folder``, remove all but the newest ``keep``, and return the path of the new one.

    Its name is ``step-`` and the number of the step. The leftovers of a process that was killed are cleaned up first.
    If the checkpoint cannot be written, FileError is raised and no checkpoint is removed.
    """
    target = folder / f"step-{step:08d}"
    try:
        _sweep(folder)
        write_folder(target, lambda part: _write(part, checkpoint))
    except FileError as error:
        held = latest_checkpoint(folder)
        kept = f"the checkpoint before it, {held}, is complete" if held else "there is no earlier checkpoint"
        raise FileError(f"{error}: {kept}") from error
    for old in _checkpoints(folder)[:-keep]:
        _remove(old)
    return target


def load_checkpoint(path: Path) -> Checkpoint:
    """Read the checkpoint in a folder, or raise FileError if a file is missing or differs from the manifest."""
    files = _manifest(path)
    try:
        for name, expected in files.items():
            if not (path / name).is_file():
                raise FileError(f"{path}: {name} is missing")
            if _hash(path / name) != expected:
                raise FileError(
                    f"{path / name}: altered or cut short: its SHA-256 is not the one in {MANIFEST}"
                )
        tensors = {
            name.removesuffix(".safetensors"): load_file(path / name)
            for name in files
            if name.endswith(".safetensors")
        }
    except (OSError, SafetensorError) as error:
        raise error if isinstance(error, FileError) else FileError(f"{path}: {_reason(error)}") from error
    return Checkpoint(_read_part(path / STATE), tensors)


def latest_checkpoint(folder: Path) -> Path | None:
    """Return the path of the checkpoint of the highest step in ``folder``, or None if there is none.

    The checkpoint is not read, so it may be damaged.
    """
    found = _checkpoints(folder)
    return found[-1] if found else None


def newest_whole(folder: Path) -> Found | None:
    """Read the newest complete checkpoint of a folder, or return None if the folder has no checkpoint.

    Newer ones that are damaged are listed in the result. Raises FileError if all are damaged.
    """
    damaged: dict[Path, str] = {}
    for path in reversed(_checkpoints(folder)):
        try:
            return Found(path, load_checkpoint(path), damaged)
        except FileError as error:
            damaged[path] = str(error)
    if damaged:
        raise FileError(f"{folder}: no checkpoint is complete: {'; '.join(damaged.values())}")
    return None


def set_aside(path: Path) -> Path:
    """Rename a damaged checkpoint to ``damaged-…``, so that it is no longer read or counted, and return the new path.

    An earlier one of that name is removed.
    """
    other = path.with_name(f"damaged-{path.name}")
    shutil.rmtree(other, ignore_errors=True)
    os.rename(path, other)
    return other


def write_folder(target: Path, write: Callable[[Path], object]) -> None:
    """Make the folder ``target`` with the files that ``write`` puts into the folder it is given.

    That folder is beside ``target``. It is flushed to the disk and renamed into place. An existing folder is replaced.
    Not every system can exchange two folders in one step. Between two renames the old folder is therefore called
    ``.NAME.old``, and :func:`recover_folder` restores it after a crash at that moment. If ``target`` is a symbolic
    link, the folder that it points to is replaced and the link is kept. If anything fails, the old folder stays. Errors
    of the system are raised as FileError.
    """
    target = target.resolve()
    part, old = target.with_name(f".{target.name}.part"), target.with_name(f".{target.name}.old")
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        write(part)
        for file in part.rglob("*"):
            _flush(file)
        sync_folder(part)
        if target.exists():
            shutil.rmtree(old, ignore_errors=True)
            os.rename(target, old)
        os.rename(part, target)
        sync_folder(target.parent)
        shutil.rmtree(old, ignore_errors=True)
    # Safetensors reports a full disk as SafetensorError.
    except (OSError, SafetensorError) as error:
        with contextlib.suppress(OSError):
            recover_folder(target)
        raise FileError(f"cannot write {target}: {_reason(error)}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def recover_folder(target: Path) -> None:
    """Restore the old folder after a :func:`write_folder` that was stopped between its two renames.

    Nothing is changed if ``target`` exists.
    """
    target = target.resolve()
    old = target.with_name(f".{target.name}.old")
    if old.exists() and not target.exists():
        os.rename(old, target)


def _checkpoints(folder: Path) -> list[Path]:
    """Return the paths of all checkpoints in ``folder`` by ascending step, or an empty list if there is no folder.

    Folders that are being written or removed have names that start with a dot. They are left out.
    """
    try:
        found = [path for path in folder.iterdir() if _NAME.fullmatch(path.name)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise FileError(f"cannot read {folder}: {_reason(error)}") from error
    return sorted(found, key=lambda path: int(path.name.removeprefix("step-")))


def _write(folder: Path, checkpoint: Checkpoint) -> None:
    for name, tensors in checkpoint.tensors.items():
        values = {key: value.detach().contiguous() for key, value in tensors.items()}
        save_file(values, folder / f"{name}.safetensors")
    _write_json(folder / STATE, checkpoint.state)
    files = {path.name: _hash(path) for path in sorted(folder.iterdir())}
    _write_json(folder / MANIFEST, {"format": FORMAT, "files": files})


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _flush(path: Path) -> None:
    """Flush a file, or the entries of a folder, to the disk."""
    if path.is_dir():
        sync_folder(path)
        return
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


def _hash(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _manifest(path: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a checkpoint by name, or raise FileError if the manifest is not one."""
    manifest = _read_part(path / MANIFEST)
    files = manifest.get("files")
    if manifest.get("format") != FORMAT or not isinstance(files, dict) or STATE not in files:
        raise FileError(f"{path / MANIFEST}: not the manifest of a checkpoint of Regard")
    return files


def _read_part(path: Path) -> dict[str, Any]:
    return read_json(path, f"is {path.parent} a checkpoint?")


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _sweep(folder: Path) -> None:
    """Clean up after a process that was killed while it wrote or removed a checkpoint.

    A checkpoint that it had moved away is restored, and half-written folders are removed.
    """
    for left in folder.glob(".step-*.old"):
        recover_folder(left.with_name(left.name[1:].removesuffix(".old")))
    for ending in ("part", "old"):
        for left in folder.glob(f".step-*.{ending}"):
            shutil.rmtree(left, ignore_errors=True)


def _remove(path: Path) -> None:
    """Remove a checkpoint, renamed first so that a half-removed one is not read as a checkpoint.

    A checkpoint that cannot be renamed stays, without an error.
    """
    part = path.with_name(f".{path.name}.part")
    try:
        os.rename(path, part)
    # The checkpoint stays, which only costs space.
    except OSError:
        return
    shutil.rmtree(part, ignore_errors=True)
