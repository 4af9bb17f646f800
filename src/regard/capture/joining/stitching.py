"""Joins the calls of a chain into one source of weights. The rows of each call follow those of the call before."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.biases import Bias, StoredBias, dense_bias
from regard.capture.joining.beams import Beams
from regard.capture.joining.call_chains import CallChain
from regard.capture.joining.kept_calls import KeptCall
from regard.capture.joining.key_intervals import intervals_of, joined_mask
from regard.capture.joining.memory_budget import MemoryBudget, bytes_as_text
from regard.capture.reading.masks import recognise
from regard.maps.attention_map import AttentionMap
from regard.maps.sources import Recomputed, Source, Stored
from regard.maps.unrecorded import Unrecorded
from regard.masks import Mask
from regard.scores import Prepared
from regard.shapes import Grid

__all__ = ["joined_source", "source_of_call"]


def joined_source(
    chain: CallChain, run: list[KeptCall], beams: Beams | None = None, room: MemoryBudget | None = None
) -> Source:
    """Join calls into one source. ``room`` limits the bytes of matrices of queries and keys."""
    if len(run) == 1 and beams is None:
        return source_of_call(chain, run[0])
    grid = _grid(run, beams)
    stored = any(kept.weights is not None for kept in run)
    rule, mask = (True, None) if stored else _rule(run, grid, beams)
    size = _dense_bytes(run, grid, beams, masked=not rule)
    if room is not None and not room.take(size):
        why = f"the steps together need {bytes_as_text(size)}, past the memory budget of {bytes_as_text(room.limit)}"
        return Unrecorded(grid, f"the map of {chain.name} was dropped, {why}: raise memory=...")
    if stored:
        return Stored(_stored(chain, run, beams))
    k = _keys(chain, run, beams)
    q = torch.cat([_rows(kept.q, beams, n) for n, kept in enumerate(run)], dim=2)  # (b,h,q,d)
    lse = _lse(chain, run, beams)
    mask = mask if rule else recognise(_keep(run, grid, beams), grid)
    return Recomputed(
        Prepared(q, k, chain.scale, chain.v), grid, mask, _bias(run, grid, beams), lse, chain.score
    )


def _grid(run: list[KeptCall], beams: Beams | None) -> Grid:
    b, h, _, _ = run[0].grid
    return Grid(b if beams is None else len(beams.indices), h, sum(kept.grid.q for kept in run), _width(run))


def _rule(run: list[KeptCall], grid: Grid, beams: Beams | None) -> tuple[bool, Mask | None]:
    """Return whether the masks of all calls together make a mask rule, and that rule."""
    rows = []
    for n, kept in enumerate(run):
        intervals = intervals_of(kept.mask, kept.grid)
        if intervals is None:
            return False, None
        intervals = intervals.moved(kept.first, grid.k)
        if beams is not None:
            intervals = intervals._replace(padding=_followed(intervals.padding, beams, n, grid))
        rows.append(intervals)
    found, mask = joined_mask(rows, grid)
    device = _device_of(run)
    return found, None if mask is None else mask.map_tensors(lambda x: x.to(device))


def _followed(padding: Tensor | None, beams: Beams, step: int, grid: Grid) -> Tensor | None:
    """Return the padding of each hypothesis in a step, which hides all keys of a hypothesis that has ended."""
    ended = beams.ended(step)
    if padding is not None and padding.shape[0] > 1:
        padding = padding[beams.rows(step)]
    if not bool(ended.any()):
        return padding
    visible = torch.ones(1, grid.k, dtype=torch.bool) if padding is None else padding
    return visible & ~ended[:, None]


def _dense_bytes(run: list[KeptCall], grid: Grid, beams: Beams | None, masked: bool) -> int:
    """Return the bytes of the matrices (q,k) to be stored, which are the weights, or a mask and a bias."""
    weights = next((kept.weights for kept in run if kept.weights is not None), None)
    if weights is not None:
        return grid.b * grid.h * grid.q * grid.k * weights.itemsize
    # The first pair shows for how many sequences and heads the masks and biases differ.
    first = torch.zeros(1, 1, dtype=torch.long, device=_device_of(run))
    masks = [kept.mask.allow(first, first, kept.grid) for kept in run if kept.mask is not None]
    biases = [kept.bias.tile(first, first, kept.grid) for kept in run if kept.bias is not None]
    each = _lead(masks, grid, beams) if masked else 0
    each += _lead(biases, grid, beams) * biases[0].itemsize if biases else 0
    return each * grid.q * grid.k


def _lead(parts: list[Tensor], grid: Grid, beams: Beams | None) -> int:
    """Return the number of matrices that tensors ``(b or 1,h or 1,...)`` hold, one for each sequence and head."""
    b = grid.b if beams is not None else max([1, *(x.shape[0] for x in parts)])
    return b * max([1, *(x.shape[1] for x in parts)])


def _lse(chain: CallChain, run: list[KeptCall], beams: Beams | None) -> Tensor | None:
    """Return the log-sum-exp of all rows, ``(b,h,q)``, or None if the map is to compute it on demand.

    The kernel returned it for a long prompt. For the few rows of the later steps it is computed here.
    """
    known = [kept.lse is not None for kept in run]
    # With beams, the keys of a call may have moved to another row, so that its sums cannot be computed here.
    if not any(known) or (beams is not None and not all(known)):
        return None
    parts = [kept.lse for kept in run]
    for n, kept in enumerate(run):
        source = source_of_call(chain, kept) if parts[n] is None else None
        if isinstance(source, Recomputed):
            parts[n] = source.lse
    return torch.cat([_rows(part, beams, n) for n, part in enumerate(parts)], dim=2)


def source_of_call(chain: CallChain, kept: KeptCall) -> Source:
    """Return the source of the weights of one call."""
    if kept.weights is not None:
        return Stored(kept.weights)
    keys = chain.keys
    assert keys is not None
    assert kept.q is not None
    k = keys if kept.grid.k == chain.count else keys[:, :, kept.first : kept.first + kept.grid.k]
    ready = Prepared(kept.q, k, chain.scale, chain.v)
    return Recomputed(ready, kept.grid, kept.mask, kept.bias, kept.lse, chain.score)


def _stored(chain: CallChain, run: list[KeptCall], beams: Beams | None) -> Tensor:
    width = _width(run)
    rows = []
    for n, kept in enumerate(run):
        # Calls whose weights the model changed after the softmax store them. Others compute them from q and k.
        weights = kept.weights
        if weights is None:
            weights = AttentionMap(source_of_call(chain, kept)).weights()
        part = _rows(weights, beams, n)  # (b,h,q,k)
        part = torch.nn.functional.pad(part, (kept.first, width - kept.first - kept.grid.k))
        if beams is not None:
            part[beams.ended(n).to(part.device)] = 0.0
        rows.append(part)
    return torch.cat(rows, dim=2)


def _keys(chain: CallChain, run: list[KeptCall], beams: Beams | None) -> Tensor:
    if beams is not None and chain.reordered:
        return torch.cat([_rows(kept.new, beams, n) for n, kept in enumerate(run)], dim=2)
    keys = chain.keys
    assert keys is not None
    # Without reordering, a hypothesis is in the same row in every step.
    last = len(run) - 1
    return _rows(keys[:, :, : _width(run)], beams, last)


def _width(run: list[KeptCall]) -> int:
    return max(kept.first + kept.grid.k for kept in run)


def _rows(x: Tensor | None, beams: Beams | None, step: int) -> Tensor:
    assert x is not None
    return x if beams is None else x.index_select(0, beams.rows(step).to(x.device))


def _keep(run: list[KeptCall], grid: Grid, beams: Beams | None) -> Tensor:
    """Return the visible pairs, ``(b or 1,h or 1,q,k)``. Queries of a call see only keys of that call."""
    # (b or 1,h or 1,q or 1,k) each
    parts = [None if kept.mask is None else kept.mask.dense(kept.grid) for kept in run]
    b = grid.b if beams is not None else max([1, *(p.shape[0] for p in parts if p is not None)])
    h = max([1, *(p.shape[1] for p in parts if p is not None)])
    device = _device_of(run)
    keep = torch.zeros(b, h, grid.q, grid.k, dtype=torch.bool, device=device)
    row = 0
    for n, (kept, part) in enumerate(zip(run, parts, strict=True)):
        rows, cols = slice(row, row + kept.grid.q), slice(kept.first, kept.first + kept.grid.k)
        if part is not None:
            part = part.to(device)
            keep[:, :, rows, cols] = part if beams is None or part.shape[0] == 1 else _rows(part, beams, n)
        else:
            keep[:, :, rows, cols] = True
        if beams is not None:
            keep[beams.ended(n).to(device), :, rows] = False
        row = rows.stop
    return keep


def _device_of(run: list[KeptCall]) -> torch.device:
    assert run[0].q is not None
    return run[0].q.device


def _bias(run: list[KeptCall], grid: Grid, beams: Beams | None) -> Bias | None:
    """Return the bias of all calls, ``(b or 1,h or 1,q,k)``, or None if no call has a bias."""
    if all(kept.bias is None for kept in run):
        return None
    parts = [None if kept.bias is None else dense_bias(kept.bias, kept.grid, _device_of(run)) for kept in run]
    b = grid.b if beams is not None else max(p.shape[0] for p in parts if p is not None)
    h = max(p.shape[1] for p in parts if p is not None)
    like = next(p for p in parts if p is not None)
    values = torch.zeros(b, h, grid.q, grid.k, dtype=like.dtype, device=_device_of(run))
    row = 0
    for n, (kept, part) in enumerate(zip(run, parts, strict=True)):
        rows, cols = slice(row, row + kept.grid.q), slice(kept.first, kept.first + kept.grid.k)
        if part is not None:
            part = part.to(values.device)
            values[:, :, rows, cols] = part if beams is None or part.shape[0] == 1 else _rows(part, beams, n)
        row = rows.stop
    return StoredBias(values)
