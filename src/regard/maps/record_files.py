"""Several records in one safetensors file: what ``seen.save`` writes and ``regard view`` reads."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from regard.errors import ArgumentError, FileError
from regard.files import write_atomically
from regard.maps.attention_map import AttentionMap
from regard.maps.records import Record
from regard.maps.sources import Stored
from regard.maps.storage import MISFITS, read_file, source_from_spec, spec_of_source

__all__ = ["load_records", "save_records"]

FORMAT = "regard.records/2"
_WITHOUT_DIGEST = "regard.records/1"  # what was written before files could be told from altered ones
_GRIDS = ("query_grid", "key_grid")


def save_records(
    records: Sequence[Record], path: str | os.PathLike, *, as_weights: bool = False, title: str = ""
) -> None:
    """Write records to one file; ``as_weights`` writes the weights themselves, not what they are made of.

    A tensor that several records share, such as a mask, is written once.
    """
    if not records:
        raise ArgumentError("records", "there are none to write", "capture a model, or choose other records")
    tensors: dict[str, Tensor] = {}
    named: dict[tuple, str] = {}
    specs = [_spec(n, record, as_weights, tensors, named) for n, record in enumerate(records)]
    header = {"format": FORMAT, "records": json.dumps({"title": title, "records": specs})}
    header["digest"] = _digest(header, tensors)
    write_atomically(path, lambda part: save_file(tensors, part, metadata=header))


def load_records(path: str | os.PathLike) -> list[Record]:
    """Read the records that :func:`save_records` wrote; a file that was altered is an error that says so."""
    header, tensors = read_file(path, FORMAT, "a file of records", older=_WITHOUT_DIGEST)
    sealed = header["format"] == FORMAT or "digest" in header
    if sealed and header.get("digest") != _digest(header, tensors):
        raise FileError(f"path: {path} was altered after it was written: its digest does not fit its content")
    try:
        return [_record(spec, tensors) for spec in json.loads(header["records"])["records"]]
    except MISFITS as error:
        raise FileError(f"path: the header of {path} does not fit its tensors: {error}") from error


def _digest(header: dict[str, str], tensors: dict[str, Tensor]) -> str:
    """A fingerprint of everything that a file says."""
    found = hashlib.sha256((header["format"] + header.get("records", "")).encode("utf-8"))
    for name, tensor in sorted(tensors.items()):
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        found.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def _spec(
    n: int, record: Record, as_weights: bool, tensors: dict[str, Tensor], named: dict[tuple, str]
) -> dict[str, Any]:
    source = record.map._source
    if as_weights and record.dropped is None:
        source = Stored(record.map.weights())
    own: dict[str, Tensor] = {}
    map_spec = spec_of_source(source, own)
    names = {}
    for name, tensor in own.items():
        same = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype)
        if same not in named or not tensor.numel():
            named[same] = f"{n}.{name}"
            tensors[named[same]] = _alone(tensor)
        names[name] = named[same]
    told = {
        field: getattr(record, field)
        for field in ("name", "layer", "kind", "query_tokens", "key_tokens", *_GRIDS, "query_extra", "heads")
    }
    return told | {
        "key_extra": record.key_extra,
        "dropped": record.dropped,
        "map": map_spec,
        "tensors": names,
    }


def _alone(tensor: Tensor) -> Tensor:
    """A tensor with a storage of its own: the format has no views."""
    whole = tensor.is_contiguous() and tensor.untyped_storage().nbytes() == tensor.nbytes
    return tensor if whole else tensor.contiguous().clone()


def _record(spec: dict[str, Any], tensors: dict[str, Tensor]) -> Record:
    own = {name: tensors[stored] for name, stored in spec["tensors"].items()}
    source = source_from_spec(spec["map"], own)
    batch, _, q, k = source.grid
    for field in _GRIDS:
        if spec[field] is not None:
            spec[field] = (int(spec[field][0]), int(spec[field][1]))
    layer = None if spec["layer"] is None else int(spec["layer"])
    return Record(
        name=_text(spec["name"]),
        layer=layer,
        kind=_text(spec["kind"]),
        map=AttentionMap(source),
        query_tokens=_labels(spec["query_tokens"], batch, q),
        key_tokens=_labels(spec["key_tokens"], batch, k),
        query_grid=spec["query_grid"],
        key_grid=spec["key_grid"],
        query_extra=int(spec["query_extra"]),
        key_extra=int(spec["key_extra"]),
        dropped=None if spec["dropped"] is None else _text(spec["dropped"]),
        heads=_heads(spec.get("heads"), source.grid.h),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a text, got {value!r}")
    return value


def _heads(value: Any, count: int) -> tuple[int, ...] | None:
    if value is None:
        return None
    heads = tuple(int(n) for n in value)
    if len(heads) != count:
        raise ValueError(f"numbers for {count} heads were expected, got {len(heads)}")
    return heads


def _labels(value: Any, batch: int, count: int) -> list[list[str]] | None:
    if value is None:
        return None
    labels = [[_text(word) for word in row] for row in value]
    if len(labels) != batch or any(len(row) != count for row in labels):
        raise ValueError(f"labels for {batch} x {count} tokens were expected")
    return labels
