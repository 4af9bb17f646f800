"""The tensors of a Hugging Face folder, in one safetensors file or in several."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import safe_open

from regard.errors import FileError
from regard.files import read_json
from regard.models.pretrained import read_shapes
from regard.models.weight_files import WEIGHTS, check_present, reading

__all__ = ["SafetensorsFiles"]

INDEX = "model.safetensors.index.json"
_KINDS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


class SafetensorsFiles:
    """The tensors of a folder by name, which :meth:`read` reads.

    The constructor reads only their shapes, ``shapes``. The weights of layer norms are called ``gamma`` and ``beta`` in
    old files. Here they have their present names ``weight`` and ``bias``.
    """

    def __init__(self, folder: Path):
        self._places: dict[str, tuple[Path, str]] = {}  # the file and the name in it
        self.shapes: dict[str, tuple[int, ...]] = {}
        for path, names in _listed(folder).items():
            shapes = read_shapes(path)
            for name in shapes if names is None else names:
                if name not in shapes:
                    raise FileError(f"{path}: {name} is missing, which {INDEX} says to be there")
                self._places[_present(name)] = path, name
                self.shapes[_present(name)] = shapes[name]

    def where(self, name: str) -> Path:
        """Return the path of the file that holds a tensor."""
        return self._places[name][0]

    def read(self, names: list[str]) -> dict[str, torch.Tensor]:
        """Return the named tensors in float32, or raise FileError if one has integers, infinite numbers or NaN."""
        tensors: dict[str, torch.Tensor] = {}
        for path in sorted({self.where(name) for name in names}):
            with reading(path), safe_open(path, framework="pt") as file:
                for name in names:
                    if self.where(name) == path:
                        tensors[name] = _checked(file.get_tensor(self._places[name][1]), name, path)
        return tensors


def _checked(tensor: torch.Tensor, name: str, path: Path) -> torch.Tensor:
    if tensor.dtype not in _KINDS:
        raise FileError(f"{path}: {name} is of {tensor.dtype}, expected float32, float16 or bfloat16")
    # A copy, since the file may be mapped into memory.
    tensor = tensor.to(torch.float32, copy=True)
    if not tensor.isfinite().all():
        raise FileError(f"{path}: {name} holds numbers that are not finite: the file is damaged")
    return tensor


def _listed(folder: Path) -> dict[Path, list[str] | None]:
    """Return the files of weights, each with the names of the tensors to read from it, or with None for all."""
    if (folder / INDEX).is_file() and not (folder / WEIGHTS).is_file():
        return _indexed(folder)
    check_present(folder / WEIGHTS)
    return {folder / WEIGHTS: None}


def _indexed(folder: Path) -> dict[Path, list[str] | None]:
    names = read_json(folder / INDEX).get("weight_map")
    if not isinstance(names, dict) or not names or not all(isinstance(file, str) for file in names.values()):
        raise FileError(f"{folder / INDEX}: weight_map: expected names of tensors and files")
    files: dict[Path, list[str] | None] = {}
    for name, file in names.items():
        if Path(file).name != file:
            raise FileError(f"{folder / INDEX}: weight_map: {file!r} is not a file of this folder")
        kept = files.setdefault(folder / file, [])
        assert kept is not None
        kept.append(name)
    return files


def _present(name: str) -> str:
    module, _, part = name.rpartition(".")
    return f"{module}.{ {'gamma': 'weight', 'beta': 'bias'}[part] }" if part in ("gamma", "beta") else name
