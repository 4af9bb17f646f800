"""Checkpoints: a folder that is there in full or not at all.

``step-00001200/`` holds the tensors (``*.safetensors``), the numbers (``state.json``) and ``manifest.json`` with the
SHA-256 of each file. It is written under another name, flushed to the disk and renamed; whatever happens in between,
the checkpoint before it is untouched.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from regard.errors import FileError
from regard.files import sync_folder

__all__ = ["Checkpoint", "latest_checkpoint", "load_checkpoint", "save_checkpoint"]

MANIFEST = "manifest.json"
STATE = "state.json"
FORMAT = 1
_NAME = re.compile(r"step-(\d{8,})")


@dataclass
class Checkpoint:
    """Everything that training needs to go on: numbers, and tables of tensors by name."""

    state: dict[str, Any]
    tensors: dict[str, dict[str, Tensor]] = field(default_factory=dict)


def save_checkpoint(folder: Path, step: int, checkpoint: Checkpoint, *, keep: int) -> Path:
    """Write a checkpoint into ``folder``, then remove all but the newest ``keep``."""
    folder.mkdir(parents=True, exist_ok=True)
    _sweep(folder)
    target = folder / f"step-{step:08d}"
    part = folder / f".{target.name}.{os.getpid()}.part"
    try:
        part.mkdir()
        _write(part, checkpoint)
        if target.exists():  # the same step again, after a resume: the new one takes its place
            old = folder / f".{target.name}.{os.getpid()}.old.part"
            os.rename(target, old)
        os.rename(part, target)
        sync_folder(folder)
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        held = latest_checkpoint(folder)
        kept = f"the checkpoint before it, {held}, is whole" if held else "there is no earlier checkpoint"
        raise FileError(f"cannot write the checkpoint {target}: {error.strerror or error}: {kept}") from error
    except SafetensorError as error:  # how safetensors reports a full disk
        shutil.rmtree(part, ignore_errors=True)
        held = latest_checkpoint(folder)
        kept = f"the checkpoint before it, {held}, is whole" if held else "there is no earlier checkpoint"
        raise FileError(f"cannot write the checkpoint {target}: {error}: {kept}") from error
    _sweep(folder)
    for old in _checkpoints(folder)[:-keep]:
        _remove(old)
    return target


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint and compare each file with the manifest."""
    manifest = _read_json(path / MANIFEST)
    if manifest.get("format") != FORMAT or not isinstance(manifest.get("files"), dict):
        raise FileError(f"{path / MANIFEST}: not the manifest of a checkpoint of Regard")
    for name, expected in manifest["files"].items():
        if not (path / name).is_file():
            raise FileError(f"{path}: {name} is missing")
        if _hash(path / name) != expected:
            raise FileError(f"{path / name}: altered or cut short: its SHA-256 is not the one in {MANIFEST}")
    tensors = {
        name.removesuffix(".safetensors"): load_file(path / name)
        for name in manifest["files"]
        if name.endswith(".safetensors")
    }
    return Checkpoint(_read_json(path / STATE), tensors)


def latest_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint of a run, if there is one."""
    found = _checkpoints(folder)
    return found[-1] if found else None


def _checkpoints(folder: Path) -> list[Path]:
    """Oldest first. What is in the making, or being removed, has another kind of name."""
    if not folder.is_dir():
        return []
    found = [path for path in folder.iterdir() if _NAME.fullmatch(path.name)]
    return sorted(found, key=lambda path: int(path.name.removeprefix("step-")))


def _write(folder: Path, checkpoint: Checkpoint) -> None:
    files = {}
    for name, tensors in checkpoint.tensors.items():
        save_file(
            {key: value.detach().contiguous() for key, value in tensors.items()},
            folder / f"{name}.safetensors",
        )
        files[f"{name}.safetensors"] = _flush(folder / f"{name}.safetensors")
    _write_json(folder / STATE, checkpoint.state)
    files[STATE] = _flush(folder / STATE)
    _write_json(folder / MANIFEST, {"format": FORMAT, "files": files})
    _flush(folder / MANIFEST)
    sync_folder(folder)


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1, allow_nan=True) + "\n", encoding="utf-8")


def _flush(path: Path) -> str:
    """Make sure that the file is on the disk; give its SHA-256."""
    with open(path, "rb+") as file:
        os.fsync(file.fileno())
    return _hash(path)


def _hash(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileError(f"{path}: no such file: is {path.parent} a checkpoint?") from None
    except ValueError as error:
        raise FileError(f"{path}: not JSON, or cut short ({error})") from None


def _sweep(folder: Path) -> None:
    """Remove what an earlier process, killed while writing or removing, has left."""
    for part in folder.glob(".step-*.part"):
        shutil.rmtree(part, ignore_errors=True)


def _remove(path: Path) -> None:
    """Under another name first: a checkpoint that is half removed must not look like one."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    os.rename(path, part)
    shutil.rmtree(part, ignore_errors=True)
