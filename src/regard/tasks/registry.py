"""Tasks by name, and the models that are installed.

``REGARD_MODELS`` names folders that hold models or training runs, separated as in ``PATH``. If two models have the
same name, the one in the folder that is named first is used, and before a shipped one. A warning says so when it is
used.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import ArgumentError, FileError, RegardError, UnknownNameError, option
from regard.files import read_json
from regard.tasks.minilm import MINILM, installed_minilm

if TYPE_CHECKING:
    from regard.settings import Settings
    from regard.tasks.base import Task
    from regard.tasks.settings import TaskSettings

__all__ = [
    "TASKS",
    "Installed",
    "RegisteredTask",
    "evaluation_of",
    "find_model",
    "find_task",
    "installed_models",
    "model_in",
    "settings_of",
]

WEIGHTS, CONFIG = "model.safetensors", "config.json"
# The parts that a task has to define.
TASK_PARTS = ("name", "settings", "predictor", "prepare", "build", "objective", "evaluate")
SHIPPED = Path(__file__).parents[1] / "weights"


@dataclass(frozen=True)
class RegisteredTask:
    """The names of the classes of a task of Regard, and the first lines of the help of its commands.

    The task ``x`` is in ``regard.tasks.x.task``, its settings are in ``regard.tasks.x.settings``, without torch.
    """

    task: str
    settings: str
    evaluation: str
    trains: str
    measures: str


TASKS: dict[str, RegisteredTask] = {
    "translate": RegisteredTask(
        task="TranslateTask",
        settings="TranslationSettings",
        evaluation="TranslationEvaluationSettings",
        trains="Train a translator; without data, on the embedded corpus.",
        measures="BLEU, chrF and the alignment error rate of a translator.",
    ),
    "classify": RegisteredTask(
        task="ClassifyTask",
        settings="ClassificationSettings",
        evaluation="ClassificationEvaluationSettings",
        trains="Train a classifier of texts; without data, on kinds of sentences of the embedded corpus.",
        measures="Accuracy, macro F1 and confusion of a classifier.",
    ),
    "answer": RegisteredTask(
        task="AnswerTask",
        settings="AnswerSettings",
        evaluation="AnswerEvaluationSettings",
        trains="Train a reader that answers questions; without data, on sentences of the embedded corpus.",
        measures="Exact match and F1 of a reader, as SQuAD's script counts them.",
    ),
    "summarize": RegisteredTask(
        task="SummarizeTask",
        settings="SummarySettings",
        evaluation="SummaryEvaluationSettings",
        trains="Train a summariser; without data, on reports of the embedded corpus.",
        measures="ROUGE, length, novel words and rare words of a summariser, beside two heuristics.",
    ),
    "encode": RegisteredTask(
        task="EncodeTask",
        settings="EncodingSettings",
        evaluation="EncodingEvaluationSettings",
        trains="Train an encoder on masked words; without data, on the embedded corpus.",
        measures="Accuracy and perplexity of an encoder on masked words.",
    ),
    "write": RegisteredTask(
        task="WriteTask",
        settings="WritingSettings",
        evaluation="WritingEvaluationSettings",
        trains="Train a language model on a text; without data, on sentences of the embedded corpus.",
        measures="Loss, perplexity and bits per character of a language model.",
    ),
    "images": RegisteredTask(
        task="ImagesTask",
        settings="ImageSettings",
        evaluation="ImageEvaluationSettings",
        trains="Train a classifier of pictures; without data, on small digits.",
        measures="Accuracy, macro F1 and confusion of a classifier of pictures.",
    ),
    "caption": RegisteredTask(
        task="CaptionTask",
        settings="CaptionSettings",
        evaluation="CaptionEvaluationSettings",
        trains="Train a captioner of pictures; without data, on scenes that are composed of small digits.",
        measures="Exact captions of a captioner, and how often its attention lies on the object it names.",
    ),
    "glimpse": RegisteredTask(
        task="GlimpseTask",
        settings="GlimpseSettings",
        evaluation="GlimpseEvaluationSettings",
        trains="Train a classifier that reads pictures in glimpses; without data, on small digits.",
        measures="Accuracy of a classifier of pictures after each of its glimpses.",
    ),
}


def find_task(task: str | Task) -> Task:
    """Return a task by its name, or as ``module:Class`` for one of your own.

    >>> find_task("tranlsate")
    Traceback (most recent call last):
        ...
    regard.errors.UnknownNameError: task: unknown name 'tranlsate': did you mean 'translate'? known are ...
    """
    if not isinstance(task, str):
        kind = task if isinstance(task, type) else type(task)
        _check_task(kind, kind.__name__)
        return task() if isinstance(task, type) else task
    if task in TASKS:
        return _part_of_regard(f"regard.tasks.{task}.task", TASKS[task].task)()
    if ":" not in task:
        raise UnknownNameError("task", task, TASKS)
    kind = _imported(task)
    _check_task(kind, task)
    return kind()


def settings_of(task: str) -> type[TaskSettings]:
    """Return the class of the settings of a task, without torch for a task of Regard."""
    if task not in TASKS:
        return type(find_task(task)).settings
    return _part_of_regard(f"regard.tasks.{task}.settings", TASKS[task].settings)


def evaluation_of(task: str) -> type[Settings]:
    """Return the class of the evaluation settings of a task, without torch for a task of Regard."""
    if task not in TASKS:
        return type(find_task(task)).evaluation
    return _part_of_regard(f"regard.tasks.{task}.settings", TASKS[task].evaluation)


def _part_of_regard(module: str, name: str) -> Any:
    """Import a name from a module of Regard itself."""
    try:
        return getattr(importlib.import_module(module), name)
    except ImportError as error:
        if isinstance(error, RegardError):
            raise
        raise RegardError(f"{module} cannot be imported: {error}: is Regard installed completely?") from error


def _imported(reference: str) -> Any:
    """Import ``module:name`` of the user. A module may also be a file of the current folder."""
    module, _, name = reference.partition(":")
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        return getattr(importlib.import_module(module), name)
    except RegardError:
        raise
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        problem = f"{reference} cannot be imported: {error}"
        raise ArgumentError("task", problem, "expected module:Class, such as my_tasks:Tagger") from error
    except Exception as error:  # a mistake in the code of the module
        problem = f"{reference} cannot be imported: {type(error).__name__}: {error}"
        raise ArgumentError("task", problem) from error
    finally:
        if here in sys.path:
            sys.path.remove(here)


def _check_task(kind: Any, name: str) -> None:
    """Raise ArgumentError unless ``kind`` is a class with all parts of a task."""
    from regard.tasks.base import Task

    expected = "expected a class that inherits from regard.tasks.Task"
    if not isinstance(kind, type):
        raise ArgumentError("task", f"{name} is not a class but {type(kind).__name__}", expected)
    parts = [part for part in (*TASK_PARTS, *vars(Task)) if not part.startswith("_")]
    if Task not in kind.__mro__ and not all(hasattr(kind, part) for part in parts):
        raise ArgumentError("task", f"{name} is not a task", expected)
    missing = [part for part in TASK_PARTS if getattr(kind, part, None) in (None, getattr(Task, part, None))]
    if missing:
        raise ArgumentError("task", f"{name} does not define {', '.join(missing)}", "see docs/en/tasks.md")


@dataclass(frozen=True)
class Installed:
    """A model that can be used by its name."""

    name: str
    folder: Path
    settings: dict[str, Any]
    instead_of: tuple[Path, ...] = ()  # folders of the same name that are not used

    @property
    def others(self) -> str:
        """The models of the same name that are not used, as text."""
        return ", ".join(
            "the shipped one" if SHIPPED in path.parents else str(path) for path in self.instead_of
        )

    @property
    def is_shipped(self) -> bool:
        """Whether a model of this name is shipped with the package."""
        return any(SHIPPED in folder.parents for folder in (self.folder, *self.instead_of))

    @property
    def task(self) -> str:
        """The name of its task."""
        return self.settings["task"]

    @property
    def kind(self) -> str:
        """The kind of its network, such as transformer."""
        return self.settings["model"].get("kind", "")

    @property
    def bytes(self) -> int:
        """The size of its weights."""
        return (self.folder / WEIGHTS).stat().st_size

    @property
    def languages(self) -> tuple[str, str]:
        """The source and the target language, empty for other tasks."""
        return self.settings.get("source_language", ""), self.settings.get("target_language", "")


def installed_models() -> list[Installed]:
    """Return the shipped models, the models and runs in the folders that ``REGARD_MODELS`` names, and MiniLM.

    MiniLM is a package of its own. A missing folder gives a warning.
    """
    found: dict[str, Installed] = {}
    for root in [*_own_folders(), SHIPPED]:
        for folder in sorted(path for path in root.glob("*") if path.is_dir()):
            one = _read(folder)
            if one is None:
                continue
            first = found.setdefault(one.name, one)
            if one.folder.resolve() not in [place.resolve() for place in (first.folder, *first.instead_of)]:
                found[one.name] = replace(first, instead_of=(*first.instead_of, one.folder))
    minilm = installed_minilm()
    if minilm is not None:
        found.setdefault(MINILM, Installed(MINILM, minilm, {"task": "encode", "model": {"kind": "bert"}}))
    return sorted(found.values(), key=lambda one: not one.is_shipped)


def _own_folders() -> list[Path]:
    """Return the folders that ``REGARD_MODELS`` names."""
    named = [
        Path(part).expanduser() for part in os.environ.get("REGARD_MODELS", "").split(os.pathsep) if part
    ]
    for folder in named:
        if not folder.is_dir():
            problem = "no such folder" if not folder.exists() else "not a folder"
            warnings.warn(f"REGARD_MODELS: {folder}: {problem}: its models are not found", stacklevel=3)
    return named


def _read(folder: Path) -> Installed | None:
    """Read the settings of the model in a folder or in a run, or return None if they are damaged."""
    place = model_in(folder)
    if place is None:
        return None
    try:
        settings = read_json(place / CONFIG)
        one = Installed(folder.name, place, settings)
        _ = one.bytes
        named = [one.task, one.kind, *one.languages]
    except (FileError, OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return one if all(isinstance(text, str) for text in named) else None


def model_in(folder: Path) -> Path | None:
    """Return the folder of the best model of a run, or the folder itself if it holds a model."""
    return next((place for place in (folder / "best", folder) if (place / CONFIG).is_file()), None)


def find_model(
    task: str, model: str | os.PathLike | None = None, *, languages: tuple[str, str] | None = None
) -> Path:
    """Return the folder of a model, by its name, by its path, or by its task and languages.

    >>> find_model("translate", languages=("en", "tlh"))
    Traceback (most recent call last):
        ...
    regard.errors.ArgumentError: target_language: there is no model for English to 'tlh': there are ...
    """
    if model is not None:
        return _by_name(model, task)
    models = [one for one in installed_models() if one.task == task]
    if languages is None:
        if models:
            return _used(models[0])
        fix = f"train one with `regard train {task}`, and name its folder with {option('model')}"
        raise ArgumentError("model", f"no model for {task} is installed", fix)
    wanted = tuple(language.lower() for language in languages)
    for one in models:
        if tuple(language.lower() for language in one.languages) == wanted:
            return _used(one)
    there = ", ".join("{} to {}".format(*one.languages) for one in models) or "none"
    start = "English" if wanted[0] == "en" else repr(wanted[0])
    known = any(one.languages[0].lower() == wanted[0] for one in models)
    raise ArgumentError(
        "target_language" if known else "source_language",
        f"there is no model for {start} to {wanted[1]!r}: there are {there}",
        f"train one with `regard train {task}`, and name its folder with {option('model')}",
    )


def _by_name(model: str | os.PathLike, task: str) -> Path:
    """Return the folder of a model of any task. An error lists the models of ``task``, or all if it is empty."""
    place = model_in(Path(model))
    if place is not None:
        return place
    models = installed_models()
    for one in models:
        if one.name == str(model):
            return _used(one)
    names = ", ".join(one.name for one in models if task in ("", one.task)) or "none"
    purpose = f" for {task}" if task else ""
    problem = f"{model} is neither a folder with a model nor a name; installed are {names}{purpose}"
    raise FileError(problem, argument="model")


def _used(one: Installed) -> Path:
    """Return the folder of a model, and warn if others have the same name."""
    if one.instead_of:
        warnings.warn(f"model: {one.name} is the one in {one.folder}, not {one.others}", stacklevel=4)
    return one.folder
