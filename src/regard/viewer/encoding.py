"""Encoding of maps for a page, with the error that rounding causes.

A map that is computed from q and k is stored as q and k in half precision, the log-sum-exp of each row in float32, the
mask as a rule or as bits, and the bias as a table of distances if it depends on the distance alone. The browser
computes ``exp(scale * q . k + bias - lse)`` for the cells it shows. A map of given weights is stored as integers, in
steps of each row's largest weight.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.biases import Bias, StoredBias, SumOfBiases, dense_bias
from regard.maps.image_windows import ImageWindows
from regard.maps.sources import HeadMean, Recomputed, Selected, Source, Stored, Tile
from regard.masks import Mask
from regard.masks.base import And, Not, Or
from regard.masks.rules import Blocks, Causal, GlobalTokens, Window
from regard.masks.specs import mask_spec
from regard.masks.stored import Padding, StoredMask
from regard.positions import ALiBi, RelativeBias
from regard.scores import Prepared
from regard.shapes import Grid
from regard.viewer.blobs import Blobs, rounded_to_half
from regard.viewer.progress import PageProgress
from regard.viewer.score_summary import summarize_scores
from regard.viewer.tiles import has_negative_weights

__all__ = ["Encoded", "encode", "without_selections"]

KNOWN_MASKS = (And, Or, Not, Causal, Window, GlobalTokens, Blocks, Padding, StoredMask)
MEASURED_ROWS = 64  # at most, of each head, evenly spread
MEASURED_AT_ONCE = 2**21  # weights
_LARGEST_HALF = 60_000.0


class Encoded(NamedTuple):
    """The description of an encoded map as JSON values, and the largest error of the measured weights."""

    spec: dict[str, Any]
    error: float
    # The number of rows of each head that the error was measured on.
    rows: int
    overview: np.ndarray | None = None  # (b,h,rows,cols), if it was computed along with the encoding


def encode(
    source: Source,
    blobs: Blobs,
    bits: int = 16,
    *,
    side: int | None = None,
    progress: PageProgress | None = None,
) -> Encoded:
    """Encode a source as JSON values, which refer to the arrays that are added to ``blobs``.

    ``bits`` (8 or 16) is the size of a stored weight. ``side`` requests an overview of at most so many cells a side,
    which is computed if it needs no second pass over the scores. ``progress`` counts the computed weights.
    """
    source = without_selections(source)
    if isinstance(source, HeadMean):
        inner = encode(source.source, blobs, bits, progress=progress)
        spec = {"type": "mean", "heads": source.source.grid.h, "of": inner.spec}
        return inner._replace(spec=spec)
    if isinstance(source, ImageWindows):
        inner = encode(source.source, blobs, bits, progress=progress)
        spec = {"type": "windows", "image": list(source.image), "side": source.side, "shift": source.shift}
        return inner._replace(spec={**spec, "of": inner.spec, "shape": list(source.source.grid)})
    if isinstance(source, Recomputed) and source.score is None:
        return _encode_recomputed(source, blobs, side, progress)
    return _encode_weights(source, blobs, bits)


def without_selections(source: Source) -> Source:
    """Return the same map with its selections of sequences and heads applied to its tensors, where possible."""
    if isinstance(source, HeadMean):
        return HeadMean(without_selections(source.source))
    if isinstance(source, ImageWindows):
        return ImageWindows(without_selections(source.source), source.image, source.side, source.shift)
    if not isinstance(source, Selected):
        return source
    inner, b, h = without_selections(source.source), source.b, source.h
    if isinstance(inner, ImageWindows):
        several = slice(b.start * inner.windows, b.stop * inner.windows)
        cut = without_selections(Selected(inner.source, several, h))
        return ImageWindows(cut, inner.image, inner.side, inner.shift)
    if isinstance(inner, HeadMean):
        whole = slice(0, inner.source.grid.h)
        return HeadMean(without_selections(Selected(inner.source, b, whole)))
    if isinstance(inner, Recomputed):
        return _cut(inner, b, h)
    return Stored(inner.values[b, h]) if isinstance(inner, Stored) else Selected(inner, b, h)


def _cut(source: Recomputed, b: slice, h: slice) -> Recomputed:
    q, k, scale, v = source.ready
    groups = k.shape[1]
    if groups == source.grid.h:
        keys = k[b, h]
    else:  # one key head serves several query heads
        chosen = torch.arange(source.grid.h)[h] // (source.grid.h // groups)
        keys = k[b].index_select(1, chosen.to(k.device))
    grid = source.grid._replace(b=b.stop - b.start, h=h.stop - h.start)
    mask = None if source.mask is None else source.mask.part(b, h)
    bias = None if source.bias is None else _cut_bias(source.bias, source.grid, b, h)
    return Recomputed(Prepared(q[b, h], keys, scale, v), grid, mask, bias, source.lse[b, h], source.score)


def _cut_bias(bias: Bias, grid: Grid, b: slice, h: slice) -> Bias:
    """Return some sequences and heads of a bias.

    A bias of distances alone becomes a table of distances, and any other a tensor.
    """
    if isinstance(bias, SumOfBiases):
        return SumOfBiases(_cut_bias(bias.left, grid, b, h), _cut_bias(bias.right, grid, b, h))
    if isinstance(bias, StoredBias):
        return bias.part(b, h)
    by_distance = _distances(bias, grid)
    if by_distance is not None:
        return _ByDistance(by_distance[:, h], grid.q)
    return StoredBias(dense_bias(bias, grid, torch.device("cpu"))).part(b, h)


class _ByDistance(NamedTuple):
    """A bias that depends on the distance of key and query alone, as a table."""

    table: Tensor  # (1, h, q + k - 1)
    q: int

    def tile(self, i: Tensor, j: Tensor, grid: Grid) -> Tensor:
        return self.table[:, :, j - i + self.q - 1]


# ---- recomputed maps


def _encode_recomputed(
    source: Recomputed, blobs: Blobs, side: int | None, progress: PageProgress | None
) -> Encoded:
    q = rounded_to_half(source.ready.q)
    middle = _middle(source.ready.k)  # (b,g,1,d)
    k = rounded_to_half(source.ready.k.detach().cpu().double() - middle.double())
    v = None if source.ready.v is None else source.ready.v.detach().cpu().float()
    bias, kept_bias = _encode_bias(source.bias, source.grid, blobs)
    mask = None if source.mask is None else source.mask.map_tensors(lambda x: x.cpu())
    ready = Prepared(q.numbers().float(), (k.numbers() + middle).float(), source.ready.scale, v)
    # The log-sum-exp is computed from the rounded numbers, so that the rows of the page sum to 1.
    summary = summarize_scores(Recomputed(ready, source.grid, mask, kept_bias, None, None), side, progress)
    stored = Recomputed(ready, source.grid, mask, kept_bias, summary.lse, None)
    spec = {
        "type": "recomputed",
        "q": blobs.half(q),
        "k": blobs.half(k),
        "middle": blobs.array(middle),
        "lse": blobs.array(summary.lse),
        "scale": float(source.ready.scale),
        "v": None if v is None else blobs.array(v),
        "mask": None if mask is None else _encode_mask(mask, source.grid, blobs),
        "bias": bias,
    }
    return Encoded(spec, *_largest_difference(source, stored), summary.overview)


def _middle(k: Tensor) -> Tensor:
    """Return the mean key of each head, ``(b,g,1,d)``, which is stored exactly, apart from the rounded differences.

    The mean adds the same number to all scores of a query, which does not change the softmax. But it can be far larger
    than the differences between keys, so rounding the sum of both would lose the differences.
    """
    known = k.detach().cpu().double()
    finite = torch.isfinite(known)
    return (known.where(finite, 0.0).sum(2, keepdim=True) / finite.sum(2, keepdim=True).clamp(min=1)).float()


def _spread(n: int, count: int) -> Tensor:
    """Return at most ``count`` of n indices, evenly spread, including the first and the last."""
    return torch.linspace(0, max(n - 1, 0), min(n, count)).round().long().unique()


@torch.no_grad()
def _largest_difference(exact: Source, stored: Source) -> tuple[float, int]:
    """Return the largest difference between the weights of page and map, and the number of compared rows of each head.

    The rows are evenly spread.
    """
    b, h, q, k = exact.grid
    rows = _spread(q, MEASURED_ROWS)
    at_once = max(1, MEASURED_AT_ONCE // max(1, len(rows) * k))  # heads
    worst = 0.0
    for sequence in range(b):
        for head in range(0, h, at_once):
            tile = Tile(slice(sequence, sequence + 1), slice(head, min(h, head + at_once)), rows, slice(0, k))
            apart = (exact.weights(tile).cpu().double() - stored.weights(tile).double()).abs()
            worst = max(worst, float(apart.nan_to_num(nan=0.0).max()) if apart.numel() else 0.0)
    return worst, len(rows)


def _encode_mask(mask: Mask, grid: Grid, blobs: Blobs) -> dict[str, Any]:
    # A mask class of the user, which is evaluated on every pair.
    if not _is_known(mask):
        mask = StoredMask(mask.dense(grid))
    tensors: dict[str, Tensor] = {}
    return _with_arrays(mask_spec(mask, tensors), tensors, blobs)


def _is_known(mask: Mask) -> bool:
    if isinstance(mask, And | Or):
        return _is_known(mask.left) and _is_known(mask.right)
    return _is_known(mask.inner) if isinstance(mask, Not) else type(mask) in KNOWN_MASKS


def _with_arrays(spec: dict[str, Any], tensors: dict[str, Tensor], blobs: Blobs) -> dict[str, Any]:
    """Return the description of a mask with blobs instead of names of tensors."""
    found: dict[str, Any] = {}
    for field, value in spec.items():
        if isinstance(value, dict) and "tensor" in value:
            x = tensors[value["tensor"]]
            value = {"array": blobs.array(x if x.dtype == torch.bool else x.int())}
        elif isinstance(value, dict):
            value = _with_arrays(value, tensors, blobs)
        found[field] = value
    return found


def _encode_bias(bias: Bias | None, grid: Grid, blobs: Blobs) -> tuple[dict[str, Any] | None, Bias | None]:
    """Return the description of a bias, and the bias after rounding."""
    if bias is None:
        return None, None
    if isinstance(bias, SumOfBiases):
        left, kept_left = _encode_bias(bias.left, grid, blobs)
        right, kept_right = _encode_bias(bias.right, grid, blobs)
        assert kept_left is not None
        assert kept_right is not None
        return {"kind": "sum", "parts": [left, right]}, SumOfBiases(kept_left, kept_right)
    by_distance = _distances(bias, grid)
    if by_distance is not None:
        table = by_distance.float()
        return {"kind": "distance", "array": blobs.array(table)}, _ByDistance(table, grid.q)
    values = dense_bias(bias, grid, torch.device("cpu")).detach().cpu()
    # Some models mask with numbers such as -3e38.
    if bool((values.abs() > _LARGEST_HALF).any()):
        kept = values.float()
        return {"kind": "dense", "array": blobs.array(kept)}, StoredBias(kept)
    rounded = rounded_to_half(values)
    return {"kind": "dense", "array": blobs.half(rounded)}, StoredBias(rounded.numbers().float())


@torch.no_grad()
def _distances(bias: Bias, grid: Grid) -> Tensor | None:
    """Return one number for each distance, ``(b or 1, h or 1, q + k - 1)``, or None if the bias depends on more.

    Distances are key index minus query index, from ``1 - q`` to ``k - 1``.
    """
    if grid.q < 1 or grid.k < 1:
        return None
    if isinstance(bias, _ByDistance):
        return bias.table
    if isinstance(bias, ALiBi | RelativeBias):
        apart = torch.arange(-(grid.q - 1), grid.k)
        i = (-apart).clamp(min=0)
        return bias.tile(i, i + apart, grid).detach().cpu()
    if not isinstance(bias, StoredBias):
        return None
    x = bias.values.detach().cpu()
    if min(x.shape[2:]) < 2 or not bool((x[..., 1:, 1:] == x[..., :-1, :-1]).all()):
        return None
    return torch.cat([x[..., :, 0].flip(-1), x[..., 0, 1:]], dim=-1)


# ---- maps that are weights


@torch.no_grad()
def _encode_weights(source: Source, blobs: Blobs, bits: int) -> Encoded:
    """Quantize the weights of each row to integers of ``bits`` bits, and add them to ``blobs``.

    The row's largest magnitude becomes the largest integer. It is stored for each row as a float32. The integers are
    unsigned, or signed if the map has negative weights.
    """
    b, h, q, k = source.grid
    dtype = np.dtype(f"{'int' if has_negative_weights(source) else 'uint'}{bits}")
    steps = int(np.iinfo(dtype).max)
    codes = np.zeros((b, h, q, k), dtype=dtype)
    tops = np.zeros((b, h, q), dtype=np.float32)
    error = 0.0
    for sequence in range(b):
        for head in range(h):
            tile = Tile(slice(sequence, sequence + 1), slice(head, head + 1), slice(0, q), slice(0, k))
            weights = source.weights(tile)[0, 0].detach().cpu().double().numpy()  # (q,k)
            if not weights.size:
                continue
            top = np.abs(weights).max(axis=1).astype(np.float32)
            unit = np.where(top > 0, top, 1.0).astype(np.float64)[:, None] / steps
            codes[sequence, head] = np.rint(weights / unit).clip(-steps if dtype.kind == "i" else 0, steps)
            tops[sequence, head] = top
            error = max(error, float(np.abs(codes[sequence, head] * unit - weights).max()))
    spec = {"type": "weights", "steps": steps, "codes": blobs.array(codes), "tops": blobs.array(tops)}
    return Encoded(spec, error, q)
