"""The translators that are there: those shipped with the package, and folders of your own."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import ArgumentError, FileError

__all__ = ["Installed", "find_translator", "installed_models"]

WEIGHTS = "model.safetensors"
SHIPPED = Path(__file__).parents[2] / "weights"


@dataclass(frozen=True)
class Installed:
    """A model that can be used by its name."""

    name: str
    folder: Path
    settings: dict[str, Any]

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
    """The shipped models, and those in the folders that ``REGARD_MODELS`` names."""
    found = {}
    own = [Path(part) for part in os.environ.get("REGARD_MODELS", "").split(os.pathsep) if part]
    for root in [SHIPPED, *own]:
        for config in sorted(root.glob("*/config.json")):
            one = _read(config)
            if one is not None:
                found[one.name] = one
    return list(found.values())


def _read(config: Path) -> Installed | None:
    """The model of a folder; what is wrong with a broken one is said when it is asked for by name."""
    try:
        settings = json.loads(config.read_text(encoding="utf-8"))
        one = Installed(config.parent.name, config.parent, settings)
        _ = one.task, one.kind, one.bytes
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return one


def find_translator(
    model: str | os.PathLike | None = None, *, source: str | None = None, target: str | None = None
) -> Path:
    """The folder of a translator: by name, by path, or the one installed for the languages.

    >>> find_translator(target="tlh")
    Traceback (most recent call last):
        ...
    regard.errors.ArgumentError: to: there is no model for English to 'tlh': there are ...
    """
    if model is not None:
        return _by_name(model)
    models = [one for one in installed_models() if one.task == "translate"]
    wanted = (source or "en", target or "fr")
    for one in models:
        if one.languages == wanted:
            return one.folder
    there = ", ".join("{} to {}".format(*one.languages) for one in models) or "none"
    start = "English" if wanted[0] == "en" else repr(wanted[0])
    known = any(one.languages[0] == wanted[0] for one in models)
    raise ArgumentError(
        "to" if known else "source",
        f"there is no model for {start} to {wanted[1]!r}: there are {there}",
        "train one with `regard train translate`, and name its folder with --model",
    )


def _by_name(model: str | os.PathLike) -> Path:
    folder = Path(model)
    for place in (folder / "best", folder):  # the folder of a run, or of a model
        if (place / "config.json").is_file():
            return place
    for one in installed_models():
        if one.name == str(model):
            return one.folder
    names = ", ".join(one.name for one in installed_models()) or "none"
    raise FileError(f"model: {model} is neither a folder with a model nor a name; installed are {names}")
