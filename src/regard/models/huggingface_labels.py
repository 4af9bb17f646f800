"""The names of the classes in the settings of a Hugging Face folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.errors import FileError

__all__ = ["check_labels", "read_labels"]


def read_labels(settings: Mapping[str, Any], where: str) -> list[str]:
    """Return the names of the classes of a classifier, in the order of its outputs.

    Without names in the settings they are "LABEL_0", "LABEL_1" and so on. ``where`` is the path of the settings, for
    the FileError of names that are not numbered from 0.

    >>> read_labels({"id2label": {"1": "boot", "0": "shirt"}}, "config.json")
    ['shirt', 'boot']
    """
    names = settings.get("id2label")
    if names is None:
        count = settings.get("num_labels", 2)
        if not isinstance(count, int) or isinstance(count, bool):
            raise FileError(f"{where}: num_labels: expected a whole number, got {count!r}")
        return [f"LABEL_{number}" for number in range(count)]
    try:
        numbers = {int(number): str(name) for number, name in names.items()}
        return [numbers[number] for number in range(len(names))]
    except (AttributeError, TypeError, ValueError, KeyError):
        told = f"id2label: expected the numbers from 0 with their names, got {names!r}"
        raise FileError(f"{where}: {told}") from None


def check_labels(settings: Mapping[str, Any], classes: int, where: str) -> None:
    """Raise FileError if the settings name another number of classes than the model has outputs."""
    field = next((name for name in ("id2label", "num_labels") if settings.get(name) is not None), None)
    if field is not None and (count := len(read_labels(settings, where))) != classes:
        raise FileError(f"{where}: {field} is for {count} classes, but the model has {classes} outputs")
