"""Saving and loading of maps as safetensors files, with a JSON header that describes the tensors.

A digest in the header covers the description and the tensors, so an edited file is refused.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from regard import positions
from regard.biases import Bias, StoredBias, SumOfBiases
from regard.errors import ArgumentError, FileError
from regard.files import write_atomically
from regard.maps.image_windows import ImageWindows
from regard.maps.sources import HeadMean, Recomputed, Selected, Source, Stored
from regard.maps.unrecorded import Unrecorded
from regard.masks.specs import mask_from_spec, mask_spec
from regard.masks.stored import check_broadcast
from regard.scores import Prepared
from regard.shapes import Grid, whole_number

__all__ = [
    "MISFITS",
    "bytes_held",
    "load",
    "read_file",
    "save",
    "source_from_spec",
    "spec_of_source",
    "without_shared_storage",
    "write_file",
]

FORMAT = "regard.map/2"


def save(source: Source, path: str | os.PathLike) -> None:
    """Write a source to a file, or raise ArgumentError if its score or bias cannot be stored."""
    tensors: dict[str, Tensor] = {}
    spec = spec_of_source(source, tensors)
    write_file(path, FORMAT, "map", spec, {name: x.contiguous() for name, x in tensors.items()})


def load(path: str | os.PathLike) -> Source:
    """Read a source from a file written by :func:`save`.

    Raises :class:`regard.errors.FileError` if the file is truncated, inconsistent or of another format.
    """
    spec, tensors = read_file(path, FORMAT, "map", "an attention map")
    try:
        return source_from_spec(spec, tensors)
    except MISFITS as error:
        raise FileError(f"the header of {path} does not fit its tensors: {error}", argument="path") from error


# The exceptions that reading a modified header can raise.
MISFITS = (
    KeyError,
    TypeError,
    ValueError,
    IndexError,
    RuntimeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)


def write_file(
    path: str | os.PathLike, format: str, key: str, spec: object, tensors: dict[str, Tensor]
) -> None:
    """Write contiguous tensors and their description, JSON values under ``key`` of the header, with a digest of all."""
    header = {"format": format, key: json.dumps(spec)}
    header["digest"] = _digest(header, key, tensors)
    write_atomically(path, lambda part: save_file(tensors, part, metadata=header))


def _digest(header: dict[str, str], key: str, tensors: dict[str, Tensor]) -> str:
    """Return the SHA-256 digest of the header and all tensors of a file."""
    digest = hashlib.sha256((header["format"] + header.get(key, "")).encode("utf-8"))
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def read_file(path: str | os.PathLike, format: str, key: str, what: str) -> tuple[Any, dict[str, Tensor]]:
    """Read a file of :func:`write_file`, or raise FileError for another format and for content that was modified.

    ``what`` describes the expected content in the error message.
    """
    if not isinstance(path, str | os.PathLike):
        raise FileError(f"expected the name of a file, got {type(path).__name__}", argument="path")
    if os.path.isdir(path):
        raise FileError(f"{path} is a folder: give the name of a file", argument="path")
    try:
        with safe_open(os.fspath(path), framework="pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a dict
    except FileNotFoundError as error:
        raise FileError(f"no file {path}", argument="path") from error
    except (SafetensorError, OSError, ValueError) as error:
        raise FileError(f"{path} is not a readable map: {error}", argument="path") from error
    if header.get("format") != format:
        raise FileError(
            f"{path} is not {what}: expected format {format!r}, got {header.get('format')!r}",
            argument="path",
        )
    if header.get("digest") != _digest(header, key, tensors):
        raise FileError(
            f"{path} was modified after it was written: its digest does not match its content",
            argument="path",
        )
    try:
        return json.loads(header[key]), tensors
    except MISFITS as error:
        raise FileError(f"the header of {path} is not readable: {error}", argument="path") from error


def bytes_held(*sources: Source) -> int:
    """Return the number of bytes of the tensors that sources hold, where each tensor counts once."""
    return sum({x.data_ptr(): x.nbytes for source in sources for x in _tensors_held(source)}.values())


def _tensors_held(source: Source) -> list[Tensor]:
    if isinstance(source, HeadMean | Selected | ImageWindows):
        return _tensors_held(source.source)
    if isinstance(source, Stored):
        return [source.values]
    if isinstance(source, Unrecorded):
        return []
    assert isinstance(source, Recomputed)
    parts = [source.ready.q, source.ready.k, source.ready.v, source._lse, source._fine]
    if source.mask is not None:
        # A mask class of the user has no spec, but its tensors can be visited.
        source.mask.map_tensors(lambda x: parts.append(x) or x)
    if source.bias is not None:
        parts += _bias_tensors(source.bias)
    return [x for x in parts if x is not None]


def _bias_tensors(bias: Bias) -> list[Tensor]:
    if isinstance(bias, StoredBias):
        return [bias.values]
    if isinstance(bias, SumOfBiases):
        return _bias_tensors(bias.left) + _bias_tensors(bias.right)
    return list(bias.parameters()) if isinstance(bias, nn.Module) else []


def without_shared_storage(tensor: Tensor) -> Tensor:
    """Return the tensor, copied if it is a part of a larger storage, which would be stored as a whole."""
    owns_storage = tensor.is_contiguous() and tensor.untyped_storage().nbytes() == tensor.nbytes
    return tensor if owns_storage else tensor.contiguous().clone()


def spec_of_source(source: Source, tensors: dict[str, Tensor]) -> dict[str, Any]:
    """Describe a source as JSON values from which :func:`source_from_spec` rebuilds it.

    The tensors of the source are added to ``tensors``, which must be empty, under names that the description refers to.
    A callable score and a mask or bias class of the user raise ArgumentError.
    """
    if isinstance(source, Stored):
        tensors["weights"] = source.values
        return {"source": "stored"}
    if isinstance(source, HeadMean):
        return {"source": "head_mean", "of": spec_of_source(source.source, tensors)}
    if isinstance(source, Selected):
        ends = (source.b.start, source.b.stop, source.h.start, source.h.stop)
        return {"source": "selected", "of": spec_of_source(source.source, tensors), "ends": ends}
    if isinstance(source, ImageWindows):
        layout = {"image": source.image, "side": source.side, "shift": source.shift}
        return {"source": "windows", "of": spec_of_source(source.source, tensors), **layout}
    if isinstance(source, Unrecorded):
        return {"source": "absent", "grid": list(source.grid), "why": source.why}
    assert isinstance(source, Recomputed)
    if source.score is not None:
        raise ArgumentError(
            "score",
            "a map whose score is a callable cannot be saved by its parts",
            "use save(path, as_weights=True)",
        )
    tensors.update(q=source.ready.q, k=source.ready.k, lse=source.lse)
    if source.ready.v is not None:
        tensors["v"] = source.ready.v
    return {
        "source": "recomputed",
        "scale": source.ready.scale,
        "grid": list(source.grid),
        "mask": None if source.mask is None else mask_spec(source.mask, tensors),
        "bias": None if source.bias is None else _bias_spec(source.bias, tensors),
    }


def source_from_spec(spec: dict[str, Any], tensors: dict[str, Tensor]) -> Source:
    """Rebuild a source from the description and tensors of :func:`spec_of_source`, and check its sizes."""
    return _checked(_source(spec, tensors))


def _source(spec: dict[str, Any], tensors: dict[str, Tensor]) -> Source:
    kind = spec["source"]
    if kind == "stored":
        return Stored(tensors["weights"])
    if kind == "head_mean":
        return HeadMean(_source(spec["of"], tensors))
    if kind == "selected":
        b0, b1, h0, h1 = _sizes("ends", spec["ends"])
        return Selected(_source(spec["of"], tensors), slice(b0, b1), slice(h0, h1))
    if kind == "windows":
        side, shift = whole_number("side", spec["side"], least=1), whole_number("shift", spec["shift"])
        return ImageWindows(_source(spec["of"], tensors), _sizes("image", spec["image"]), side, shift)
    if kind == "absent":
        return Unrecorded(Grid(*_sizes("grid", spec["grid"])), str(spec["why"]))
    if kind != "recomputed":
        raise FileError(f"unknown source {kind!r}")
    scale = float(spec["scale"])
    if not math.isfinite(scale):
        raise ValueError(f"the scale is {scale}")
    ready = Prepared(tensors["q"], tensors["k"], scale, tensors.get("v"))
    mask = None if spec["mask"] is None else mask_from_spec(spec["mask"], tensors)
    bias = None if spec["bias"] is None else _bias_from_spec(spec["bias"], tensors)
    return Recomputed(ready, Grid(*_sizes("grid", spec["grid"])), mask, bias, tensors["lse"], None)


def _sizes(name: str, values: Any) -> tuple[int, ...]:
    """Return whole numbers of 0 or more, below the largest number of tokens that any file can describe."""
    sizes = tuple(whole_number(name, n, least=0) for n in values)
    if max(sizes, default=0) >= 2**31:
        raise ValueError(f"{name} is {sizes}")
    return sizes


def _checked(source: Source) -> Source:
    """Raise ValueError if the sizes of the tensors do not fit together, and return the source otherwise."""
    if isinstance(source, HeadMean | Selected | ImageWindows):
        _checked(source.source)
    if isinstance(source, Selected):
        grid = source.source.grid
        if not (
            0 <= source.b.start <= source.b.stop <= grid.b and 0 <= source.h.start <= source.h.stop <= grid.h
        ):
            raise ValueError("the selection is outside the map")
    if isinstance(source, Stored) and source.values.ndim != 4:
        raise ValueError("the weights do not have four axes")
    if isinstance(source, Recomputed):
        q, k, grid = source.ready.q, source.ready.k, source.grid
        fits = q.ndim == k.ndim == 4 and tuple(q.shape[:3]) == grid[:3] and source.lse.shape == grid[:3]
        if not (fits and k.shape[0] == grid.b and k.shape[2] == grid.k and q.shape[3] == k.shape[3]):
            raise ValueError("q, k and lse do not have the sizes of the map")
        if k.shape[1] == 0 or grid.h % k.shape[1]:
            raise ValueError("the heads of k do not divide those of q")
        if source.ready.v is not None and source.ready.v.shape != (q.shape[3],):
            raise ValueError("v does not have the width of q and k")
        if len({x.dtype for x in (q, k, source.ready.v) if x is not None}) > 1:
            raise ValueError("q, k and v are of different dtypes")
        if source.mask is not None:
            source.mask.check(grid)
        if source.bias is not None:
            first = torch.zeros(1, 1, dtype=torch.long)
            _check_bias(source.bias, grid)
            source.bias.tile(first, first, grid)
    return source


def _check_bias(bias: Bias, grid: Grid) -> None:
    if isinstance(bias, StoredBias):
        check_broadcast("bias", bias.values.shape, grid)
    if isinstance(bias, SumOfBiases):
        _check_bias(bias.left, grid)
        _check_bias(bias.right, grid)


def _bias_spec(bias: Bias, tensors: dict[str, Tensor]) -> dict[str, Any]:
    if isinstance(bias, StoredBias):
        name = f"bias.{len(tensors)}"
        tensors[name] = bias.values
        return {"kind": "stored", "tensor": name}
    if isinstance(bias, SumOfBiases):
        return {
            "kind": "sum",
            "left": _bias_spec(bias.left, tensors),
            "right": _bias_spec(bias.right, tensors),
        }
    if not hasattr(bias, "spec"):
        raise ArgumentError(
            "bias",
            "a map whose bias is a class of your own cannot be saved by its parts",
            "use save(path, as_weights=True)",
        )
    values, parts = bias.spec()  # type: ignore[attr-defined]
    names = {}
    for part, tensor in parts.items():
        names[part] = f"bias.{len(tensors)}"
        tensors[names[part]] = tensor.detach()
    return {"kind": "positions", "values": values, "tensors": names}


def _bias_from_spec(spec: dict[str, Any], tensors: dict[str, Tensor]) -> Bias:
    if spec["kind"] == "stored":
        return StoredBias(tensors[spec["tensor"]])
    if spec["kind"] == "sum":
        return SumOfBiases(_bias_from_spec(spec["left"], tensors), _bias_from_spec(spec["right"], tensors))
    bias = positions.bias_from_spec(
        spec["values"], {part: tensors[name] for part, name in spec["tensors"].items()}
    )
    return bias.requires_grad_(False) if isinstance(bias, nn.Module) else bias
