"""Maps of where a classifier of pictures looks, on the grid of its finest patches."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.analysis import rollout
from regard.maps import Record

__all__ = ["GridMaps", "grid_maps"]


@dataclass(frozen=True)
class GridMaps:
    """Weights of the patches of one picture, in one row for each map."""

    names: list[str]
    weights: np.ndarray  # (maps,rows * columns)
    grid: tuple[int, int]


def grid_maps(records: Sequence[Record], *, class_token: bool) -> GridMaps:
    """Return the maps of the attention of a model for one picture.

    ``records`` are those of all layers, and of the pooling if it has attention. The first rows are the attention that
    the vector of the picture is made with: that of the class token in the last layer, that of each head of the pooling,
    or the mean of all patches in each stage. The last row is the rollout through all layers, which traces that vector
    back to the patches of the first layer. Coarser patches of later stages are spread over the finest ones.
    """
    layers = [record for record in records if record.kind != "cross"]
    stages = [list(group) for _, group in itertools.groupby(layers, key=lambda record: record.key_grid)]
    through = _through(stages)  # (tokens of the last stage,tokens of the first stage)
    pooling = next((_weights(record) for record in records if record.kind == "cross"), None)  # (h,1,k)
    grid, extra = _grid(layers[0]), layers[0].key_extra
    if pooling is not None:
        heads = pooling[:, 0]  # (h,k)
        names = ["pooling"] if len(heads) == 1 else [f"pooling, head {head}" for head in range(len(heads))]
        rows = [*heads, heads.mean(axis=0) @ through]
    elif class_token:
        names, rows = ["class token"], [_weights(layers[-1]).mean(axis=0)[0], through[0]]
    else:
        names = ["last layer"] if len(stages) == 1 else [f"stage {n + 1}" for n in range(len(stages))]
        rows = [_received(stage[-1]) @ _merging(grid, _grid(stage[-1]), extra) for stage in stages]
        rows.append(through[extra:].mean(axis=0))
    return GridMaps([*names, "rollout"], np.stack([row[extra:] for row in rows]), grid)


def _weights(record: Record) -> np.ndarray:
    """Return the weights ``(h,q,k)`` of the first picture of a record."""
    return record.map.weights()[0].double().cpu().numpy()


def _grid(record: Record) -> tuple[int, int]:
    assert record.key_grid is not None  # the models of pictures set it
    return record.key_grid


def _received(record: Record) -> np.ndarray:
    """Return the mean weight ``(k,)`` that each token gets from the patches of the picture, over all heads."""
    return _weights(record).mean(axis=0)[record.query_extra :].mean(axis=0)


def _through(stages: list[list[Record]]) -> np.ndarray:
    """Return the rollout ``(q,k)`` of all layers, from the tokens of the last stage to those of the first."""
    total: np.ndarray | None = None
    before: tuple[int, int] | None = None
    for stage in stages:
        share, grid = rollout(stage)[0], _grid(stage[0])  # (tokens,tokens)
        if total is None or before is None:
            total = share
        else:
            total = share @ _merging(before, grid) @ total
        before = grid
    assert total is not None
    return total


def _merging(fine: tuple[int, int], coarse: tuple[int, int], extra: int = 0) -> np.ndarray:
    """Return the share of each fine patch in each coarse one, ``(coarse patches,fine patches)``.

    ``extra`` tokens before the patches, which are not merged, are kept.
    """
    if fine == coarse:
        return np.eye(extra + fine[0] * fine[1])
    inside = _spread(np.arange(coarse[0] * coarse[1]), coarse, fine)  # (fine patches,)
    belongs = np.arange(coarse[0] * coarse[1])[:, None] == inside[None]
    return belongs / np.maximum(belongs.sum(axis=1, keepdims=True), 1)


def _spread(values: np.ndarray, coarse: tuple[int, int], fine: tuple[int, int]) -> np.ndarray:
    """Return the value of the coarse patch that each fine patch lies in.

    >>> _spread(np.array([1, 2]), (1, 2), (2, 3))
    array([1, 1, 2, 1, 1, 2])
    """
    if coarse == fine:
        return values
    # The sides of a grid are halved once or several times, and rounded up.
    times = max(0, (fine[0] - 1).bit_length() - (coarse[0] - 1).bit_length())
    times = max(times, (fine[1] - 1).bit_length() - (coarse[1] - 1).bit_length())
    rows, columns = (np.arange(side) >> times for side in fine)
    return values.reshape(coarse)[rows[:, None], columns[None, :]].reshape(-1)
