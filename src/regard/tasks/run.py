"""Training, resuming, loading and evaluating any task.

These functions are the Python form of the commands ``regard train`` and ``regard evaluate``.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import torch

from regard.errors import ArgumentError, FileError, option
from regard.files import make_folder, read_json, write_atomically
from regard.models.pretrained import read_config
from regard.settings import part_of
from regard.tasks.base import Report, Task
from regard.tasks.data_files import absolute, check_contents, contents_of, found_again
from regard.tasks.registry import TASKS, find_model, find_task
from regard.tasks.settings import TaskSettings
from regard.training import Outcome, TrainingOptions, TrainingTask
from regard.training import train as run_loop
from regard.training.batch_progress import progress_shown
from regard.training.distributed import Processes
from regard.training.duration import Duration
from regard.training.folder import refuse_a_run
from regard.training.lock import lock_run
from regard.training.precision import precision_note
from regard.training.settings import DURATIONS

__all__ = ["evaluate", "load", "resume", "settings_of_run", "train"]

SETTINGS = "settings.json"
# In that file: the name of the task, and a hash of each data file.
TASK, CONTENTS = "task", "contents"
# An epoch has at least so many batches, unless the size of a batch is given.
_LEAST_BATCHES = 8
# The largest share of a run that is warm-up, unless the warm-up is given.
_MOST_WARMUP = 0.2


def train(
    task: str | Task,
    settings: TaskSettings | Mapping[str, Any],
    folder: str | os.PathLike,
    *,
    show: bool = True,
) -> Outcome:
    """Train a model for a task, and write the best model into ``best/`` of ``folder``.

    ``task`` is a name such as ``"translate"``, a ``"module:Class"``, or a task. Settings that are given as a dict are
    completed with the defaults of the command line, which follow the size of the data. A settings object is used as it
    is. ``show`` reports progress on standard error. A folder that already has a checkpoint raises FileError.
    :func:`resume` continues its run.

    >>> import tempfile
    >>> small = {"embedded": 60, "vocabulary_size": 300, "width": 16, "heads": 2, "feed_forward": 16, "steps": 2}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     outcome = train("translate", {**small, "validate_sentences": 2}, folder, show=False)
    >>> outcome.step, outcome.stopped
    (2, 'finished')
    """
    task = find_task(task)
    if isinstance(settings, Mapping):
        given = {name for name, value in settings.items() if value is not None}
        complete: TaskSettings = task.settings(**task.settings.complete(dict(settings)))
    else:
        given, complete = {one.name for one in fields(settings)}, settings
    processes = Processes.join()
    try:
        return _Run(task, complete, Path(folder), processes, show=show, given=given).train()
    finally:
        processes.leave()


def resume(
    folder: str | os.PathLike,
    changes: Mapping[str, Any] | None = None,
    *,
    task: str | Task | None = None,
    show: bool = True,
) -> Outcome:
    """Continue the run in ``folder`` from its newest checkpoint, as if it had not been interrupted.

    ``changes`` are settings that do not change the model or the data, such as ``steps``. ``task`` has to be given for
    a task of your own.

    >>> import tempfile
    >>> small = {"embedded": 60, "vocabulary_size": 300, "width": 16, "heads": 2, "feed_forward": 16, "steps": 1}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = train("translate", {**small, "validate_sentences": 2}, folder, show=False)
    ...     outcome = resume(folder, {"steps": 3}, show=False)
    >>> outcome.first_step, outcome.step
    (1, 3)
    """
    folder = Path(folder)
    processes = Processes.join()
    try:
        # Only the first process sees the folder. The others get the settings from it.
        held = processes.on_first(lambda: _task_and_settings(folder, changes, task))
        text = json.dumps([held[0], asdict(held[1])]) if held else ""
        name, values = json.loads(processes.same_text(text))
        found = find_task(task if task is not None else name)
        settings = found.settings.from_json(values)
        return _Run(found, settings, folder, processes, show=show, given=None).train()
    finally:
        processes.leave()


def load(model: str | os.PathLike, *, task: str | Task | None = None, device: str | None = None) -> Any:
    """Load the predictor of a trained model, by its installed name or its folder.

    ``task`` has to be given for a model of a task of your own. ``device`` is by default a GPU where there is one.

    >>> load("en-fr")(["The cat sleeps."])[0].text
    'Le chat dort.'
    """
    if task is not None:
        found = find_task(task)
        return found.load(find_model(found.name, model), device)
    folder = find_model("", model)
    settings = read_config(folder)
    # A folder of Hugging Face has no task, and its model is an encoder.
    name = "encode" if "model_type" in settings else settings.get("task")
    if name not in list(TASKS):
        problem = f"{folder} is a model for {name!r}, which is not a task of Regard"
        raise ArgumentError("model", problem, f"name its task with {option('task', 'module:Class')}")
    return find_task(name).load(folder, device)


def evaluate(
    task: str | Task,
    model: Any = None,
    options: Any = None,
    *,
    compare: Sequence[Any] = (),
    device: str | None = None,
    show: bool = False,
) -> Report:
    """Measure a model on data that it was not trained on.

    ``model`` is a name, a folder or a predictor, by default an installed model. ``options`` are the evaluation
    settings of the task, or a dict of them. The models in ``compare`` are measured on the same data.
    ``show`` shows the progress on standard error.

    >>> report = evaluate("translate", "en-fr", {"limit": 20, "beams": 1})
    >>> report.to_json()["sentences"]
    20
    """
    task = find_task(task)
    if options is None or isinstance(options, Mapping):
        options = task.evaluation(**(options or {}))
    named: dict[str, Any] = {}
    for number, one in enumerate([model, *compare]):
        name, predictor = _named(task, one, options if number == 0 else None, device)
        if name in named:
            raise ArgumentError("compare", f"{name} is named twice")
        named[name] = predictor
    with progress_shown() if show else contextlib.nullcontext():
        return task.evaluate(named, options)


def _named(task: Task, model: Any, options: Any, device: str | None) -> tuple[str, Any]:
    """Return the name of a model in a report, and its predictor."""
    if model is not None and not isinstance(model, str | os.PathLike):
        return type(model).__name__, model
    given = {} if options is None else {one.name: getattr(options, one.name) for one in fields(options)}
    folder = task.find(None if model is None else os.fspath(model), given)
    return (folder.name if model is None else os.fspath(model)), task.load(folder, device)


def settings_of_run(
    folder: str | os.PathLike, changes: Mapping[str, Any] | None = None, *, task: str | Task | None = None
) -> Any:
    """Return the settings that a run was started with, with ``changes`` that leave model and data as they are."""
    return _task_and_settings(Path(folder), changes, task)[1]


def _task_and_settings(
    folder: Path, changes: Mapping[str, Any] | None, task: str | Task | None
) -> tuple[str, TaskSettings]:
    path = folder / SETTINGS
    if not path.is_file():
        raise FileError(f"{folder}: there is no run to resume here ({SETTINGS} is missing)")
    kept = read_json(path)
    kept.pop(CONTENTS, None)
    name = kept.pop(TASK, "translate")  # earlier versions had one task
    if task is None and name not in list(TASKS):
        problem = f"{folder} is a run of {name!r}, which is not a task of Regard"
        raise ArgumentError("task", problem, "name it as module:Class")
    found = find_task(name if task is None else task)
    if found.name != name:
        fix = f"use `regard train {name} --resume`"
        raise ArgumentError("task", f"{folder} is a run of {name}, not of {found.name}", fix)
    return name, _changed(found, kept, folder, dict(changes or {}))


def _changed(task: Task, kept: dict[str, Any], folder: Path, changes: dict[str, Any]) -> TaskSettings:
    """Return the settings of a run with changes, or raise if they would change the model or the data."""
    kind = task.settings
    kept = {kind.former_names.get(name, name): value for name, value in kept.items()}
    kept |= {name: found_again(kept.get(name), folder) for name in kind.locations}
    if changes.keys() & set(DURATIONS):  # each replaces the others
        kept = {**kept, **dict.fromkeys(DURATIONS)}
    for name, value in changes.items():
        if name not in (*kind.changeable, *kind.locations) and kept.get(name) != value:
            may = ", ".join(option(other) for other in kind.changeable)
            problem = f"the run was started with {kept.get(name)!r}, not {value!r}"
            raise ArgumentError(name, problem, f"a resumed run may change {may}")
    return kind.from_json({**kept, **changes})


class _Run:
    """One training run, from its folder to the training loop.

    ``given`` are the names of the settings that a new run was given, and None for a run that is resumed.
    """

    def __init__(
        self,
        task: Task,
        settings: TaskSettings,
        folder: Path,
        processes: Processes,
        *,
        show: bool,
        given: set[str] | None,
    ):
        self.task, self.folder, self.processes = task, folder, processes
        self.settings: Any = settings
        self.show, self.given, self.resumed = show and processes.first, given, given is None
        self.data: Any = None
        self.contents: dict[str, str] = {}

    def train(self) -> Outcome:
        """Check, prepare, build and train."""
        # Bad options are an error before the data is read.
        TrainingOptions(**part_of(self.settings, TrainingOptions))
        self.task.check(self.settings)
        with contextlib.ExitStack() as held:
            lock = lock_run(self.folder, make=not self.resumed)
            self.processes.on_first(lambda: held.enter_context(lock))
            with contextlib.ExitStack() as start:
                if not self.resumed:
                    made = _removed_on_failure(self.folder)
                    self.processes.on_first(lambda: start.enter_context(made))
                model, objective = self._start()
            options = TrainingOptions(**part_of(self.settings, TrainingOptions))
            outcome = run_loop(model, objective, options, self.folder, resume=self.resumed, show=self.show)
        if self.show and outcome.stopped != "interrupted" and outcome.step > outcome.first_step:
            self._show_example()
        return outcome

    def _show_example(self) -> None:
        """Show what the best model makes of an example of the validation data."""
        best = self.folder / "best"
        if best.is_dir():
            self.task.show_example(self.settings, self.data, self.task.load(best))

    def _start(self) -> tuple[torch.nn.Module, TrainingTask]:
        """Prepare the data and build the model."""
        self.settings = self._without_stdin()
        if self.show and sys.stderr.isatty():  # the bar comes with the first step
            print("reading the data …", file=sys.stderr)
        data = self.data = self._prepared()
        torch.manual_seed(self.settings.seed)
        model = self.task.build(self.settings, data)
        objective, fitted = self._fitted_to_few_data()
        if self.show:
            print("\n".join([*self._described(data, model), *fitted]), file=sys.stderr)
        return model, objective

    def _prepared(self) -> Any:
        """Prepare the data once in each process, in the first one before the others."""
        data = self.processes.on_first(self._begin)
        self._share_files()
        if self.processes.first:
            return data
        make_folder(self.folder)
        return self.task.prepare(self.settings, self.folder, learn=False)

    def _begin(self) -> Any:
        """Prepare the data in the folder of the run, and save the settings."""
        if self.resumed:
            self.contents = _kept_contents(self.folder)
            check_contents(self.settings, self.contents)
        else:
            # Before its vocabularies and settings are replaced.
            refuse_a_run(self.folder)
            self.contents = contents_of(self.settings)
        make_folder(self.folder)
        data = self.task.prepare(self.settings, self.folder, learn=not self.resumed, show=self.show)
        self._save_settings()
        return data

    def _save_settings(self) -> None:
        """Write the settings, which a resumed run takes from this file."""
        values = {TASK: self.task.name, **asdict(absolute(self.settings)), CONTENTS: self.contents}
        text = json.dumps(values, indent=2) + "\n"
        write_atomically(self.folder / SETTINGS, lambda part: part.write_text(text, encoding="utf-8"))

    def _fitted_to_few_data(self) -> tuple[TrainingTask, list[str]]:
        """Return the objective, with settings of a new run that suit few data, and a line for the user if they differ.

        Only settings that were not given are changed. Batches become smaller until there are eight in an epoch, or
        until the task rejects them. There are more epochs, up to ``least_steps`` updates. The warm-up is at most a
        fifth of the run.
        """
        before: Any = self.settings
        objective = self.task.objective(self.settings, self.data)
        if self.given is None:
            return objective, []
        sizes = () if self.given & set(before.batch_sizes) else before.batch_sizes
        while sizes and 0 < objective.batches_per_epoch(self.processes.world) < _LEAST_BATCHES:
            try:
                halves = {name: getattr(self.settings, name) // 2 for name in sizes}
                self.settings = replace(self.settings, **halves)
            except ArgumentError:
                # A batch holds at least one row of the largest size.
                break
            objective = self._objective_again()
        batches = objective.batches_per_epoch(self.processes.world)
        updates = math.ceil(batches / before.accumulate)
        if updates and before.epochs is not None and not self.given & set(DURATIONS):
            epochs = float(max(before.epochs, math.ceil(before.least_steps / updates)))
            self.settings = replace(self.settings, epochs=epochs)
        total = Duration.of(TrainingOptions(**part_of(self.settings, TrainingOptions)), batches).steps
        if total is not None and "warmup" not in self.given:
            self.settings = replace(self.settings, warmup=min(before.warmup, int(_MOST_WARMUP * total)))
        if self.settings == before:
            return objective, []
        self.processes.on_first(self._save_settings)
        # Its settings are those that the card of the model tells.
        return self._objective_again(), [self._fitted(before, total)]

    def _objective_again(self) -> TrainingTask:
        """Return the objective with other settings, without the warnings on the data that the first one has given."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.task.objective(self.settings, self.data)

    def _fitted(self, before: TaskSettings, total: int | None) -> str:
        """Return a line for the user on the settings that differ from those before, in a run of ``total`` updates."""
        new: Any = self.settings
        train: Any = getattr(self.data, "train", None)
        rows = f"{len(train):,} rows" if hasattr(train, "__len__") else "the data"
        names = [name for name in (*new.batch_sizes, "warmup") if getattr(new, name) != getattr(before, name)]
        others = ", ".join(f"{name} {getattr(new, name):,}" for name in names)
        if new.epochs == getattr(before, "epochs", None):
            return f"for {rows}: {others}"
        line = f"epochs: {new.epochs:g}, so that {rows} give {total:,} updates"
        return f"{line} ({others})" if others else line

    def _share_files(self) -> None:
        """Give all processes the files of the first one. On another machine they are missing, or old."""
        if self.processes.world == 1:
            return
        make_folder(self.folder)
        for path in self.task.shared_files(self.settings, self.folder):
            text = self.processes.same_text(path.read_text(encoding="utf-8") if self.processes.first else "")
            if not path.is_file() or path.read_text(encoding="utf-8") != text:
                write_atomically(path, lambda part, text=text: part.write_text(text, encoding="utf-8"))

    def _without_stdin(self) -> TaskSettings:
        """Copy standard input into a file of the run, since it is read more than once, and again on resuming."""
        settings: Any = self.settings
        if getattr(settings, "data", None) != "-":
            return settings
        path = self.folder / f"stdin.{settings.format or 'tsv'}"

        def keep() -> None:
            refuse_a_run(self.folder)
            make_folder(self.folder)
            write_atomically(path, _copy_stdin)

        self.processes.on_first(keep)
        return replace(settings, data=os.path.abspath(path))

    def _described(self, data: Any, model: torch.nn.Module) -> list[str]:
        """Describe the data and the model for the user."""
        count = sum(p.numel() for p in model.parameters())
        kind = getattr(getattr(model, "config", None), "kind", type(model).__name__)
        note = precision_note(self.settings.precision, self.processes.device)
        lines = [*self.task.describe(self.settings, data), f"model: {kind}, {count:,} parameters"]
        return [*lines, note] if note else lines


@contextlib.contextmanager
def _removed_on_failure(folder: Path) -> Iterator[None]:
    """Remove what is made in a folder within this block, such as vocabularies, if the block raises an error."""
    before = set(os.listdir(folder)) if folder.is_dir() else set()
    try:
        yield
    except BaseException:
        for path in [path for path in folder.glob("*") if path.name not in before]:
            with contextlib.suppress(OSError):
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        raise


def _copy_stdin(path: Path) -> None:
    with open(path, "wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)


def _kept_contents(folder: Path) -> dict[str, str]:
    """Read the hashes of the data that a run was started with, which earlier versions did not write."""
    path = folder / SETTINGS
    contents = read_json(path).get(CONTENTS, {}) if path.is_file() else {}
    if not isinstance(contents, dict):
        raise FileError(f"{path}: {CONTENTS}: expected names and hashes, got {contents!r}")
    return contents
