"""Rows of a Hugging Face data set, by its name or from local files."""

from __future__ import annotations

import atexit
import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.errors import FileError, MissingExtraError

__all__ = ["rows_of", "splits_of"]

_LOADERS = {".jsonl": "json", ".json": "json", ".parquet": "parquet", ".csv": "csv", ".tsv": "csv"}


def rows_of(name: str, *, split: str, config: str | None) -> Iterator[tuple[str, Any]]:
    """Return an iterator over the rows of a data set, each with its place for error messages.

    ``name`` is a name on the hub, a folder or a file. ``split`` and ``config`` are those of ``datasets.load_dataset``.
    The rows are streamed. An error of loading, also of a later row, is raised as FileError.
    """
    datasets = _datasets(name)
    with _explained(name, split):
        rows = _loaded(datasets, name, split, config)
    return _numbered(rows, name, split)


def splits_of(name: str, *, config: str | None) -> list[str]:
    """Return the names of the splits of a data set, or an empty list if it has none, as a single file."""
    datasets = _datasets(name)
    path = Path(name).expanduser()
    with _explained(name, ""):
        if path.is_file():
            return []
        if (path / "dataset_dict.json").exists() or (path / "state.json").exists():  # from save_to_disk
            found = datasets.load_from_disk(str(path))
            return list(found) if isinstance(found, dict) else []
        return list(datasets.get_dataset_split_names(str(path) if path.exists() else name, config))


def _datasets(name: str) -> Any:
    try:
        import datasets
        from datasets import config
    except ImportError as error:
        raise MissingExtraError("datasets", "hf", f"reading hf:{name}") from error
    with contextlib.suppress(OSError):
        Path(config.HF_DATASETS_CACHE).mkdir(parents=True, exist_ok=True)
        return datasets
    # The library makes this folder even for rows that are streamed, and a home may be read-only.
    folder = Path(tempfile.mkdtemp(prefix="regard-datasets-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    config.HF_DATASETS_CACHE = folder
    return datasets


def _numbered(rows: Any, name: str, split: str) -> Iterator[tuple[str, Any]]:
    numbered = enumerate(iter(rows), start=1)
    while True:
        # Files are opened while rows are read, so errors can occur here.
        with _explained(name, split):
            number, row = next(numbered, (0, None))
        if not number:
            return
        yield f"hf:{name}, row {number}", row


@contextlib.contextmanager
def _explained(name: str, split: str) -> Iterator[None]:
    """Return a context manager that raises every error (no such name, no network, no such split) as FileError.

    The message is the first line of that of the error.
    """
    try:
        yield
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        part = f", split {split!r}" if split else ""
        raise FileError(f"cannot load hf:{name}{part}: {lines[0]}", argument="source") from error


def _loaded(datasets: Any, name: str, split: str, config: str | None) -> Any:
    path = Path(name).expanduser()
    if not path.exists():
        return datasets.load_dataset(name, config, split=split, streaming=True)
    if path.is_file():
        kind = _LOADERS.get(Path(path.name.removesuffix(".gz")).suffix)
        if kind is None:
            raise ValueError(f"expected a file of the kinds {', '.join(_LOADERS)}")
        return datasets.load_dataset(kind, data_files={split: str(path)}, split=split, streaming=True)
    if (path / "dataset_dict.json").exists() or (path / "state.json").exists():  # from save_to_disk
        found = datasets.load_from_disk(str(path))  # memory-mapped
        return found[split] if isinstance(found, dict) else found
    return datasets.load_dataset(str(path), config, split=split, streaming=True)
