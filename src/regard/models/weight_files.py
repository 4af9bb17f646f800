"""The file of weights of a model, with a hash in ``config.json`` that shows whether the file was altered."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from regard.errors import FileError
from regard.files import write_atomically

__all__ = ["CONFIG", "WEIGHTS", "check_hash", "check_present", "reading", "write_model"]

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
# The value of config.json that holds the hash. Folders of earlier versions have none.
HASH = "weights_sha256"
# Files of weights that other programs write. Reading a pickle can run code of its author.
_OTHERS = {
    "pytorch_model.bin": "a pickle, which can run code when it is read",
    "pytorch_model.bin.index.json": "a list of pickles, which can run code when they are read",
    "tf_model.h5": "a file of TensorFlow",
    "flax_model.msgpack": "a file of Flax",
}
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"


def write_model(folder: Path, tensors: dict[str, Tensor], settings: Mapping[str, Any]) -> None:
    """Write the tensors into ``folder`` and then the settings, with the hash of the file of tensors."""
    write_atomically(folder / WEIGHTS, lambda path: save_file(tensors, path))
    with reading(folder / WEIGHTS):
        values = {**settings, HASH: _hash(folder / WEIGHTS)}
    text = json.dumps(values, ensure_ascii=False, indent=2) + "\n"
    write_atomically(folder / CONFIG, lambda path: path.write_text(text, encoding="utf-8"))


def check_hash(folder: Path, settings: Mapping[str, Any]) -> None:
    """Raise FileError if the file of weights in a folder does not have the hash that the settings hold.

    Settings without a hash are those of an earlier version, whose file is not checked.
    """
    path, expected = folder / WEIGHTS, settings.get(HASH)
    if expected is None:
        return
    with reading(path):
        altered = _hash(path) != expected
    if altered:
        told = f"{path}: altered since it was saved: its SHA-256 is not the {HASH} in {CONFIG}"
        fix = f"copy the folder again, or remove {HASH} from {CONFIG} if the file was changed on purpose"
        raise FileError(f"{told}: {fix}")


def check_present(path: Path) -> None:
    """Raise FileError if a file of weights does not exist, with the reason if there is another file in its place."""
    if path.is_file():
        return
    for name, kind in _OTHERS.items():
        if (path.parent / name).is_file():
            fix = (
                "load it once with transformers and save it with save_pretrained(), which writes safetensors"
            )
            raise FileError(f"{path.parent / name} is {kind}, and there is no {path.name}: {fix}")
    raise FileError(f"{path}: no such file")


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Return a context manager that turns errors of reading a file of weights into FileError with its path.

    A file that does not exist raises FileError on entry.
    """
    check_present(path)
    try:
        yield
    except FileError:
        # It is an OSError too, and names the file already.
        raise
    except SafetensorError as error:
        if _is_pointer(path):
            told = "a pointer of Git LFS, not the weights"
            raise FileError(f"{path}: {told}: fetch them with `git lfs pull`") from None
        raise FileError(f"{path}: cut short or not a safetensors file ({error})") from None
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror or error}") from None


def _is_pointer(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_LFS_POINTER)) == _LFS_POINTER


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
