"""Lazy imports, so that importing a package does not load the modules of its names."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

__all__ = ["lazily"]


def lazily(package: str, homes: dict[str, list[str]]) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for the module ``package`` that imports the module of a name when the name is used.

    ``homes`` maps each submodule, without the package, to the names that it defines. Other names raise AttributeError.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def find(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=None)
        return getattr(importlib.import_module(f"{package}.{home_of[name]}"), name)

    return find
