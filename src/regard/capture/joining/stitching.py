"""The pieces of a strand as one source: rows under rows, over all keys."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.biases import Bias, StoredBias, dense_bias
from regard.capture.joining.call_chains import Piece, Strand
from regard.capture.joining.key_intervals import band_of, composed
from regard.capture.joining.memory_budget import Budget, in_words
from regard.capture.reading.masks import recognise
from regard.maps.attention_map import AttentionMap
from regard.maps.sources import Recomputed, Source, Stored
from regard.maps.unrecorded import Unrecorded
from regard.masks import Mask
from regard.scores import Prepared
from regard.shapes import Grid

__all__ = ["Beams", "single", "stitched"]


class Beams:
    """The rows of a beam search that the hypotheses which won have come through, step by step."""

    def __init__(self, indices: Tensor):
        self.indices = indices.cpu()  # (hypotheses, steps), -1 after the end of a hypothesis

    def rows(self, step: int) -> Tensor:
        """The row of each hypothesis in a step; of one that has ended, its last."""
        valid = (self.indices >= 0).sum(dim=1).clamp(min=1) - 1
        return self.indices.gather(1, valid.clamp(max=step)[:, None])[:, 0]

    def ended(self, step: int) -> Tensor:
        """Which hypotheses have ended before a step."""
        return self.indices[:, min(step, self.indices.shape[1] - 1)] < 0


def stitched(
    strand: Strand, run: list[Piece], beams: Beams | None = None, room: Budget | None = None
) -> Source:
    """One source of the pieces of a run; ``room`` is what matrices of queries and keys may take, if it needs any."""
    if len(run) == 1 and beams is None:
        return single(strand, run[0])
    grid = _grid(run, beams)
    stored = any(piece.weights is not None for piece in run)
    rule, mask = (True, None) if stored else _rule(run, grid, beams)
    size = _dense_bytes(run, grid, beams, masked=not rule)
    if room is not None and not room.take(size):
        why = f"the steps together need {in_words(size)}, past the memory budget of {in_words(room.limit)}"
        return Unrecorded(grid, f"the map of {strand.name} was dropped, {why}: raise memory=...")
    if stored:
        return Stored(_stored(strand, run, beams))
    k = _keys(strand, run, beams)
    q = torch.cat([_rows(piece.q, beams, n) for n, piece in enumerate(run)], dim=2)  # (b,h,q,d)
    lse = _lse(strand, run, beams)
    mask = mask if rule else recognise(_keep(run, grid, beams), grid)
    return Recomputed(
        Prepared(q, k, strand.scale, strand.v), grid, mask, _bias(run, grid, beams), lse, strand.score
    )


def _grid(run: list[Piece], beams: Beams | None) -> Grid:
    b, h, _, _ = run[0].grid
    return Grid(
        b if beams is None else len(beams.indices), h, sum(piece.grid.q for piece in run), _width(run)
    )


def _rule(run: list[Piece], grid: Grid, beams: Beams | None) -> tuple[bool, Mask | None]:
    """Whether the masks of all pieces together are a rule, and which."""
    bands = []
    for n, piece in enumerate(run):
        band = band_of(piece.mask, piece.grid)
        if band is None:
            return False, None
        band = band.moved(piece.first, grid.k)
        bands.append(
            band if beams is None else band._replace(padding=_followed(band.padding, beams, n, grid))
        )
    found, mask = composed(bands, grid)
    device = _device_of(run)
    return found, None if mask is None else mask.map_tensors(lambda x: x.to(device))


def _followed(padding: Tensor | None, beams: Beams, step: int, grid: Grid) -> Tensor | None:
    """The padding of each hypothesis in a step; one that has ended sees nothing."""
    ended = beams.ended(step)
    if padding is not None and padding.shape[0] > 1:
        padding = padding[beams.rows(step)]
    if not bool(ended.any()):
        return padding
    there = torch.ones(1, grid.k, dtype=torch.bool) if padding is None else padding
    return there & ~ended[:, None]


def _dense_bytes(run: list[Piece], grid: Grid, beams: Beams | None, masked: bool) -> int:
    """Bytes of what has a number for every query and key: the weights, or a mask that is no rule, and a bias."""
    weights = next((piece.weights for piece in run if piece.weights is not None), None)
    if weights is not None:
        return grid.b * grid.h * grid.q * grid.k * weights.itemsize
    at = torch.zeros(1, 1, dtype=torch.long, device=_device_of(run))  # one pair shows how many share a number
    masks = [piece.mask.allow(at, at, piece.grid) for piece in run if piece.mask is not None]
    biases = [piece.bias.tile(at, at, piece.grid) for piece in run if piece.bias is not None]
    each = _lead(masks, grid, beams) if masked else 0
    each += _lead(biases, grid, beams) * biases[0].itemsize if biases else 0
    return each * grid.q * grid.k


def _lead(parts: list[Tensor], grid: Grid, beams: Beams | None) -> int:
    """For how many sequences and heads these parts, ``(b or 1,h or 1,...)`` each, differ."""
    b = grid.b if beams is not None else max([1, *(x.shape[0] for x in parts)])
    return b * max([1, *(x.shape[1] for x in parts)])


def _lse(strand: Strand, run: list[Piece], beams: Beams | None) -> Tensor | None:
    """The log-sum-exp of all rows, ``(b,h,q)``; None where it is as well computed when it is needed.

    A long prompt has it from its kernel. The few rows of the steps after it, which have not, are computed here.
    """
    known = [piece.lse is not None for piece in run]
    if not any(known) or (beams is not None and not all(known)):  # the keys of a strand may have moved
        return None
    parts = [piece.lse for piece in run]
    for n, piece in enumerate(run):
        source = single(strand, piece) if parts[n] is None else None
        if isinstance(source, Recomputed):
            parts[n] = source.lse
    return torch.cat([_rows(part, beams, n) for n, part in enumerate(parts)], dim=2)


def single(strand: Strand, piece: Piece) -> Source:
    """The source of one piece."""
    if piece.weights is not None:
        return Stored(piece.weights)
    keys = strand.keys
    assert keys is not None
    assert piece.q is not None
    k = keys if piece.grid.k == strand.count else keys[:, :, piece.first : piece.first + piece.grid.k]
    ready = Prepared(piece.q, k, strand.scale, strand.v)
    return Recomputed(ready, piece.grid, piece.mask, piece.bias, piece.lse, strand.score)


def _stored(strand: Strand, run: list[Piece], beams: Beams | None) -> Tensor:
    width = _width(run)
    rows = []
    for n, piece in enumerate(run):
        own = piece.weights  # in some steps only, where those of a softmax were changed for the values
        part = _rows(
            AttentionMap(single(strand, piece)).weights() if own is None else own, beams, n
        )  # (b,h,q,k)
        part = torch.nn.functional.pad(part, (piece.first, width - piece.first - piece.grid.k))
        if beams is not None:
            part[beams.ended(n).to(part.device)] = 0.0
        rows.append(part)
    return torch.cat(rows, dim=2)


def _keys(strand: Strand, run: list[Piece], beams: Beams | None) -> Tensor:
    if beams is not None and strand.reordered:
        return torch.cat([_rows(piece.new, beams, n) for n, piece in enumerate(run)], dim=2)
    keys = strand.keys
    assert keys is not None
    last = len(run) - 1  # where nothing moved, the row that a hypothesis ends in is where it always was
    return _rows(keys[:, :, : _width(run)], beams, last)


def _width(run: list[Piece]) -> int:
    return max(piece.first + piece.grid.k for piece in run)


def _rows(x: Tensor | None, beams: Beams | None, step: int) -> Tensor:
    assert x is not None
    return x if beams is None else x.index_select(0, beams.rows(step).to(x.device))


def _keep(run: list[Piece], grid: Grid, beams: Beams | None) -> Tensor:
    """Which pairs are seen, ``(b or 1,h or 1,q,k)``: each piece its own keys, as its mask says."""
    parts = [
        None if piece.mask is None else piece.mask.dense(piece.grid) for piece in run
    ]  # (b or 1,h or 1,q or 1,k)
    b = grid.b if beams is not None else max([1, *(p.shape[0] for p in parts if p is not None)])
    h = max([1, *(p.shape[1] for p in parts if p is not None)])
    device = _device_of(run)
    keep = torch.zeros(b, h, grid.q, grid.k, dtype=torch.bool, device=device)
    row = 0
    for n, (piece, part) in enumerate(zip(run, parts, strict=True)):
        rows, cols = slice(row, row + piece.grid.q), slice(piece.first, piece.first + piece.grid.k)
        if part is not None:
            part = part.to(device)
            keep[:, :, rows, cols] = part if beams is None or part.shape[0] == 1 else _rows(part, beams, n)
        else:
            keep[:, :, rows, cols] = True
        if beams is not None:
            keep[beams.ended(n).to(device), :, rows] = False
        row = rows.stop
    return keep


def _device_of(run: list[Piece]) -> torch.device:
    assert run[0].q is not None
    return run[0].q.device


def _bias(run: list[Piece], grid: Grid, beams: Beams | None) -> Bias | None:
    """The numbers added to the scores, ``(b or 1,h or 1,q,k)``, where any piece has some."""
    if all(piece.bias is None for piece in run):
        return None
    parts = [
        None if piece.bias is None else dense_bias(piece.bias, piece.grid, _device_of(run)) for piece in run
    ]
    b = grid.b if beams is not None else max(p.shape[0] for p in parts if p is not None)
    h = max(p.shape[1] for p in parts if p is not None)
    like = next(p for p in parts if p is not None)
    values = torch.zeros(b, h, grid.q, grid.k, dtype=like.dtype, device=_device_of(run))
    row = 0
    for n, (piece, part) in enumerate(zip(run, parts, strict=True)):
        rows, cols = slice(row, row + piece.grid.q), slice(piece.first, piece.first + piece.grid.k)
        if part is not None:
            part = part.to(values.device)
            values[:, :, rows, cols] = part if beams is None or part.shape[0] == 1 else _rows(part, beams, n)
        row = rows.stop
    return StoredBias(values)
