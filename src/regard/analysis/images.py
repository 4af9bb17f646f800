"""Where a vision model looks, as numbers on the grid of the patches of an image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.analysis._layers import check_not_negative
from regard.analysis.flow import SMALLEST, check_one_stack
from regard.errors import ArgumentError, DtypeError, ShapeError
from regard.maps import Record

__all__ = ["class_token_map", "image_rollout", "patch_map", "pooling_map", "to_pixels"]


def class_token_map(record: Record, *, token: int = 0, head: int | None = None) -> np.ndarray:
    """Return the weights of the class token on the patches of each image, ``(b,rows,columns)``.

    ``record`` is the self-attention of one layer. ``token`` is the number of the token before the patches, such as 1
    for the distillation token of DeiT. ``head`` is a head, or None for the mean of all heads. The rest of each row is
    attention to the tokens before the patches.

    >>> import torch
    >>> from regard.models import VisionTransformer, VisionTransformerConfig
    >>> model = VisionTransformer(VisionTransformerConfig(classes=3, image_size=(8, 12), width=8, layers=2))
    >>> records = []
    >>> _ = model(torch.rand(5, 1, 8, 12), records=records)
    >>> class_token_map(records[-1]).shape
    (5, 2, 3)
    """
    _patches(record, "self")
    if not 0 <= token < record.query_extra:
        problem = f"the model has {record.query_extra} tokens before its patches, got token {token}"
        raise ArgumentError(
            "token", problem, "use pooling_map, patch_map or image_rollout without a class token"
        )
    return _row(record, token, head)


def pooling_map(record: Record, *, head: int | None = None) -> np.ndarray:
    """Return the weights of an attention pooling on the patches of each image, ``(b,rows,columns)``.

    ``record`` is the attention of the pooling, which has a single query. ``head`` is a head, or None for the mean of
    all heads.

    >>> import torch
    >>> from regard.maps import AttentionMap
    >>> weights = AttentionMap.from_weights(torch.tensor([[[[0.1, 0.2, 0.3, 0.4]]]]))
    >>> pooling_map(Record(name="pooling", layer=None, kind="cross", map=weights, key_grid=(2, 2)))
    array([[[0.1, 0.2],
            [0.3, 0.4]]], dtype=float32)
    """
    _patches(record, "cross")
    if record.map.shape[2] != 1:
        problem = f"expected the attention of a pooling, with one query, got {record.map.shape[2]} queries"
        raise ShapeError("record", problem)
    return _row(record, 0, head)


def patch_map(record: Record, row: int, column: int, *, head: int | None = None) -> np.ndarray:
    """Return the weights of the patch at a row and a column on all patches of each image, ``(b,rows,columns)``.

    The self-attention of a Swin is 0 outside the window of the patch. ``head`` is a head, or None for the mean.
    """
    _patches(record, "self")
    assert record.query_grid is not None
    rows, columns = record.query_grid
    for name, value, count in (("row", row, rows), ("column", column, columns)):
        if not 0 <= value < count:
            raise ArgumentError(name, f"expected 0 to {count - 1}, got {value}")
    return _row(record, record.query_extra + row * columns + column, head)


def image_rollout(records: Sequence[Record], *, residual: float = 0.5, token: int = 0) -> np.ndarray:
    """Return the share of each patch in the output of a vision model, ``(b,rows,columns)``.

    ``records`` are all attention records of one run, first layer first, of a ViT or a Swin. It is the attention rollout
    (Abnar and Zuidema 2020) from the class token, from the pooling if its attention is the last record, or else from
    the mean of the patches. ``residual`` is the share of the residual connections. Where a Swin merges patches, the
    share of a merged patch is divided among its parts, so the result is on the grid of the first stage. A ViT keeps a
    part of the share in its class token, so the sum may be below 1. ``token`` is as for :func:`class_token_map`.
    """
    if not 0 <= residual < 1:
        raise ArgumentError("residual", f"expected a share from 0 to below 1, got {residual}")
    layers, pooling = _stack(records)
    grid = layers[-1].query_grid
    share = _start(layers[-1], pooling, token)  # (b,n)
    for record in reversed(layers):
        if record.query_grid != grid:
            share = _unmerged(share, grid, record.query_grid)
            grid = record.query_grid
        mean = record.map.mean_heads().weights()[:, 0].double().cpu().numpy()  # (b,n,n)
        check_not_negative("records", mean, "rollout")
        sums = (1 - residual) * mean.sum(-1) + residual  # (b,n), below 1 where a row is masked
        share = share / np.maximum(sums, SMALLEST)
        share = (1 - residual) * (share[:, None] @ mean)[:, 0] + residual * share
    assert grid is not None
    return share[:, layers[0].query_extra :].reshape(-1, *grid)


def to_pixels(maps: Any, size: tuple[int, int]) -> np.ndarray:
    """Return maps ``(...,rows,columns)`` with one number for each pixel, ``(...,height,width)``.

    Each pixel has the number of its patch. ``size`` is (height, width).

    >>> to_pixels(np.array([[1, 2]]), (2, 4))
    array([[1, 1, 2, 2],
           [1, 1, 2, 2]])
    """
    maps = np.asarray(maps)
    if maps.ndim < 2:
        raise ShapeError("maps", f"expected (...,rows,columns), got {maps.shape}")
    for side, count in zip(size, maps.shape[-2:], strict=True):
        if side < count:
            raise ArgumentError("size", f"{tuple(size)} has fewer pixels than the patches {maps.shape[-2:]}")
    rows, columns = (np.arange(side) * n // side for side, n in zip(size, maps.shape[-2:], strict=True))
    return maps[..., rows[:, None], columns[None, :]]


def _patches(record: Any, kind: str) -> None:
    """Raise an error unless a record is attention of this kind to the patches of images."""
    if not isinstance(record, Record):
        raise DtypeError("record", f"expected a record of attention, got {type(record).__name__}")
    if record.kind != kind:
        raise ArgumentError("record", f"expected {kind}-attention, {record.name} is {record.kind}-attention")
    grids = [record.key_grid] if kind == "cross" else [record.key_grid, record.query_grid]
    if None in grids:
        problem = f"the tokens of {record.name} are not known to be patches"
        raise ArgumentError("record", problem, "give the Record its query_grid and key_grid")
    if record.dropped is not None:
        raise ArgumentError("record", f"{record.name}: {record.dropped}")


def _row(record: Record, query: int, head: int | None) -> np.ndarray:
    """Return the weights of one query on the patches, ``(b,rows,columns)``."""
    assert record.key_grid is not None
    heads = record.map.shape[1]
    if head is None:
        weights = record.map.mean_heads()[:, 0, query]  # (b,k)
    elif 0 <= head < heads:
        weights = record.map[:, head, query]
    else:
        raise ArgumentError("head", f"expected 0 to {heads - 1}, got {head}")
    rows, columns = record.key_grid
    patches = weights[:, record.key_extra : record.key_extra + rows * columns]
    return patches.float().cpu().numpy().reshape(-1, rows, columns)


def _stack(records: Any) -> tuple[list[Record], Record | None]:
    """Return the self-attention records of a run, and that of its pooling or None."""
    found = list(records) if isinstance(records, Sequence) else [records]
    pooling = found.pop() if found and getattr(found[-1], "kind", None) == "cross" else None
    if not found:
        raise ArgumentError("records", "expected the self-attention of every layer, got none")
    for record in found:
        _patches(record, "self")
    check_one_stack(found)
    if pooling is not None:
        _patches(pooling, "cross")
        if (pooling.key_grid, pooling.key_extra) != (found[-1].query_grid, found[-1].query_extra):
            problem = (
                f"{pooling.name} reads {pooling.key_grid} patches, the last layer has {found[-1].query_grid}"
            )
            raise ShapeError("records", problem)
    return found, pooling


def _start(last: Record, pooling: Record | None, token: int) -> np.ndarray:
    """Return the share of each token of the last layer in the output, ``(b,n)``."""
    b, _, n, _ = last.map.shape
    if pooling is not None:
        return pooling.map.mean_heads()[:, 0, 0].double().cpu().numpy()
    if not last.query_extra:
        return np.full((b, n), 1 / n)
    if not 0 <= token < last.query_extra:
        problem = f"the model has {last.query_extra} tokens before its patches, got token {token}"
        raise ArgumentError("token", problem)
    return np.tile(np.eye(n)[token], (b, 1))


def _unmerged(share: np.ndarray, coarse: Any, fine: Any) -> np.ndarray:
    """Divide the share of each merged patch among its 2 × 2 parts, or those of them that are in the image."""
    if tuple(-(-n // 2) for n in fine) != tuple(coarse):
        problem = f"a layer with {fine[0]} x {fine[1]} patches is before one with {coarse[0]} x {coarse[1]}"
        raise ShapeError("records", problem, "patches are merged 2 x 2")
    parts = [
        np.minimum(2, n - 2 * np.arange(-(-n // 2))) for n in fine
    ]  # 2, or 1 in the last of an odd number
    each = share.reshape(-1, *coarse) / (parts[0][:, None] * parts[1][None, :])
    return each.repeat(2, axis=1).repeat(2, axis=2)[:, : fine[0], : fine[1]].reshape(len(share), -1)
