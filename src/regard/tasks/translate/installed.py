"""The translators that are there: those shipped with the package, and folders of your own.

``REGARD_MODELS`` names folders that hold models or training runs, separated as in ``PATH``. Where two models have one
name, that of a folder of yours is used, of two folders the one named first; a warning says so when it is used.
"""

from __future__ import annotations

import json
import os
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.errors import ArgumentError, FileError

__all__ = ["Installed", "find_translator", "installed_models"]

WEIGHTS, CONFIG = "model.safetensors", "config.json"
SHIPPED = Path(__file__).parents[2] / "weights"


@dataclass(frozen=True)
class Installed:
    """A model that can be used by its name."""

    name: str
    folder: Path
    settings: dict[str, Any]
    instead_of: tuple[Path, ...] = ()  # folders of the same name that are not used

    @property
    def others(self) -> str:
        """The models of the same name that are not used, in words."""
        return ", ".join(
            "the shipped one" if SHIPPED in path.parents else str(path) for path in self.instead_of
        )

    @property
    def is_shipped(self) -> bool:
        """Whether a model of this name is shipped with the package."""
        return any(SHIPPED in folder.parents for folder in (self.folder, *self.instead_of))

    @property
    def task(self) -> str:
        """What it was trained for."""
        return self.settings["task"]

    @property
    def kind(self) -> str:
        """Transformer or seq2seq."""
        return self.settings["model"]["kind"]

    @property
    def bytes(self) -> int:
        """The size of its weights."""
        return (self.folder / WEIGHTS).stat().st_size

    @property
    def languages(self) -> tuple[str, str]:
        """From and to."""
        return self.settings.get("source_language", ""), self.settings.get("target_language", "")


def installed_models() -> list[Installed]:
    """The shipped models, and the models and runs in the folders that ``REGARD_MODELS`` names.

    A folder that is missing is told in a warning.
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
    return sorted(found.values(), key=lambda one: not one.is_shipped)


def _own_folders() -> list[Path]:
    """The folders that ``REGARD_MODELS`` names."""
    named = [
        Path(part).expanduser() for part in os.environ.get("REGARD_MODELS", "").split(os.pathsep) if part
    ]
    for folder in named:
        if not folder.is_dir():
            told = "no such folder" if not folder.exists() else "not a folder"
            warnings.warn(f"REGARD_MODELS: {folder}: {told}: its models are not found", stacklevel=3)
    return named


def _read(folder: Path) -> Installed | None:
    """Read the model of a folder or of a run, or return None where it is broken: loading it by name tells why."""
    place = _model_in(folder)
    if place is None:
        return None
    try:
        settings = json.loads((place / CONFIG).read_text(encoding="utf-8"))
        one = Installed(folder.name, place, settings)
        _ = one.bytes
        named = [one.task, one.kind, *one.languages]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return one if all(isinstance(text, str) for text in named) else None


def _model_in(folder: Path) -> Path | None:
    """The folder of the model in the folder of a run, or in that of a model itself."""
    return next((place for place in (folder / "best", folder) if (place / CONFIG).is_file()), None)


def find_translator(
    model: str | os.PathLike | None = None, *, source: str | None = None, target: str | None = None
) -> Path:
    """The folder of a translator: by name, by path, or the one installed for the languages.

    >>> find_translator(target="tlh")
    Traceback (most recent call last):
        ...
    regard.errors.ArgumentError: target: there is no model for English to 'tlh': there are ...
    """
    if model is not None:
        return _by_name(model)
    models = [one for one in installed_models() if one.task == "translate"]
    wanted = ((source or "en").lower(), (target or "fr").lower())
    for one in models:
        if tuple(language.lower() for language in one.languages) == wanted:
            return _used(one)
    there = ", ".join("{} to {}".format(*one.languages) for one in models) or "none"
    start = "English" if wanted[0] == "en" else repr(wanted[0])
    known = any(one.languages[0].lower() == wanted[0] for one in models)
    raise ArgumentError(
        "target" if known else "source",
        f"there is no model for {start} to {wanted[1]!r}: there are {there}",
        "train one with `regard train translate`, and name its folder with model=",
    )


def _by_name(model: str | os.PathLike) -> Path:
    place = _model_in(Path(model))
    if place is not None:
        return place
    models = installed_models()
    for one in models:
        if one.name == str(model):
            return _used(one)
    names = ", ".join(one.name for one in models) or "none"
    raise FileError(f"model: {model} is neither a folder with a model nor a name; installed are {names}")


def _used(one: Installed) -> Path:
    """Give the folder of a model, and warn where others of its name are not used."""
    if one.instead_of:
        warnings.warn(f"model: {one.name} is the one in {one.folder}, not {one.others}", stacklevel=4)
    return one.folder
