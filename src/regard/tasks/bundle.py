"""Trained models in folders, with their weights, vocabularies and settings, and the base class of their predictors."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import nn

from regard.errors import ArgumentError, DtypeError, FileError
from regard.files import make_folder, read_json
from regard.models.pretrained import check_storable, load_model, load_weights, read_config
from regard.models.weight_files import CONFIG, WEIGHTS, check_hash, write_model
from regard.shapes import as_device
from regard.tasks.registry import find_model
from regard.text import Vocabulary, load_vocabulary

__all__ = ["Bundle", "BundledPredictor", "checked_texts", "load_bundle", "save_bundle"]


def save_bundle(
    folder: str | os.PathLike,
    model: nn.Module,
    *,
    task: str,
    vocabularies: dict[str, Vocabulary],
    settings: dict[str, Any],
    dtype: str = "float32",
) -> None:
    """Write a model, its vocabularies by name and its settings into ``folder``.

    ``config.json`` is written last. A folder without it is not a model.
    """
    folder = Path(folder)
    tensors = check_storable(model, dtype)  # before anything in the folder changes
    make_folder(folder)
    (folder / CONFIG).unlink(missing_ok=True)
    for path in folder.glob("*.json"):
        if path.stem not in vocabularies and _is_vocabulary(path):
            path.unlink()  # of a model that was here before
    for name, vocabulary in vocabularies.items():
        vocabulary.save(folder / f"{name}.json")
    config = getattr(model, "config", None)
    values = {"model": None, **settings, "task": task} | {"model": config.to_json() if config else {}}
    write_model(folder, tensors, values)


@dataclass(frozen=True)
class Bundle:
    """The folder of a saved model, whose parts are read when they are asked for."""

    folder: Path
    settings: dict[str, Any]

    def vocabulary(self, name: str) -> Vocabulary:
        """Read the vocabulary with this name from the folder, or raise FileError if there is none."""
        return load_vocabulary(self.folder / f"{name}.json")

    def has_vocabulary(self, name: str) -> bool:
        """Return whether the folder has a vocabulary with this name."""
        return (self.folder / f"{name}.json").is_file()

    def model(self) -> Any:
        """Return the model, if it is one of :mod:`regard.models`."""
        return load_model(self.folder)

    def fill(self, model: nn.Module) -> nn.Module:
        """Load the saved weights into a model of the same shape, for models that are not Regard's."""
        check_hash(self.folder, self.settings)
        load_weights(model, self.folder / WEIGHTS)
        return model.eval()

    def check_background(self, channels: int) -> None:
        """Raise FileError unless the setting ``background``, if there is one, has a byte for each channel."""
        found = self.settings.get("background", [0] * channels)
        whole = isinstance(found, list) and all(type(one) is int and 0 <= one <= 255 for one in found)
        if not whole or len(found) != channels:
            raise self.reject(f"background: expected a byte for each channel, {channels}, got {found!r:.60}")

    def reject(self, problem: str) -> FileError:
        """Return an error about ``config.json``."""
        return FileError(f"{self.folder / CONFIG}: {problem}")


def load_bundle(folder: str | os.PathLike, task: str) -> Bundle:
    """Return the saved model in ``folder``, or raise if it is a model of another task."""
    folder = Path(folder)
    settings = read_config(folder)
    made_for = settings.get("task")
    if made_for != task:
        found = f"a model for {made_for}" if isinstance(made_for, str) else "not the model of a task"
        raise ArgumentError(
            "model", f"{folder} is {found}, not for {task}", "`regard models` lists the others"
        )
    return Bundle(folder, settings)


class BundledPredictor:
    """The base class of predictors that are saved as a bundle.

    A subclass names its task and defines ``vocabularies``, ``saved_settings`` and ``from_bundle``.
    """

    task: ClassVar[str]
    model: Any
    extra: dict[str, Any]

    def vocabularies(self) -> dict[str, Vocabulary]:
        """Return the vocabularies to save, by name."""
        raise NotImplementedError

    def saved_settings(self) -> dict[str, Any]:
        """Return the values that are saved in ``config.json`` besides the settings of the model."""
        return self.extra

    @classmethod
    def from_bundle(cls, bundle: Bundle) -> Self:
        """Make the predictor from a saved model, on the CPU."""
        raise NotImplementedError

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return next(self.model.parameters()).device

    def save(
        self, folder: str | os.PathLike, *, dtype: str = "float32", results: dict[str, Any] | None = None
    ) -> None:
        """Write model, vocabularies and settings into ``folder``."""
        settings = self.saved_settings() | ({"results": results} if results else {})
        save_bundle(
            folder,
            self.model,
            task=self.task,
            vocabularies=self.vocabularies(),
            settings=settings,
            dtype=dtype,
        )

    @classmethod
    def load(cls, model: str | os.PathLike, *, device: str | None = None) -> Self:
        """Load a model by its installed name, or from the folder of a model or of a run.

        ``device`` is by default a GPU where there is one.
        """
        predictor = cls.from_bundle(load_bundle(find_model(cls.task, model), cls.task))
        predictor.model.to(as_device(device or ("cuda" if torch.cuda.is_available() else "cpu")))
        return predictor


def _is_vocabulary(path: Path) -> bool:
    try:
        return str(read_json(path).get("format", "")).startswith("regard.vocab")
    except FileError:
        return False


def checked_texts(texts: Iterable[str]) -> list[str]:
    """Return the texts as a list, or raise DtypeError if some are no texts."""
    if isinstance(texts, str):
        raise DtypeError("texts", "expected a list of texts, got one string", "put it in a list")
    if not isinstance(texts, Iterable):
        raise DtypeError("texts", f"expected a list of texts, got {texts!r}", "put them in a list")
    texts = list(texts)
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            problem = f"expected texts, got {text!r} at place {place}"
            raise DtypeError("texts", problem, "leave it out, or give an empty text")
    return texts
