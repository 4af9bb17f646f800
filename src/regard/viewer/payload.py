"""The document of a page, which is JSON that describes the records, with binary blobs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from regard._tokens import token_texts
from regard.checks import rows_and_columns
from regard.errors import ArgumentError, DtypeError, ShapeError
from regard.maps import AttentionMap, PictureLayout, Record
from regard.maps.records import towers_of
from regard.maps.sources import HeadMean, Recomputed, Source
from regard.maps.unrecorded import Unrecorded
from regard.viewer.blobs import Blobs
from regard.viewer.encoding import encode, without_selections
from regard.viewer.layouts import LayoutTable, check_pictures
from regard.viewer.opening import opening
from regard.viewer.pictures import as_pictures
from regard.viewer.progress import PageProgress
from regard.viewer.tiles import HIDDEN, Overview, has_negative_weights

__all__ = ["Document", "checked_records", "embedded", "remote", "source_of"]

FORMAT = "regard.viewer/1"
# The most bytes of all blobs of a page. Browsers cannot load much more text.
MAX_BYTES = 400 * 2**20
# Up to this number of stored weights in a page, each takes 16 bits, and otherwise 8 bits.
EIGHT_BITS_BEYOND = 2**23
# The cells along a side of an overview, in pages of more than MANY_HEADS heads and in others.
OVERVIEW_SIDES = (64, 256)
MANY_HEADS = 32
# From this number of tokens on, a hint recommends the server instead of a page.
LONG = 8_000
HINT = (
    "A page of maps of {:,} tokens is being written. For maps of this size, save the recording with "
    "seen.save('FILE.safetensors') and open it with `regard view FILE.safetensors`, which computes only the parts "
    "that are shown."
)


class Document(NamedTuple):
    """The JSON values of a page, and the blobs that they refer to by number."""

    values: dict[str, Any]
    blobs: list[bytes]


def embedded(
    records: Sequence[Record], *, title: str | None = None, images: object = None, max_bytes: int = MAX_BYTES
) -> Document:
    """Return a document that contains the maps, or raise ArgumentError if they take more than ``max_bytes``.

    ``images`` are as for :func:`regard.viewer.html`. Long computations report their progress on the error stream.
    """
    records = checked_records(records)
    blobs = Blobs()
    heads = sum(record.map.shape[0] * record.map.shape[1] for record in records)
    side = OVERVIEW_SIDES[heads <= MANY_HEADS]
    stored = sum(_stored_weights(source_of(record.map)) for record in records)
    bits = 16 if stored <= EIGHT_BITS_BEYOND else 8
    if stored * bits // 8 > max_bytes:
        raise _too_large(stored * bits // 8, max_bytes)
    shown, labels, layouts = [], LabelTable(), LayoutTable()
    longest = max(max(record.map.shape[2:]) for record in records)
    total = sum(_weights_computed(record.map, side) for record in records)
    hint = HINT.format(longest) if longest >= LONG else ""
    with PageProgress(total, hint, at_once=bool(hint)) as progress:
        for record in records:
            large = max(record.map.shape[2:]) > side
            found = encode(
                source_of(record.map), blobs, bits, side=side if large else None, progress=progress
            )
            entry = _described(record, labels, layouts)
            entry |= {"source": found.spec, "error": found.error, "measuredRows": found.rows}
            if large:
                cells = found.overview
                cells = _streamed_overview(source_of(record.map), side, progress) if cells is None else cells
                entry["overview"] = _overview(cells, entry["signed"], blobs)
            shown.append(entry)
            if blobs.size > max_bytes:
                raise _too_large(blobs.size, max_bytes)
    return _document(records, shown, (labels, layouts), title, images, blobs)


def _weights_computed(map: AttentionMap, side: int) -> int:
    """Return the number of weights that are computed to encode a map, for the progress."""
    source = without_selections(source_of(map))
    once = isinstance(source, Recomputed) and source.score is None
    again = isinstance(source, HeadMean) or max(map.shape[2:]) > side
    inner = math.prod(source.source.grid) if isinstance(source, HeadMean) else math.prod(source.grid)
    return inner if once else inner * (1 + again)


def remote(records: Sequence[Record], *, title: str | None = None, images: object = None) -> Document:
    """Return a document whose weights the page requests from a server."""
    records = checked_records(records)
    blobs, labels, layouts = Blobs(), LabelTable(), LayoutTable()
    remote_source = {"source": {"type": "remote"}, "error": 0.0}
    shown = [_described(record, labels, layouts) | remote_source for record in records]
    return _document(records, shown, (labels, layouts), title, images, blobs)


def source_of(map: AttentionMap) -> Source:
    """Return the source of the weights of a map."""
    return map._source


def checked_records(records: Sequence[Record] | Record) -> list[Record]:
    """Return the records as a list without those that were not kept.

    Raises an error that names the record for anything else than records, for an empty map, and for labels, heads or
    patches that do not fit the map. ArgumentError is raised if no record is left.
    """
    found = [records] if isinstance(records, Record) else list(records)
    if not found:
        raise ArgumentError(
            "records", "expected at least one record, got none", "capture a call of the model first"
        )
    for n, record in enumerate(found):
        if not (isinstance(record, Record) and isinstance(record.map, AttentionMap)):
            raise DtypeError(f"records[{n}]", f"expected a regard.maps.Record, got {type(record).__name__}")
        b, h, q, k = record.map.shape
        if 0 in (b, h, q, k):
            raise ShapeError(
                f"records[{n}].map", f"expected a map that is not empty, got (b,h,q,k) = {(b, h, q, k)}"
            )
        if record.heads is not None and len(record.heads) != h:
            raise ShapeError(f"records[{n}].heads", f"{len(record.heads)} numbers for {h} heads")
        _check_labels(f"records[{n}].query_tokens", record.query_tokens, b, q, "queries")
        _check_labels(f"records[{n}].key_tokens", record.key_tokens, b, k, "keys")
        _check_grid(f"records[{n}].query_grid", record.query_grid, record.query_extra, q)
        _check_grid(f"records[{n}].key_grid", record.key_grid, record.key_extra, k)
        _check_layout(f"records[{n}].pictures", record.pictures, b, k)
    whole = [record for record in found if not isinstance(source_of(record.map), Unrecorded)]
    if not whole:
        raise ArgumentError("records", "none of the records was kept", found[0].dropped or "")
    return whole


def _check_labels(name: str, labels: list[list[str]] | None, b: int, n: int, what: str) -> None:
    if labels is None:
        return
    if len(labels) != b:
        raise ShapeError(name, f"labels of {len(labels)} sequences, but the map has {b}")
    for sequence, words in enumerate(labels):
        if len(words) != n:
            raise ShapeError(f"{name}[{sequence}]", f"{len(words)} labels for {n} {what}")


def _check_grid(name: str, grid: tuple[int, int] | None, extra: int, n: int) -> None:
    if grid is None:
        return
    rows, columns = rows_and_columns(name, grid)
    if rows * columns + extra > n or extra < 0:
        raise ShapeError(name, f"{grid} patches after {extra} other tokens do not fit {n} tokens")


def _check_layout(name: str, layout: PictureLayout | None, b: int, k: int) -> None:
    if layout is None:
        return
    if len(layout.sequences) != b:
        raise ShapeError(name, f"pictures of {len(layout.sequences)} sequences, but the map has {b}")
    for patches in (patches for grids in layout.sequences for patches in grids):
        rows, columns = patches.grid
        if len(patches.keys) != rows * columns or not all(0 <= key < k for key in patches.keys):
            raise ShapeError(name, f"{rows} x {columns} patches do not fit {len(patches.keys)} of {k} keys")


class LabelTable:
    """The lists of labels of a document, as the texts of their tokens, in which equal lists are stored once."""

    def __init__(self) -> None:
        self.lists: list[list[str]] = []
        self._places: dict[tuple[str, ...], int] = {}

    def add(self, labels: list[list[str]] | None) -> list[int] | None:
        """Store the labels of each sequence, and return the index of each list in ``lists``, or None for None."""
        if labels is None:
            return None
        found = []
        for words in labels:
            key = tuple(str(word) for word in words)
            if key not in self._places:
                self._places[key] = len(self.lists)
                self.lists.append(token_texts(key))
            found.append(self._places[key])
        return found


def _described(record: Record, labels: LabelTable, layouts: LayoutTable) -> dict[str, Any]:
    queries, keys = record.query_tokens, record.key_tokens
    if keys is None and record.kind != "cross" and record.map.shape[2] == record.map.shape[3]:
        keys = queries  # in self-attention both sides have the same tokens
    return {
        "name": str(record.name),
        "layer": record.layer,
        "kind": str(record.kind),
        "role": None,
        "shape": list(record.map.shape),
        "signed": has_negative_weights(source_of(record.map)),
        "heads": None if record.heads is None else list(record.heads),
        "queryTokens": labels.add(queries),
        "keyTokens": labels.add(keys),
        "queryGrid": None if record.query_grid is None else list(record.query_grid),
        "keyGrid": None if record.key_grid is None else list(record.key_grid),
        "queryExtra": record.query_extra,
        "keyExtra": record.key_extra,
        "pictures": layouts.add(record.pictures),
        "dropped": record.dropped,
        "note": record.note,
    }


def _document(
    records: Sequence[Record],
    shown: list[dict[str, Any]],
    tables: tuple[LabelTable, LayoutTable],
    title: str | None,
    images: object,
    blobs: Blobs,
) -> Document:
    pictures = [{"type": kind, "blob": blobs.add(data)} for kind, data in as_pictures(images)]
    labels, layouts = tables
    check_pictures(len(pictures), shown, layouts)
    _give_roles(shown)
    values = {
        "format": FORMAT,
        "title": "Attention" if title is None else str(title),
        "records": shown,
        "labels": labels.lists,
        "pictures": pictures,
        "layouts": layouts.specs(len(pictures)),
        "opening": opening(records, pictured=bool(pictures)),
    }
    return Document(values, blobs.parts)


def _give_roles(shown: list[dict[str, Any]]) -> None:
    """Set the role of each entry to encoder, decoder or cross, or to its tower.

    The first three are for a model that has cross-attention and another kind.
    """
    kinds = {entry["kind"] for entry in shown}
    of_seq2seq = "cross" in kinds and len(kinds) > 1
    for entry in shown if of_seq2seq else ():
        name = entry["name"].lower()
        if entry["kind"] == "cross":
            entry["role"] = "cross"
        elif "decoder" in name or "encoder" in name:
            entry["role"] = "decoder" if "decoder" in name else "encoder"
        else:
            entry["role"] = "decoder" if entry["kind"] == "causal" else "encoder"
    titles = [
        (entry["layer"], entry["role"], n if entry["layer"] is None else 0) for n, entry in enumerate(shown)
    ]
    for entry, tower in zip(shown, towers_of([entry["name"] for entry in shown], titles), strict=True):
        if tower is not None and entry["kind"] != "cross":
            entry["role"] = tower


def _stored_weights(source: Source) -> int:
    """Return the number of weights that the page stores, which is 0 if it computes them from q and k."""
    source = without_selections(source)
    if isinstance(source, HeadMean):
        return _stored_weights(source.source)
    if isinstance(source, Recomputed) and source.score is None:
        return 0
    return int(np.prod(source.grid, dtype=np.int64))


def _streamed_overview(source: Source, side: int, progress: PageProgress) -> np.ndarray:
    """Compute the overviews of a map in blocks of rows, ``(b,h,rows,cols)``."""
    b, h, q, k = source.grid
    cells = np.zeros((b, h, min(q, side), min(k, side)), dtype=np.float32)
    for sequence in range(b):
        for head in range(h):
            overview = Overview(source, sequence, head, side)
            before = 0.0
            for done in overview.stream():
                progress.add(round((done - before) * q * k))
                before = done
            cells[sequence, head] = overview.values
    return cells


def _overview(cells: np.ndarray, signed: bool, blobs: Blobs) -> dict[str, Any]:
    """Encode the overviews of a map ``(b,h,rows,cols)``, so that the page need not compute all of it at the start.

    A cell takes one byte. 0 is hidden. 1 to 255 are steps of the square root, which resolves small weights, from 0 to
    the largest weight, or from minus to plus the largest magnitude if weights are negative.
    """
    hidden = cells <= HIDDEN
    weights = np.where(hidden, 0.0, cells)
    tops = np.abs(weights).max(axis=(2, 3)).astype(np.float32)  # (b,h)
    root = np.sqrt(np.abs(weights) / np.where(tops > 0, tops, 1.0)[..., None, None])
    codes = 128 + np.rint(127 * root * np.sign(weights)) if signed else 1 + np.rint(254 * root)
    return {"codes": blobs.array(np.where(hidden, 0, codes).astype(np.uint8)), "tops": blobs.array(tops)}


def _too_large(size: int, limit: int) -> ArgumentError:
    return ArgumentError(
        "records",
        f"a page of these maps would hold more than {size / 2**20:,.0f} MB, the limit is {limit / 2**20:,.0f} MB",
        "show fewer layers, or save the records and open them with `regard view`",
    )
