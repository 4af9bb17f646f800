"""Saving and loading of records as one safetensors file, the format of ``seen.save`` and ``regard view``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from regard.checks import rows_and_columns, whole_number
from regard.errors import ArgumentError, FileError
from regard.maps.attention_map import AttentionMap
from regard.maps.patch_grids import PictureLayout
from regard.maps.records import Record
from regard.maps.sources import Stored
from regard.maps.storage import (
    MISFITS,
    read_file,
    source_from_spec,
    spec_of_source,
    without_shared_storage,
    write_file,
)

__all__ = ["load_records", "save_records"]

FORMAT = "regard.records/2"
_GRIDS = ("query_grid", "key_grid")


def save_records(records: Sequence[Record], path: str | os.PathLike, *, as_weights: bool = False) -> None:
    """Write records to one safetensors file.

    The file holds q, k, mask, bias and log-sum-exp of each map, or the full weights with ``as_weights=True``. A
    tensor that several records share, such as a mask, is written once. No records raise ArgumentError.
    """
    if not records:
        raise ArgumentError(
            "records", "expected at least one record, got none", "capture a model, or choose other records"
        )
    tensors: dict[str, Tensor] = {}
    named: dict[tuple, str] = {}
    specs = [_spec(n, record, as_weights, tensors, named) for n, record in enumerate(records)]
    layouts = list(dict.fromkeys(record.pictures for record in records if record.pictures is not None))
    for spec, record in zip(specs, records, strict=True):
        spec["pictures"] = None if record.pictures is None else layouts.index(record.pictures)
    content = {"records": specs, "pictures": [layout.spec() for layout in layouts]}
    write_file(path, FORMAT, "records", content, tensors)


def load_records(path: str | os.PathLike) -> list[Record]:
    """Read records from a file written by :func:`save_records`, in the same order.

    Raises :class:`regard.errors.FileError` if the file was modified, or is not a file of records.
    """
    content, tensors = read_file(path, FORMAT, "records", "a file of records")
    try:
        return [_record(spec, tensors, content.get("pictures", ())) for spec in content["records"]]
    except MISFITS as error:
        raise FileError(f"the header of {path} does not fit its tensors: {error}", argument="path") from error


def _spec(
    n: int, record: Record, as_weights: bool, tensors: dict[str, Tensor], named: dict[tuple, str]
) -> dict[str, Any]:
    source = record.map._source
    if as_weights and record.dropped is None:
        source = Stored(record.map.weights())
    map_tensors: dict[str, Tensor] = {}
    map_spec = spec_of_source(source, map_tensors)
    names = {}
    for name, tensor in map_tensors.items():
        identity = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype)
        if identity not in named or not tensor.numel():
            named[identity] = f"{n}.{name}"
            tensors[named[identity]] = without_shared_storage(tensor)
        names[name] = named[identity]
    values = {
        field: getattr(record, field)
        for field in ("name", "layer", "kind", "query_tokens", "key_tokens", *_GRIDS, "query_extra", "heads")
    }
    return values | {
        "key_extra": record.key_extra,
        "dropped": record.dropped,
        "sinks": record.sinks,
        "note": record.note,
        "map": map_spec,
        "tensors": names,
    }


def _record(spec: dict[str, Any], tensors: dict[str, Tensor], layouts: Sequence[dict[str, Any]]) -> Record:
    map_tensors = {name: tensors[stored] for name, stored in spec["tensors"].items()}
    source = source_from_spec(spec["map"], map_tensors)
    batch, _, q, k = source.grid
    layer = None if spec["layer"] is None else whole_number("layer", spec["layer"], least=0)
    if layer is not None and layer >= 2**31:
        raise ValueError(f"layer {layer}")
    extras = {name: whole_number(name, spec[name], least=0) for name in ("query_extra", "key_extra")}
    for field, extra, count in zip(_GRIDS, extras.values(), (q, k), strict=True):
        spec[field] = _grid(field, spec[field], extra, count)
    layout = spec.get("pictures")
    return Record(
        name=_text(spec["name"]),
        layer=layer,
        kind=_text(spec["kind"]),
        map=AttentionMap(source),
        query_tokens=_labels(spec["query_tokens"], batch, q),
        key_tokens=_labels(spec["key_tokens"], batch, k),
        query_grid=spec["query_grid"],
        key_grid=spec["key_grid"],
        **extras,
        dropped=None if spec["dropped"] is None else _text(spec["dropped"]),
        heads=_heads(spec.get("heads"), source.grid.h),
        sinks=_sinks(spec.get("sinks", ()), k),
        note=None if spec.get("note") is None else _text(spec["note"]),
        pictures=None
        if layout is None
        else PictureLayout.from_spec(layouts[whole_number("pictures", layout, least=0)], batch, k),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a string, got {value!r}")
    return value


def _grid(name: str, value: Any, extra: int, count: int) -> tuple[int, int] | None:
    """Return the rows and columns of the patches among ``count`` tokens, of which ``extra`` come before the patches."""
    if extra > count:
        raise ValueError(f"{extra} tokens before the patches, but there are {count}")
    if value is None:
        return None
    rows, columns = rows_and_columns(name, value)
    if extra + rows * columns > count:
        raise ValueError(f"{rows} x {columns} patches after {extra} tokens, but there are {count}")
    return rows, columns


def _heads(value: Any, count: int) -> tuple[int, ...] | None:
    if value is None:
        return None
    heads = tuple(whole_number("heads", n, least=0) for n in value)
    if len(heads) != count or max(heads, default=0) >= 2**31:
        raise ValueError(f"numbers for {count} heads were expected, got {len(heads)}")
    return heads


def _sinks(value: Any, count: int) -> tuple[int, ...]:
    sinks = tuple(whole_number("sinks", n) for n in value)
    if any(not 0 <= n < count for n in sinks):
        raise ValueError(f"sinks among {count} keys were expected, got {list(sinks)}")
    return sinks


def _labels(value: Any, batch: int, count: int) -> list[list[str]] | None:
    if value is None:
        return None
    labels = [[_text(word) for word in row] for row in value]
    if len(labels) != batch or any(len(row) != count for row in labels):
        raise ValueError(f"labels for {batch} x {count} tokens were expected")
    return labels
