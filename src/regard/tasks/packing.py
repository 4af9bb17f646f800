"""Packing of a training run as a folder with small weights and a full card."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.errors import ArgumentError, FileError, UnknownNameError, option, renamed
from regard.files import write_atomically
from regard.models.packed_weights import BITS
from regard.models.pretrained import CONFIG, DTYPES, read_config
from regard.tasks.base import Task
from regard.tasks.card import CardFacts
from regard.tasks.registry import TASKS, find_model, find_task
from regard.tasks.run import SETTINGS, settings_of_run

__all__ = ["pack"]


def pack(
    run: Path,
    out: Path,
    *,
    task: str | Task | None = None,
    dtype: str = "float16",
    vocabulary_size: int | None = None,
    license: str = "",
    data: str = "",
    preparation: str = "",
    notes: str = "",
    results: Sequence[tuple[str, str]] = (),
    sentences: Sequence[str] | None = None,
    overwrite: bool = False,
) -> Any:
    """Write the best model of a run into ``out`` with a card, and return its predictor.

    A folder that is not empty is refused, unless ``overwrite`` allows to replace the files of a model in it.
    ``vocabulary_size`` keeps the most frequent pieces of the vocabulary only. The samples of the card are predictions
    for ``sentences``, or for texts of the task's own.
    """
    if dtype not in (*DTYPES, *BITS):
        raise UnknownNameError("dtype", dtype, [*DTYPES, *BITS])
    if not overwrite:
        _check_empty(out)
    folder = find_model("", run)
    found = find_task(task if task is not None else _task_of(folder))
    predictor = found.load(folder)
    if vocabulary_size is not None:
        predictor = _shortened(predictor, vocabulary_size, found.name)
    all_results = (*results, *found.finish(predictor))
    predictor.save(out, dtype=dtype)
    # The samples are those of the weights that are given away.
    small = found.load(out)
    samples = found.samples(small, None if sentences is None else list(sentences))
    facts = CardFacts(license, data, all_results, preparation, samples, notes)
    settings = settings_of_run(run, task=found) if (run / SETTINGS).is_file() else None
    write_atomically(out / "README.md", found.card(small, settings, facts).write)
    return small


def _shortened(predictor: Any, size: int, task: str) -> Any:
    """Return a predictor with a smaller vocabulary, if its task can make one."""
    if not hasattr(predictor, "shortened"):
        raise ArgumentError("vocabulary_size", f"the vocabulary of a model for {task} cannot be shortened")
    with renamed(size="vocabulary_size", vocabulary="vocabulary_size"):
        return predictor.shortened(size)


def _task_of(folder: Path) -> str:
    name = read_config(folder).get("task")
    if name not in list(TASKS):
        problem = f"{folder} is a model for {name!r}, which is not a task of Regard"
        raise ArgumentError("run", problem, f"name its task with {option('task', 'module:Class')}")
    return name


def _check_empty(folder: Path) -> None:
    """Raise ArgumentError if the folder is not empty, since packing over the weights of a run would lose them."""
    try:
        names = sorted(path.name for path in folder.iterdir())
    except FileNotFoundError:
        return
    except OSError as error:
        raise FileError(f"cannot read {folder}: {error.strerror}", argument="out") from error
    if names:
        what = "a model" if CONFIG in names else names[0]
        problem = f"{folder} holds {what} already"
        raise ArgumentError("out", problem, f"choose another folder, or say {option('overwrite', True)}")
