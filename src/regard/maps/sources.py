"""Sources of the weights of a map, which recompute them from q and k, store them, or derive them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from regard.biases import Bias, StoredBias, SumOfBiases, part_of_bias
from regard.errors import ArgumentError, ShapeError
from regard.kernels.dense import callable_scores, pair_scores
from regard.masks import Mask
from regard.scores import Prepared
from regard.shapes import Grid, wide_dtype
from regard.topk import largest

__all__ = [
    "HeadMean",
    "Recomputed",
    "Selected",
    "Source",
    "Stored",
    "Tile",
    "check_pairwise",
    "freeze_bias",
    "tiles",
]

MAX_WEIGHTS = 2**21
"""The most weights that a map computes at once while it streams over tiles."""

# Up to this size the float32 rounding error of a log-sum-exp changes a weight by at most a factor of 1 + 1e-5.
_COARSE = 64.0


class Tile(NamedTuple):
    """The indices of a part of a map.

    Batch entries and heads are slices. Queries and keys are slices or index tensors.
    """

    b: slice
    h: slice
    q: slice | Tensor
    k: slice | Tensor


class Source(Protocol):
    """The interface of a source of weights."""

    grid: Grid

    def weights(self, tile: Tile) -> Tensor:
        """Return the weights of a part of the map, ``(b,h,q,k)`` with the sizes of the tile."""
        ...


def tiles(grid: Grid) -> Iterator[Tile]:
    """Yield tiles of whole rows that cover a map in order, each with at most MAX_WEIGHTS weights or one row.

    A tile has one batch entry. A map without batch entries, heads or queries has no tiles.
    """
    rows = min(max(1, grid.q), max(1, MAX_WEIGHTS // max(1, grid.k)))
    heads = min(max(1, grid.h), max(1, MAX_WEIGHTS // max(1, grid.k * rows)))
    for b in range(grid.b):
        for h in range(0, grid.h, heads):
            for q in range(0, grid.q, rows):
                yield Tile(
                    slice(b, b + 1),
                    slice(h, min(h + heads, grid.h)),
                    slice(q, min(q + rows, grid.q)),
                    slice(0, grid.k),
                )


class Stored:
    """A source that holds the weights as a tensor ``(b,h,q,k)``."""

    def __init__(self, values: Tensor):
        self.values = values  # (b,h,q,k)
        self.grid = Grid(*values.shape)

    def weights(self, tile: Tile) -> Tensor:
        """Return the weights of a tile from the stored matrix."""
        return _pick(_pick(self.values[tile.b, tile.h], 2, tile.q), 3, tile.k)


class Recomputed:
    """A source that recomputes ``w[i,j] = exp(score(q_i, k_j) + bias - lse_i)``, and 0 where masked.

    It holds O(n d) numbers instead of O(n²). ``lse`` is the log-sum-exp of each row, ``(b,h,q)``. With it, a part
    of a row is computed without the rest of the row. Whole rows are computed by softmax and do not use it. If
    ``lse`` is None, it is computed when it is first needed. ``score`` is a callable score, or None for the score that
    ``ready`` describes.
    """

    def __init__(
        self,
        ready: Prepared,
        grid: Grid,
        mask: Mask | None,
        bias: Bias | None,
        lse: Tensor | None,
        score: Callable[[Tensor, Tensor], Tensor] | None,
    ):
        self.ready, self.grid, self.mask, self.bias, self.score = ready, grid, mask, bias, score
        self._lse = lse  # (b,h,q)
        # The log-sum-exp in float64, (b,h,q), NaN for rows not computed yet.
        self._fine: Tensor | None = None

    @classmethod
    def frozen(cls, ready, grid, mask, bias, lse, score) -> Recomputed:
        """Make a source from detached copies of the tensors, which later in-place changes do not affect.

        The log-sum-exp is not copied. A callable score is checked by :func:`check_pairwise`.
        """
        ready = Prepared(
            _copy(ready.q), _copy(ready.k), ready.scale, None if ready.v is None else _copy(ready.v)
        )
        if score is not None:
            score = copy.deepcopy(score) if isinstance(score, torch.nn.Module) else score
            check_pairwise(score, ready)
        mask = None if mask is None else mask.map_tensors(_copy)
        return cls(ready, grid, mask, freeze_bias(bias), lse, score)

    @property
    def lse(self) -> Tensor:
        """The log-sum-exp of each row, ``(b,h,q)``."""
        if self._lse is None:
            self._lse = self.ready.q.new_empty(self.grid[:3], dtype=wide_dtype(self.ready.q.dtype))
            for tile in tiles(self.grid):
                self._lse[tile.b, tile.h, tile.q] = torch.logsumexp(self._masked_scores(tile)[0], dim=-1)
        return self._lse

    @torch.no_grad()
    def scores(self, tile: Tile) -> tuple[Tensor, Tensor | None]:
        """Return the scores of a tile including the bias, ``(b,h,q,k)``, and the boolean mask or None.

        The scores do not depend on the mask. None means that nothing is masked.
        """
        q, k, scale, v = self.ready
        q = _pick(q[tile.b, tile.h], 2, tile.q)
        k = _pick(_heads_of(k[tile.b], tile.h, self.grid.h), 2, tile.k)
        # With enough queries, copying k costs little compared with the product.
        if q.shape[2] * 8 >= k.shape[2]:
            k = _in_eager_layout(k)
        if self.score is None:
            # Scaled after the product, as in eager attention code, for the same rounding.
            scores = pair_scores(Prepared(q, k, 1.0, v)).mul_(scale)
        else:
            scores = callable_scores(self.score, q, k) * scale
        i = _indices(tile.q, self.grid.q, q.device)[:, None]
        j = _indices(tile.k, self.grid.k, q.device)[None, :]
        part = self.grid._replace(b=q.shape[0], h=q.shape[1])
        if self.bias is not None:
            bias = part_of_bias(self.bias, tile.b, tile.h, self.grid.h)
            scores = scores + bias.tile(i, j, part).to(scores.dtype)
        return scores, None if self.mask is None else self.mask.part(tile.b, tile.h).allow(i, j, part)

    @torch.no_grad()
    def weights(self, tile: Tile) -> Tensor:
        """Return the weights of a tile, computed from its queries and keys."""
        scores, keep = self._masked_scores(tile)
        # Whole rows need no log-sum-exp.
        if scores.shape[-1] == self.grid.k and isinstance(tile.k, slice):
            weights = torch.softmax(scores, dim=-1)
        else:
            weights = scores.sub_(self._lse_of(tile)).exp_()
        # Fully masked rows are NaN before this line.
        return weights if keep is None else weights.masked_fill_(~keep, 0.0)

    @torch.no_grad()
    def largest(self, tile: Tile, n: int) -> tuple[Tensor, Tensor]:
        """Return the n largest weights of each row of a tile and their keys.

        The result is that of :func:`regard.topk.largest` on the weights, but only n exponentials per row are computed.
        """
        values, keys = largest(self._masked_scores(tile)[0], n)
        weights = (values - self._lse_of(tile)).exp().to(values.dtype)
        # Fully masked rows are NaN before this line.
        return weights.masked_fill_(values == float("-inf"), 0.0), keys

    def _masked_scores(self, tile: Tile) -> tuple[Tensor, Tensor | None]:
        """Return the scores of a tile with -inf where masked, and the boolean mask (None if nothing is masked)."""
        scores, keep = self.scores(tile)
        return (scores if keep is None else scores.masked_fill_(~keep, float("-inf"))), keep

    def _lse_of(self, tile: Tile) -> Tensor:
        """Return the log-sum-exp of the rows of a tile, ``(b,h,q,1)``.

        Where float32 is not precise enough, it is computed in float64 from the whole row and cached.
        """
        lse = _pick(self.lse[tile.b, tile.h], 2, tile.q)
        coarse = lse.isfinite() & (lse.abs() > _COARSE)
        if lse.dtype != torch.float64 and bool(coarse.any()):
            lse = torch.where(coarse, self._fine_lse(tile, coarse), lse)
        return lse[..., None]

    @torch.no_grad()
    def _fine_lse(self, tile: Tile, coarse: Tensor) -> Tensor:
        """Return the float64 log-sum-exp of the rows of a tile, ``(b,h,q)``.

        Only rows where ``coarse`` ``(b,h,q)`` is True are computed. Other rows may be NaN.
        """
        if self._fine is None:
            self._fine = torch.full_like(self.lse, float("nan"), dtype=torch.float64)
        known = self._fine[tile.b, tile.h]
        rows = _indices(tile.q, self.grid.q, known.device)
        missing = rows[(known[:, :, rows].isnan() & coarse).any(dim=1).any(dim=0)]
        at_once = max(1, MAX_WEIGHTS // max(1, known.shape[0] * known.shape[1] * self.grid.k))
        for part in missing.split(at_once) if len(missing) else ():
            scores = self._masked_scores(Tile(tile.b, tile.h, part, slice(0, self.grid.k)))[0]
            known[:, :, part] = _precise_logsumexp(scores)
        return known[:, :, rows]


class HeadMean:
    """A source that is the mean over the heads of another source, ``(b,1,q,k)``."""

    def __init__(self, source: Source):
        if source.grid.h == 0:
            raise ShapeError("heads", "the map has no heads, so there is no mean of them")
        self.source = source
        self.grid = source.grid._replace(h=1)

    def weights(self, tile: Tile) -> Tensor:
        """Return the weights of a tile, averaged over all heads."""
        h = self.source.grid.h
        total = self.source.weights(tile._replace(h=slice(0, 1)))
        for head in range(1, h):
            total = total + self.source.weights(tile._replace(h=slice(head, head + 1)))
        return total / h


class Selected:
    """A source that holds some batch entries and heads of another source."""

    def __init__(self, source: Source, b: slice, h: slice):
        self.source, self.b, self.h = source, b, h
        self.grid = source.grid._replace(b=b.stop - b.start, h=h.stop - h.start)

    def weights(self, tile: Tile) -> Tensor:
        """Return the weights of a tile of the selected sequences and heads."""
        b, h = _inside(self.b, tile.b), _inside(self.h, tile.h)
        return self.source.weights(tile._replace(b=b, h=h))


def _inside(outer: slice, inner: slice) -> slice:
    start, stop, _ = inner.indices(outer.stop - outer.start)
    return slice(outer.start + start, outer.start + stop)


def _precise_logsumexp(scores: Tensor) -> Tensor:
    """Return the log-sum-exp of each row in float64, overwriting the scores.

    The exponentials are at most 1, so the dtype of the scores is precise enough for them.
    """
    top = scores.amax(dim=-1, keepdim=True)
    top = top.where(top.isfinite(), 0.0)  # fully masked rows
    sums = scores.sub_(top).exp_().sum(dim=-1)
    return top[..., 0].double() + sums.double().log()


def _pick(x: Tensor, axis: int, index: slice | Tensor) -> Tensor:
    if isinstance(index, Tensor):
        return x.index_select(axis, index.to(x.device))
    return x[(slice(None),) * axis + (index,)]


def _indices(index: slice | Tensor, n: int, device: torch.device) -> Tensor:
    return index.to(device) if isinstance(index, Tensor) else torch.arange(*index.indices(n), device=device)


def _heads_of(k: Tensor, heads: slice, h: int) -> Tensor:
    """Return the keys of some of the h query heads, from keys ``(b,g,k,d)`` of g groups of heads."""
    if k.shape[1] == h:
        return k[:, heads]
    groups = torch.arange(h, device=k.device)[heads] // (h // k.shape[1])
    return k.index_select(1, groups)


def _in_eager_layout(k: Tensor) -> Tensor:
    """Copy the keys to the memory layout of ``matmul(q, k.transpose(2, 3))``.

    With this layout float32 rounds as in a model's own eager attention code.
    """
    return k.transpose(-2, -1).contiguous().transpose(-2, -1)


def _copy(x: Tensor) -> Tensor:
    return x.detach().clone()


def freeze_bias(bias: Bias | None) -> Bias | None:
    """Return a detached copy of a bias, which later changes of its tensors or parameters do not affect.

    A bias without tensors, such as ALiBi, is returned as it is.
    """
    if isinstance(bias, StoredBias):
        return StoredBias(_copy(bias.values))
    if isinstance(bias, SumOfBiases):
        left, right = freeze_bias(bias.left), freeze_bias(bias.right)
        assert left is not None
        assert right is not None
        return SumOfBiases(left, right)
    # The parameters of a trained bias may change with the next training step.
    if isinstance(bias, torch.nn.Module):
        return copy.deepcopy(bias).requires_grad_(False)
    return bias


def check_pairwise(score: Callable[[Tensor, Tensor], Tensor], ready: Prepared) -> None:
    """Raise ArgumentError if a callable score of a pair depends on the other queries or keys.

    A map evaluates the score on parts of q and k, so each score must depend on its own pair alone. The check compares
    three evaluations of the last pair, alone, among all queries and among all keys.
    """
    q, k = ready.q, ready.k
    if not q.shape[2] or not k.shape[2]:
        return
    with torch.no_grad():
        single_pair = callable_scores(score, q[:, :, -1:], k[:, :, -1:])[:, :, 0, 0]
        among_queries = callable_scores(score, q, k[:, :, -1:])[:, :, -1, 0]
        among_keys = callable_scores(score, q[:, :, -1:], k)[:, :, 0, -1]
    if not all(
        torch.allclose(x, single_pair, rtol=1e-3, atol=1e-5, equal_nan=True)
        for x in (among_queries, among_keys)
    ):
        raise ArgumentError(
            "score",
            "the score of a pair depends on other queries or keys, so a map cannot compute parts of it",
            "let it depend on q_i and k_j alone, and put positions into bias=...",
        )
