"""AttentionMap, which gives exact rows, tiles, top-k, entropy and overviews of attention weights on demand."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.errors import ArgumentError, DtypeError, OutsideError, ShapeError, UnknownNameError
from regard.maps import storage
from regard.maps.queries import mean_received, padding_queries, row_entropy
from regard.maps.sources import HeadMean, Recomputed, Selected, Source, Stored, Tile, tiles
from regard.shapes import as_table, axes, four_axes, whole_number, wide_dtype
from regard.topk import largest

__all__ = ["AttentionMap", "TopK"]

Index = int | slice | Sequence[int] | Tensor
# The most weights that indexing returns. Larger requests must call a method such as `weights()`.
_MAX_INDEXED = 2**28


class TopK(NamedTuple):
    """The largest weights of each row, largest first, and the keys they belong to."""

    weights: Tensor  # (b,h,q,n)
    keys: Tensor  # (b,h,q,n)


class AttentionMap:
    """The weights ``(b,h,q,k)`` of one attention call, computed when they are read.

    The map holds the queries, the keys, the mask and the log-sum-exp of each row, which takes O(n d) memory
    instead of O(n²). It is detached from the autograd graph and is not affected by later in-place changes of the
    original tensors. The weights never include dropout.

    >>> import regard
    >>> q, k, v = torch.randn(2, 4, 5, 8), torch.randn(2, 4, 7, 8), torch.randn(2, 4, 7, 8)
    >>> out, seen = regard.attention(q, k, v, return_map=True)
    >>> seen
    AttentionMap(b=2, h=4, q=5, k=7, recomputed)
    >>> seen[0, 1, :2, :3].shape
    torch.Size([2, 3])
    >>> bool(torch.allclose(seen.weights() @ v, out, atol=1e-6))
    True
    """

    def __init__(self, source: Source):
        self._source = source

    @staticmethod
    def from_weights(weights: Tensor | np.ndarray, *, unnormalized: bool = False) -> AttentionMap:
        """Make a map from a copy of existing weights ``(q,k)``, ``(b,q,k)`` or ``(b,h,q,k)``.

        Each row holds numbers of 0 or more, with a sum of at most 1. Anything else raises an error, since it is most
        likely scores before the softmax, counts, or weights after dropout. ``unnormalized=True`` accepts all finite
        numbers, for the weights of models that change them after the softmax or have none (gates, differential
        attention, sigmoids).

        >>> AttentionMap.from_weights(torch.tensor([[0.75, 0.25]])).entropy().shape
        torch.Size([1, 1, 1])
        """
        values = as_table("weights", weights).detach().clone()
        if not values.is_floating_point() or values.dtype.itemsize == 1:
            raise DtypeError(
                "weights", f"expected a floating dtype, got {values.dtype}", "use weights.float()"
            )
        if values.is_meta:
            raise DtypeError("weights", "on meta, which holds no numbers", "run the model on a device")
        if not 2 <= values.ndim <= 4:
            raise ShapeError("weights", f"expected (q,k), (b,q,k) or (b,h,q,k), got {axes(values.shape)}")
        if not bool(torch.isfinite(values).all()):
            raise ArgumentError(
                "weights", "found NaN or infinite numbers", "take the softmax of scores first"
            )
        if not unnormalized:
            _check_rows(values)
        return AttentionMap(Stored(four_axes(values)))

    @property
    def shape(self) -> torch.Size:
        """The sizes ``(b,h,q,k)``."""
        return torch.Size(self._source.grid)

    @property
    def nbytes(self) -> int:
        """The number of bytes of the tensors that the map holds."""
        return storage.bytes_held(self._source)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}={n}" for name, n in zip("bhqk", self.shape, strict=True))
        kind = re.sub(r"(?<!^)(?=[A-Z])", " ", type(self._source).__name__).lower()
        return f"AttentionMap({sizes}, {kind})"

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what :meth:`save` writes, for copies and other processes. A map of a callable becomes its weights."""
        tensors: dict[str, Tensor] = {}
        try:
            spec = storage.spec_of_source(self._source, tensors)
        except ArgumentError:
            tensors = {}
            spec = storage.spec_of_source(Stored(self.weights()), tensors)
        return _from_spec, (spec, {name: storage.without_shared_storage(x) for name, x in tensors.items()})

    # ---- parts of the map

    def __getitem__(self, index: Any) -> Tensor:
        """Return the weights at ``[batch, head, query, key]``, of which missing indices mean all.

        Only these weights are computed. An index may be an integer, a slice, a list, a tensor or ``...``. An integer
        removes its axis. Unlike in torch, several lists choose every combination of their indices. More than 2^28
        weights raise ArgumentError.
        """
        index = index if isinstance(index, tuple) else (index,)
        if any(i is Ellipsis for i in index):
            place = next(n for n, i in enumerate(index) if i is Ellipsis)
            index = index[:place] + (slice(None),) * (5 - len(index)) + index[place + 1 :]
        if len(index) > 4:
            raise ShapeError("index", f"{len(index)} indices for the 4 axes (b,h,q,k)")
        index = index + (slice(None),) * (4 - len(index))
        parts = [_resolve(name, i, n) for name, i, n in zip("bhqk", index, self.shape, strict=True)]
        count = int(np.prod([_length(part) for part in parts]))
        if count > _MAX_INDEXED:
            raise ArgumentError(
                "index",
                f"expected at most {_MAX_INDEXED:,} weights, got {count:,}",
                "narrow it, use .topk, .pooled or .rows, or call .weights()",
            )
        b, h, q, k = parts
        out = torch.cat([
            torch.cat([self._source.weights(Tile(bs, hs, q, k)) for hs in _runs(h)], dim=1) for bs in _runs(b)
        ])  # fmt: skip
        dropped = tuple(0 if isinstance(i, int) else slice(None) for i in index)
        return out[dropped]

    def tile(self, rows: Index, cols: Index) -> Tensor:
        """Return the weights of some queries over some keys, ``(b,h,rows,cols)``, also for integers.

        >>> AttentionMap.from_weights(torch.eye(4)).tile(slice(1, 3), [1, 2])[0, 0]
        tensor([[1., 0.],
                [0., 1.]])
        """
        return self[:, :, _keep_axis(rows), _keep_axis(cols)]

    def rows(self, i: Index) -> Tensor:
        """Return the weights of one query, ``(b,h,k)``, or of several queries, ``(b,h,rows,k)``.

        >>> AttentionMap.from_weights(torch.eye(3)).rows(-1)[0, 0]
        tensor([0., 0., 1.])
        """
        return self[:, :, i]

    def select(self, batch: int | slice = slice(None), heads: int | slice = slice(None)) -> AttentionMap:
        """Return a map of some batch entries and heads, without computing any weights.

        The map keeps all four axes, also for an integer index. A slice must have step 1.

        >>> AttentionMap.from_weights(torch.ones(2, 3, 5, 7) / 7).select(batch=1, heads=slice(0, 2)).shape
        torch.Size([1, 2, 5, 7])
        """
        b, h, _, _ = self.shape
        return AttentionMap(
            Selected(self._source, _as_slice("batch", batch, b), _as_slice("heads", heads, h))
        )

    def weights(self) -> Tensor:
        """Return all weights, ``(b,h,q,k)``, as a tensor of O(q k) memory."""
        out: Tensor | None = None
        for tile in tiles(self._source.grid):
            part = self._source.weights(tile)
            if out is None:
                out = part.new_zeros(self.shape)
            out[tile.b, tile.h, tile.q] = part
        return torch.zeros(self.shape) if out is None else out

    def numpy(self) -> np.ndarray:
        """Return all weights ``(b,h,q,k)`` as a NumPy array of float32 or float64."""
        weights = self.weights().cpu()
        return (weights if weights.dtype in (torch.float32, torch.float64) else weights.float()).numpy()

    # ---- statistics, computed tile by tile

    def topk(self, n: int) -> TopK:
        """Return the n largest weights of each row and the keys they belong to, ``(b,h,q,n)`` each.

        >>> AttentionMap.from_weights(torch.tensor([[0.2, 0.5, 0.3]])).topk(2).keys[0, 0]
        tensor([[1, 2]])
        """
        if not 1 <= whole_number("n", n) <= self.shape[3]:
            raise ArgumentError("n", f"expected 1 to {self.shape[3]} keys, got {n}")
        source = self._source
        best = [
            (
                tile,
                source.largest(tile, n)
                if isinstance(source, Recomputed)
                else largest(source.weights(tile), n),
            )
            for tile in tiles(source.grid)
        ]
        return TopK(
            self._per_row([(tile, weights) for tile, (weights, _) in best], n),
            self._per_row([(tile, keys) for tile, (_, keys) in best], n),
        )

    def entropy(self) -> Tensor:
        """Return the entropy of each row in nats, ``(b,h,q)``.

        It is 0 for a row on a single key and for a fully masked row, log k for a uniform row, and NaN for a row with a
        negative weight.

        >>> AttentionMap.from_weights(torch.tensor([[1.0, 0.0], [0.5, 0.5]])).entropy()
        tensor([[[0.0000, 0.6931]]])
        """
        grid = self._source.grid
        parts = [(tile, row_entropy(self._source.weights(tile))[..., None]) for tile in tiles(grid)]
        return self._per_row(parts, 1)[..., 0]

    def received(self) -> Tensor:
        """Return the mean weight that each key receives over the queries, ``(b,h,k)`` in float64.

        The mean leaves out fully masked queries, and padding queries if the map has its mask, as
        :func:`regard.analysis.received` does.

        >>> AttentionMap.from_weights(torch.tensor([[1.0, 0.0], [0.5, 0.5]])).received()
        tensor([[[0.7500, 0.2500]]], dtype=torch.float64)
        """
        return mean_received(self._source, padding_queries(self._source))

    def pooled(self, rows: int, cols: int, how: str = "max") -> Tensor:
        """Return the map pooled to ``rows x cols`` cells, ``(b,h,rows,cols)``.

        There are at most as many cells as queries and keys, and their sizes differ by at most one. A cell holds the
        maximum, mean or sum of the weights in it, as chosen by ``how`` ("max", "mean", "sum").

        >>> AttentionMap.from_weights(torch.eye(4)).pooled(2, 2, how="sum")[0, 0]
        tensor([[2., 0.],
                [0., 2.]])
        """
        if not isinstance(how, str) or how not in ("max", "mean", "sum"):
            raise UnknownNameError("how", how, ["max", "mean", "sum"])
        b, h, q, k = self.shape
        for name, cells, size in (("rows", rows, q), ("cols", cols, k)):
            if not 1 <= whole_number(name, cells) <= size:
                raise ArgumentError(name, f"expected 1 to {size} cells, got {cells}")
        row_cell, (members, filled) = _cells(q, rows), _members(k, cols)
        out: Tensor | None = None
        for tile in tiles(self._source.grid):
            part = _pool_columns(self._source.weights(tile), members, filled, how)  # (b,h,rows of tile,cols)
            if out is None:
                out = part.new_full((b, h, rows, cols), float("-inf") if how == "max" else 0.0)
            for cell, rows_of_cell in _segments(row_cell[tile.q]):
                total, new = out[tile.b, tile.h, cell], part[:, :, rows_of_cell]
                out[tile.b, tile.h, cell] = (
                    torch.maximum(total, new.amax(dim=2)) if how == "max" else total + new.sum(dim=2)
                )
        # There are no tiles if the batch is empty or there are no heads.
        if out is None:
            return torch.zeros(b, h, rows, cols)
        if how == "mean":
            out /= (torch.bincount(row_cell)[:, None] * filled.sum(dim=1)[None, :]).to(out.device)
        return out

    def mean_heads(self) -> AttentionMap:
        """Return the map of the mean over the heads, ``(b,1,q,k)``, without computing any weights.

        >>> AttentionMap.from_weights(torch.ones(1, 2, 3, 4) / 4).mean_heads().shape
        torch.Size([1, 1, 3, 4])
        """
        return AttentionMap(HeadMean(self._source))

    # ---- files

    def save(self, path: str | os.PathLike, *, as_weights: bool = False) -> None:
        """Write the map to a safetensors file.

        The file holds q, k, mask, bias and log-sum-exp, or the full weights with ``as_weights=True``. A map whose
        score is a callable can be saved only as weights.
        """
        source = Stored(self.weights()) if as_weights else self._source
        storage.save(source, path)

    @staticmethod
    def load(path: str | os.PathLike) -> AttentionMap:
        """Read a map from a file written by :meth:`save`, or raise FileError if the file is damaged or another."""
        return AttentionMap(storage.load(path))

    def _per_row(self, parts: list[tuple[Tile, Tensor]], n: int) -> Tensor:
        """Assemble the results of the tiles, ``(b,h,rows,n)`` each, into ``(b,h,q,n)``."""
        if not parts:
            return torch.zeros(*self.shape[:3], n)
        out = parts[0][1].new_zeros(*self.shape[:3], n)
        for tile, part in parts:
            out[tile.b, tile.h, tile.q] = part
        return out


def _from_spec(spec: dict[str, Any], tensors: dict[str, Tensor]) -> AttentionMap:
    return AttentionMap(storage.source_from_spec(spec, tensors))


def _check_rows(weights: Tensor) -> None:
    """Raise ArgumentError unless the numbers of each row are 0 or more, with a sum of at most 1."""
    fix = "or give unnormalized=True if the model changed its weights or has no softmax"
    if bool((weights < 0).any()):
        raise ArgumentError("weights", "found negative numbers", f"take the softmax of scores first, {fix}")
    sums = weights.sum(dim=-1, dtype=wide_dtype(weights.dtype))
    largest_sum = float(sums.max()) if sums.numel() else 0.0
    # Weights are often rounded to half precision before they are stored in another.
    if largest_sum > 1.01 + 8 * torch.finfo(weights.dtype).eps:
        problem = f"found a row with a sum of {largest_sum:.4g}, and rows have a sum of at most 1"
        raise ArgumentError(
            "weights", problem, f"take the softmax over the keys, use model.eval() against dropout, {fix}"
        )


def _resolve(axis: str, index: Index, n: int) -> slice | Tensor:
    """Convert an index of an axis of size n to a slice of step 1 or a tensor of non-negative indices.

    Negative indices count from the end. Raises an error if an index is out of range.
    """
    if isinstance(index, int | np.integer):
        if not -n <= index < n:
            raise OutsideError("index", f"{axis}={index} is outside the {n} of this map")
        index = int(index) % n
        return slice(index, index + 1)
    if isinstance(index, slice):
        try:
            start, stop, step = index.indices(n)
        except (TypeError, ValueError) as error:
            raise ArgumentError("index", f"{index} cannot be used for {axis}: {error}") from None
        return slice(start, max(start, stop)) if step == 1 else torch.arange(start, stop, step)
    indices = as_table("index", index)
    if indices.dtype == torch.bool and indices.shape == (n,):
        return indices.nonzero()[:, 0]
    if indices.is_floating_point() or indices.dtype == torch.bool or indices.ndim != 1:
        raise DtypeError("index", f"expected integers, slices or lists of integers for {axis}, got {index!r}")
    if indices.numel() and not (-n <= int(indices.min()) and int(indices.max()) < n):
        raise ArgumentError("index", f"{axis} has indices outside the {n} of this map")
    return torch.where(indices < 0, indices + n, indices)


def _length(part: slice | Tensor) -> int:
    return len(part) if isinstance(part, Tensor) else part.stop - part.start


def _runs(part: slice | Tensor) -> list[slice]:
    """Convert batch or head indices to a list of slices, with one empty slice for no indices."""
    if isinstance(part, slice):
        return [part]
    return [slice(i, i + 1) for i in part.tolist()] or [slice(0, 0)]


def _keep_axis(index: Index) -> Index:
    return [int(index)] if isinstance(index, int | np.integer) else index


def _as_slice(name: str, index: int | slice, n: int) -> slice:
    resolved = _resolve(name, index, n)
    if isinstance(resolved, Tensor):
        raise ArgumentError(name, "expected an integer or a slice of step 1")
    return resolved


def _cells(n: int, cells: int) -> Tensor:
    """Return the cell of each of n indices, ``(n,)``, when they are divided evenly into ``cells`` cells."""
    return torch.arange(n) * cells // n


def _segments(cells: Tensor) -> list[tuple[int, slice]]:
    """Return each distinct cell of a sorted list of cells, with the slice of its occurrences."""
    values, counts = torch.unique_consecutive(cells, return_counts=True)
    ends = counts.cumsum(0).tolist()
    return [
        (c, slice(end - n, end)) for c, end, n in zip(values.tolist(), ends, counts.tolist(), strict=True)
    ]


def _members(n: int, cells: int) -> tuple[Tensor, Tensor]:
    """Return the indices in each cell, ``(cells, most)``, and a boolean table of the entries in use.

    Cells with fewer indices than the largest cell are padded.
    """
    cell = _cells(n, cells)
    counts = torch.bincount(cell, minlength=cells)
    first = torch.cat([counts.new_zeros(1), counts.cumsum(0)[:-1]])
    place = torch.arange(int(counts.max()))[None, :]
    return (first[:, None] + place).clamp(max=n - 1), place < counts[:, None]


def _pool_columns(weights: Tensor, members: Tensor, filled: Tensor, how: str) -> Tensor:
    cells, most = members.shape
    # Cells of equal size need no copy of the weights.
    if bool(filled.all()):
        parts = weights.unflatten(-1, (cells, most))
    else:
        padded = weights.index_select(-1, members.reshape(-1).to(weights.device)).unflatten(-1, (cells, most))
        parts = padded.masked_fill(~filled.to(weights.device), float("-inf") if how == "max" else 0.0)
    return parts.amax(dim=-1) if how == "max" else parts.sum(dim=-1)
