"""Maps of where a classifier of pictures looks, on the grid of its finest patches."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.analysis import class_token_map, image_rollout, pooling_map, to_pixels
from regard.maps import AttentionMap, Record

__all__ = ["GridMaps", "grid_maps", "map_record"]

Grid = tuple[int, int]

# The explanation of the maps below the page of the viewer.
_NOTE = (
    "these maps are made from the layers listed below them: the rollout traces the attention of all layers back to the "
    "patches, and the other maps are the attention that the vector of the picture is made with"
)


@dataclass(frozen=True)
class GridMaps:
    """Weights of the patches of one picture, in one row for each map."""

    names: list[str]
    weights: np.ndarray  # (maps,rows * columns)
    grid: Grid


def grid_maps(records: Sequence[Record]) -> GridMaps:
    """Return the maps of the attention of a model for one picture.

    ``records`` are those of all layers, and of the pooling if it has attention. The first maps are the attention that
    the vector of the picture is made with: that of the class token in the last layer, that of each head of the pooling,
    or the mean of all patches in each stage. The last map is the rollout through all layers, which traces that vector
    back to the patches of the first layer. Coarser patches of later stages are divided among the finest ones.
    """
    layers = [record for record in records if record.kind != "cross"]
    grid, last = _grid(layers[0]), records[-1]
    if last.kind == "cross":
        heads = range(last.map.shape[1])
        names = ["pooling"] if len(heads) == 1 else [f"pooling, head {head}" for head in heads]
        maps = [pooling_map(last, head=head)[0] for head in heads]
    elif last.query_extra:
        names, maps = ["class token"], [class_token_map(last)[0]]
    else:
        stages = [list(group) for _, group in itertools.groupby(layers, key=_grid)]
        names = ["last layer"] if len(stages) == 1 else [f"stage {n + 1}" for n in range(len(stages))]
        grids = [_grid(stage[0]) for stage in stages]
        maps = [_divided(_received(stage[-1]), grids[: n + 1]) for n, stage in enumerate(stages)]
    maps.append(image_rollout(records)[0])
    return GridMaps([*names, "rollout"], np.stack([one.reshape(-1) for one in maps]), grid)


def map_record(maps: GridMaps) -> Record:
    """Return maps as a record, whose queries are the names of the maps and whose keys are the patches.

    The viewer shows the names above the picture, and opens there.

    >>> record = map_record(GridMaps(["class token", "rollout"], np.full((2, 6), 1 / 6), (2, 3)))
    >>> record.query_tokens, record.key_grid, tuple(record.map.shape)
    ([['class token', 'rollout']], (2, 3), (1, 1, 2, 6))
    """
    return Record(
        name="where the classifier looks",
        layer=None,
        kind="cross",
        map=AttentionMap.from_weights(maps.weights[None, None]),  # (1,1,maps,patches)
        query_tokens=[list(maps.names)],
        key_grid=maps.grid,
        note=_NOTE,
    )


def _grid(record: Record) -> Grid:
    assert record.key_grid is not None  # the models of pictures set it
    return record.key_grid


def _received(record: Record) -> np.ndarray:
    """Return the mean weight that each patch gets from all patches, over all heads, ``(patches,)``."""
    return record.map.mean_heads().weights()[0, 0].mean(dim=0).double().cpu().numpy()


def _divided(weights: np.ndarray, grids: Sequence[Grid]) -> np.ndarray:
    """Divide the weights of the patches of the last of ``grids`` among those of the first.

    >>> _divided(np.array([0.5, 0.5]), [(2, 3), (1, 2)])
    array([0.125, 0.125, 0.25 , 0.125, 0.125, 0.25 ])
    """
    place = np.arange(len(weights)).reshape(grids[-1])
    for grid in reversed(grids[:-1]):
        place = to_pixels(place, grid)
    return (weights / np.bincount(place.reshape(-1)))[place.reshape(-1)]
