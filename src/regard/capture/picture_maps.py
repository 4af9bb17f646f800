"""The weights of words over the pictures of a prompt, as methods of a recording."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from regard._tokens import token_texts
from regard.errors import ArgumentError, CaptureError, UnknownNameError
from regard.maps.patch_grids import PatchGrid
from regard.maps.picture_maps import PictureMap, sink_patches
from regard.maps.records import Record
from regard.maps.unrecorded import Unrecorded
from regard.shapes import whole_number

__all__ = ["picture_maps_of"]

_NONE = "no record has patches of a picture among its keys"


def picture_maps_of(
    records: Sequence[Record],
    word: str | int | None,
    *,
    layer: int | None,
    head: int | None,
    batch: int,
    picture: int,
    view: str,
    without_sinks: bool,
) -> list[PictureMap]:
    """Return the maps of one word, or of all words if ``word`` is None, over one picture of a sequence."""
    chosen = _of_layer(_pictured(records), layer)
    first = chosen[0]
    if any(record.map.shape != first.map.shape or record.pictures != first.pictures for record in chosen):
        raise ArgumentError(
            "layer", "the records are of several runs of the model", "choose one, as in seen[:2], or a layer"
        )
    batch = _in_range("batch", batch, first.map.shape[0], "sequences")
    patches = _grid(first, batch, picture, view)
    words = _words(first, batch)
    labels = None if first.query_tokens is None else token_texts(first.query_tokens[batch])
    queries = words if word is None else [_query(first, word, words, labels)]
    weights = _weights(chosen, batch, head, queries, patches)  # (queries, patches)
    sinks = np.zeros(weights.shape[1], dtype=bool)
    if without_sinks:
        after = [n for n in words if first.kind != "causal" or n > max(patches.keys)]
        sinks = sink_patches(_weights(chosen, batch, head, after, patches))
    places = tuple((int(n) // patches.grid[1], int(n) % patches.grid[1]) for n in sinks.nonzero()[0])
    return [
        PictureMap(
            word=str(query) if labels is None else labels[query],
            query=query,
            weights=np.where(sinks, 0.0, row).reshape(patches.grid),
            total=float(row.sum()),
            patches=patches,
            sinks=places,
        )
        for query, row in zip(queries, weights, strict=True)
    ]


def _pictured(records: Sequence[Record]) -> list[Record]:
    """Return the records with places of picture tokens, or else those whose keys are patches.

    Raises CaptureError if the weights over the picture tokens were not recorded.
    """
    kept = [record for record in records if not isinstance(record.map._source, Unrecorded)]
    found = [record for record in kept if record.pictures is not None and any(record.pictures.sequences)]
    if found:
        return found
    for record in records:
        if record.pictures is not None and isinstance(record.map._source, Unrecorded):
            raise CaptureError(record.map._source.why)
    reasons = [record.pictures.unplaced for record in records if record.pictures and record.pictures.unplaced]
    found = [record for record in kept if record.key_grid is not None]
    if reasons or not found:
        raise ArgumentError("picture", reasons[0] if reasons else _NONE)
    return found


def _of_layer(records: list[Record], layer: int | None) -> list[Record]:
    if layer is None:
        return records
    numbers = sorted({record.layer for record in records if record.layer is not None})
    wanted = layer + numbers[-1] + 1 if layer < 0 and numbers else layer
    found = [record for record in records if record.layer == wanted]
    if not found:
        raise ArgumentError(
            "layer", f"there is no record of layer {layer} with a picture", f"there are {numbers}"
        )
    return found


def _grid(record: Record, batch: int, picture: int, view: str) -> PatchGrid:
    """Return the patches of one picture of a sequence."""
    if record.pictures is None:
        rows, columns = record.key_grid or (1, 1)
        keys = tuple(range(record.key_extra, record.key_extra + rows * columns))
        box = (0.0, 0.0, float(columns), float(rows))
        grids: tuple[PatchGrid, ...] = (
            PatchGrid(picture=batch, grid=(rows, columns), keys=keys, size=(rows, columns), box=box),
        )
    else:
        grids = record.pictures.sequences[batch]
    numbers = list(dict.fromkeys(grid.picture for grid in grids))
    number = numbers[_in_range("picture", picture, len(numbers), f"pictures of sequence {batch}")]
    views = {grid.view: grid for grid in grids if grid.picture == number}
    if view not in views:
        raise UnknownNameError("view", view, list(views))
    return views[view]


def _in_range(name: str, value: int, count: int, what: str) -> int:
    number = whole_number(name, value)
    if not -count <= number < count:
        raise ArgumentError(name, f"expected one of {count} {what}, counted from 0, got {value}")
    return number % count


def _words(record: Record, batch: int) -> list[int]:
    """Return the positions of the words among the queries."""
    if record.pictures is not None and record.pictures.words:
        return list(record.pictures.words[batch])
    return list(range(record.map.shape[2]))


def _query(record: Record, word: str | int, words: list[int], labels: list[str] | None) -> int:
    """Return the position of a word, given as its label or its position."""
    if not isinstance(word, str):
        return _in_range("word", word, record.map.shape[2], "tokens")
    bare = {n: str(n) if labels is None else labels[n].lstrip(" ") for n in words}
    found = [n for n, label in bare.items() if word.lstrip(" ") == label]
    if not found:
        raise UnknownNameError("word", word, list(bare.values()))
    if len(found) > 1:
        raise ArgumentError(
            "word", f"{word!r} is there {len(found)} times", f"give one of the positions {found}"
        )
    return found[0]


def _weights(
    records: list[Record], batch: int, head: int | None, queries: list[int], patches: PatchGrid
) -> np.ndarray:
    """Return the weights of some queries over the patches, (queries, patches), as the mean of records and heads."""
    if not queries:
        return np.zeros((0, len(patches.keys)))
    parts = []
    for record in records:
        heads = slice(None) if head is None else _head(record, head)
        tile = record.map.select(batch=batch, heads=heads).tile(
            torch.tensor(queries), torch.tensor(patches.keys)
        )
        parts.append(tile[0].double().mean(dim=0).cpu().numpy())  # (queries, patches)
    return np.mean(parts, axis=0)


def _head(record: Record, head: int) -> int:
    """Return the index in the map of a head of the model."""
    if record.heads is None:
        return _in_range("head", head, record.map.shape[1], "heads")
    if head not in record.heads:
        raise ArgumentError("head", f"head {head} was not recorded", f"there are {list(record.heads)}")
    return record.heads.index(head)
