"""Where the weights of a map come from: recomputed from q and k, stored, or made of another source."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from regard.biases import Bias, StoredBias, SumOfBiases, part_of_bias
from regard.errors import ArgumentError
from regard.kernels.dense import callable_scores, pair_scores
from regard.masks import Mask
from regard.scores import Prepared
from regard.shapes import Grid, wide_dtype

__all__ = [
    "HeadMean",
    "Recomputed",
    "Selected",
    "Source",
    "Stored",
    "Tile",
    "check_pairwise",
    "freeze_bias",
    "largest",
    "tiles",
]

MAX_WEIGHTS = 2**21
"""Weights that a map holds at once while it streams."""

_SORTED = 32  # side of the blocks whose maxima are compared first
_COARSE = (
    64.0  # a log-sum-exp up to here is as exact in float32 as the scores are: weights are off by 1e-5 of them
)


class Tile(NamedTuple):
    """A part of a map: batch entries and heads by slices, queries and keys by slices or index tensors."""

    b: slice
    h: slice
    q: slice | Tensor
    k: slice | Tensor


class Source(Protocol):
    """What a map asks of where its weights come from."""

    grid: Grid

    def weights(self, tile: Tile) -> Tensor:
        """The weights of a part, ``(b,h,q,k)`` of it."""
        ...


def tiles(grid: Grid) -> Iterator[Tile]:
    """Whole rows of a map, at most MAX_WEIGHTS weights (or one row) at a time."""
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


def largest(x: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """The n largest numbers of each row and their places, largest first.

    The n largest stand in the n blocks with the largest maxima: a long row is looked at once, and only these
    blocks are sorted.
    """
    k = x.shape[-1]
    blocks = k // _SORTED
    if k % _SORTED or blocks <= 2 * n:
        return x.topk(n, dim=-1)
    cut = x.unflatten(-1, (blocks, _SORTED))
    best = cut.amax(dim=-1).topk(n, dim=-1).indices  # (..., n) of blocks
    held = cut.gather(-2, best[..., None].expand(*best.shape, _SORTED)).flatten(-2)  # (..., n * _SORTED)
    values, place = held.topk(n, dim=-1)
    keys = best.gather(-1, place // _SORTED) * _SORTED + place % _SORTED
    return values, keys


class Stored:
    """Weights that someone else made."""

    def __init__(self, values: Tensor):
        self.values = values  # (b,h,q,k)
        self.grid = Grid(*values.shape)

    def weights(self, tile: Tile) -> Tensor:
        return _pick(_pick(self.values[tile.b, tile.h], 2, tile.q), 3, tile.k)


class Recomputed:
    """``w[i,j] = exp(score(q_i, k_j) + bias - lse_i)``, 0 where hidden: O(n d) numbers instead of O(n n).

    ``lse`` spares parts of rows the work on whole ones. It has to be the log-sum-exp of these rows: whole rows are
    taken by softmax, without it.
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
        self._lse = lse  # (b,h,q); streamed when first needed if no kernel gave it
        self._fine: Tensor | None = None  # (b,h,q) in float64, NaN until a row is asked for

    @classmethod
    def frozen(cls, ready, grid, mask, bias, lse, score) -> Recomputed:
        """From live tensors: detached, and copied so that later changes of them do not show."""
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
                self._lse[tile.b, tile.h, tile.q] = torch.logsumexp(self._seen_scores(tile)[0], dim=-1)
        return self._lse

    @torch.no_grad()
    def scores(self, tile: Tile) -> tuple[Tensor, Tensor | None]:
        """Scores with the bias on them, and which of them are kept (None for all)."""
        q, k, scale, v = self.ready
        q = _pick(q[tile.b, tile.h], 2, tile.q)
        k = _pick(_heads_of(k[tile.b], tile.h, self.grid.h), 2, tile.k)
        if q.shape[2] * 8 >= k.shape[2]:  # a copy that costs little beside the product
            k = _laid_as_in_eager_code(k)
        if self.score is None:
            scores = pair_scores(Prepared(q, k, 1.0, v)).mul_(
                scale
            )  # scaled after the product, as eager code does
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
        scores, keep = self._seen_scores(tile)
        if scores.shape[-1] == self.grid.k and isinstance(tile.k, slice):  # whole rows need no log-sum-exp
            weights = torch.softmax(scores, dim=-1)
        else:
            weights = scores.sub_(self._lse_of(tile)).exp_()
        return (
            weights if keep is None else weights.masked_fill_(~keep, 0.0)
        )  # also where a whole row is hidden

    @torch.no_grad()
    def largest(self, tile: Tile, n: int) -> tuple[Tensor, Tensor]:
        """As :func:`largest` of the weights, with exponentials taken of the n scores only."""
        values, keys = largest(self._seen_scores(tile)[0], n)
        weights = (values - self._lse_of(tile)).exp().to(values.dtype)
        return weights.masked_fill_(values == float("-inf"), 0.0), keys  # also where a whole row is hidden

    def _seen_scores(self, tile: Tile) -> tuple[Tensor, Tensor | None]:
        """Scores, -inf where hidden, and which are kept (None for all)."""
        scores, keep = self.scores(tile)
        return (scores if keep is None else scores.masked_fill_(~keep, float("-inf"))), keep

    def _lse_of(self, tile: Tile) -> Tensor:
        """The log-sum-exp of the rows of a tile, ``(b,h,q,1)``; in float64 where float32 is too coarse.

        A tile then costs whole rows once: what is worked out of a row is kept.
        """
        lse = _pick(self.lse[tile.b, tile.h], 2, tile.q)
        coarse = lse.isfinite() & (lse.abs() > _COARSE)
        if lse.dtype != torch.float64 and bool(coarse.any()):
            lse = torch.where(coarse, self._fine_lse(tile, coarse), lse)
        return lse[..., None]

    @torch.no_grad()
    def _fine_lse(self, tile: Tile, coarse: Tensor) -> Tensor:
        """The log-sum-exp of the rows of a tile where it is ``coarse (b,h,q)``, in float64; elsewhere it may be NaN."""
        if self._fine is None:
            self._fine = torch.full_like(self.lse, float("nan"), dtype=torch.float64)
        known = self._fine[tile.b, tile.h]
        rows = _indices(tile.q, self.grid.q, known.device)
        missing = rows[(known[:, :, rows].isnan() & coarse).any(dim=1).any(dim=0)]
        at_once = max(1, MAX_WEIGHTS // max(1, known.shape[0] * known.shape[1] * self.grid.k))
        for part in missing.split(at_once) if len(missing) else ():
            scores = self._seen_scores(Tile(tile.b, tile.h, part, slice(0, self.grid.k)))[0]
            known[:, :, part] = _precise_logsumexp(scores)
        return known[:, :, rows]


class HeadMean:
    """The mean over the heads of another source."""

    def __init__(self, source: Source):
        self.source = source
        self.grid = source.grid._replace(h=1)

    def weights(self, tile: Tile) -> Tensor:
        h = self.source.grid.h
        total = self.source.weights(tile._replace(h=slice(0, 1)))
        for head in range(1, h):
            total = total + self.source.weights(tile._replace(h=slice(head, head + 1)))
        return total / h


class Selected:
    """Some batch entries and heads of another source."""

    def __init__(self, source: Source, b: slice, h: slice):
        self.source, self.b, self.h = source, b, h
        self.grid = source.grid._replace(b=b.stop - b.start, h=h.stop - h.start)

    def weights(self, tile: Tile) -> Tensor:
        b, h = _inside(self.b, tile.b), _inside(self.h, tile.h)
        return self.source.weights(tile._replace(b=b, h=h))


def _inside(outer: slice, inner: slice) -> slice:
    start, stop, _ = inner.indices(outer.stop - outer.start)
    return slice(outer.start + start, outer.start + stop)


def _precise_logsumexp(scores: Tensor) -> Tensor:
    """The log-sum-exp of each row in float64, its exponentials in the dtype of the scores: they are at most 1."""
    top = scores.amax(dim=-1, keepdim=True)
    top = top.where(top.isfinite(), 0.0)  # a row that sees nothing
    sums = scores.sub_(top).exp_().sum(dim=-1)
    return top[..., 0].double() + sums.double().log()


def _pick(x: Tensor, axis: int, index: slice | Tensor) -> Tensor:
    if isinstance(index, Tensor):
        return x.index_select(axis, index.to(x.device))
    return x[(slice(None),) * axis + (index,)]


def _indices(index: slice | Tensor, n: int, device: torch.device) -> Tensor:
    return index.to(device) if isinstance(index, Tensor) else torch.arange(*index.indices(n), device=device)


def _heads_of(k: Tensor, heads: slice, h: int) -> Tensor:
    """The keys ``(b,g,k,d)`` that belong to some of the h query heads."""
    if k.shape[1] == h:
        return k[:, heads]
    chosen = torch.arange(h, device=k.device)[heads] // (h // k.shape[1])
    return k.index_select(1, chosen)


def _laid_as_in_eager_code(k: Tensor) -> Tensor:
    """The keys as ``matmul(q, k.transpose(2, 3))`` copies them: float32 then rounds as in a model's own eager mode."""
    return k.transpose(-2, -1).contiguous().transpose(-2, -1)


def _copy(x: Tensor) -> Tensor:
    return x.detach().clone()


def freeze_bias(bias: Bias | None) -> Bias | None:
    """A bias that later changes of its tensors or parameters do not reach."""
    if isinstance(bias, StoredBias):
        return StoredBias(_copy(bias.values))
    if isinstance(bias, SumOfBiases):
        left, right = freeze_bias(bias.left), freeze_bias(bias.right)
        assert left is not None
        assert right is not None
        return SumOfBiases(left, right)
    if isinstance(bias, torch.nn.Module):  # a trained rule: its table may change with the next step
        return copy.deepcopy(bias).requires_grad_(False)
    return bias


def check_pairwise(score: Callable[[Tensor, Tensor], Tensor], ready: Prepared) -> None:
    """A map asks for parts: refuse a callable that gives another score when it sees only one pair."""
    q, k = ready.q, ready.k
    if not q.shape[2] or not k.shape[2]:
        return
    with torch.no_grad():
        alone = callable_scores(score, q[:, :, -1:], k[:, :, -1:])[:, :, 0, 0]
        among_queries = callable_scores(score, q, k[:, :, -1:])[:, :, -1, 0]
        among_keys = callable_scores(score, q[:, :, -1:], k)[:, :, 0, -1]
    if not all(
        torch.allclose(x, alone, rtol=1e-3, atol=1e-5, equal_nan=True) for x in (among_queries, among_keys)
    ):
        raise ArgumentError(
            "score",
            "the callable scores a pair differently when other pairs are there, so a map cannot look at parts",
            "let it depend on q_i and k_j alone, and put positions into bias=...",
        )
