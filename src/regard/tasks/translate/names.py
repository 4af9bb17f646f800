"""The functions of :mod:`regard.tasks` under their names for translators."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.tasks import registry
from regard.tasks.registry import Installed, find_model
from regard.tasks.run import resume, settings_of_run, train
from regard.tasks.translate.settings import TranslationSettings
from regard.training import Outcome

__all__ = [
    "find_translator",
    "installed_models",
    "resume_translator",
    "settings_of_run",
    "train_translator",
]


def installed_models() -> list[Installed]:
    """Return the translators among the installed models.

    >>> [model.name for model in installed_models()][:2]
    ['en-fr', 'en-zh']
    """
    return [model for model in registry.installed_models() if model.task == "translate"]


def find_translator(
    model: str | os.PathLike | None = None, *, source: str | None = None, target: str | None = None
) -> Path:
    """Return the folder of a translator, by its name, by its path, or by its languages."""
    return find_model("translate", model, languages=(source or "en", target or "fr"))


def train_translator(
    settings: TranslationSettings | Mapping[str, Any], folder: str | os.PathLike, *, show: bool = True
) -> Outcome:
    """Train a translator, as :func:`regard.tasks.train` does."""
    return train("translate", settings, folder, show=show)


def resume_translator(
    folder: str | os.PathLike, changes: Mapping[str, Any] | None = None, *, show: bool = True
) -> Outcome:
    """Continue the run of a translator, as :func:`regard.tasks.resume` does."""
    return resume(folder, changes, task="translate", show=show)
