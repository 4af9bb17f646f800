"""Masks whose rows are intervals of keys, joined into one mask without a matrix of queries and keys.

A row of such a mask is an interval of keys, of which padding may hide some. A row takes a few numbers, so the masks
of a long text are joined and checked in O(q + k) memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from regard.capture.reading.masks import rule_between
from regard.masks import Mask
from regard.masks.base import And
from regard.masks.rules import Causal, Window
from regard.masks.stored import Padding, StoredMask
from regard.shapes import Grid

__all__ = ["KeyIntervals", "intervals_of", "joined_mask"]


class KeyIntervals(NamedTuple):
    """For each row, the first and the last visible key, and the padding of all rows."""

    first: Tensor  # (q,)
    last: Tensor  # (q,), less than first if the row sees nothing
    padding: Tensor | None  # bool (b or 1,k), False on padding

    def moved(self, by: int, keys: int) -> KeyIntervals:
        """Return the rows with their keys moved by ``by`` positions, among ``keys`` keys in total."""
        padding = self.padding
        if padding is not None:
            padding = torch.nn.functional.pad(padding, (by, keys - by - padding.shape[1]))
        return KeyIntervals(self.first + by, self.last + by, padding)


def intervals_of(mask: Mask | None, grid: Grid) -> KeyIntervals | None:
    """Return the rows of a mask as intervals, or None if some row is not an interval."""
    here = torch.arange(grid.q)
    first, last = torch.zeros_like(here), torch.full_like(here, grid.k - 1)
    padding: Tensor | None = None
    for part in _parts(mask):
        if isinstance(part, Causal) and part.symbolic:
            last = torch.minimum(last, here + (grid.shift if part.offset is None else part.offset))
        elif isinstance(part, Window):
            if part.left is not None:
                first = torch.maximum(first, here + grid.shift - part.left)
            if part.right is not None:
                last = torch.minimum(last, here + grid.shift + part.right)
        elif isinstance(part, Padding) or (isinstance(part, StoredMask) and grid.q == 1):
            keep = part.dense(grid, "cpu")[:, :, 0]  # (b or 1,h or 1,k)
            if keep.shape[1] > 1:
                return None
            keep = keep[:, 0].expand(-1, grid.k)
            padding = keep if padding is None else padding & keep
        else:
            return None
    return KeyIntervals(first, torch.maximum(last, first - 1), padding)


def _parts(mask: Mask | None) -> Iterator[Mask]:
    if isinstance(mask, And):
        yield from _parts(mask.left)
        yield from _parts(mask.right)
    elif mask is not None:
        yield mask


def joined_mask(parts: Iterable[KeyIntervals], grid: Grid) -> tuple[bool, Mask | None]:
    """Return whether these rows together make a mask rule, and that rule, or None for a mask that hides nothing.

    >>> prompt, step = intervals_of(Causal(), Grid(1, 1, 3, 3)), intervals_of(None, Grid(1, 1, 1, 4))
    >>> joined_mask([prompt.moved(0, 4), step.moved(0, 4)], Grid(1, 1, 4, 4))
    (True, Causal(offset=None))
    """
    parts = list(parts)
    ends = [_ends(rows, grid.k) for rows in parts]
    first, last = (_stacked_rows(x) for x in zip(*ends, strict=True))  # (b or 1,q)
    rule = rule_between(first, last, first <= last, grid)
    padding = Padding(_seen(parts, grid.k))
    candidates: list[Mask | None] = [None, padding]
    if rule is not None:
        candidates += [rule, And(rule, padding)]
    for mask in candidates:
        if _equals_intervals(mask, parts, grid):
            return True, mask
    return False, None


def _ends(rows: KeyIntervals, keys: int) -> tuple[Tensor, Tensor]:
    """Return the first and last visible key of each row, ``(b or 1,q)``, with last < first if no key is visible."""
    if rows.padding is None:
        return rows.first[None], rows.last[None]
    j = torch.arange(keys)
    # The nearest key without padding from each key on, and up to each key.
    following = j.where(rows.padding, keys).flip(1).cummin(dim=1).values.flip(1)
    before = j.where(rows.padding, -1).cummax(dim=1).values
    first = following[:, rows.first.clamp(max=keys - 1)]
    last = before[:, rows.last.clamp(min=0)]
    nothing = (first > rows.last) | (last < rows.first)
    return first.masked_fill(nothing, keys), last.masked_fill(nothing, -1)


def _stacked_rows(parts: tuple[Tensor, ...]) -> Tensor:
    b = max(x.shape[0] for x in parts)
    return torch.cat([x.expand(b, -1) for x in parts], dim=1)


def _seen(parts: list[KeyIntervals], keys: int) -> Tensor:
    """Return a boolean tensor ``(b or 1,k)`` that is True for keys that some row sees."""
    found = torch.zeros(1, keys, dtype=torch.bool)
    for rows in parts:
        some = rows.first <= rows.last
        # The number of intervals that begin at each key, minus those that ended before it.
        edges = torch.zeros(keys + 1, dtype=torch.long)
        edges.index_add_(0, rows.first[some], torch.ones_like(rows.first[some]))
        edges.index_add_(0, rows.last[some] + 1, -torch.ones_like(rows.last[some]))
        inside = (edges.cumsum(0)[:-1] > 0)[None]
        found = found | (inside if rows.padding is None else inside & rows.padding)
    return found


def _equals_intervals(mask: Mask | None, parts: list[KeyIntervals], grid: Grid) -> bool:
    """Return whether a mask hides the same keys from every row as the intervals."""
    whole = intervals_of(mask, grid)
    assert whole is not None
    start = 0
    for rows in parts:
        part = slice(start, start + len(rows.first))
        start = part.stop
        if not _same(KeyIntervals(whole.first[part], whole.last[part], whole.padding), rows, grid.k):
            return False
    return True


def _same(one: KeyIntervals, other: KeyIntervals, keys: int) -> bool:
    """Return whether two sets of rows see the same keys, by comparing the sizes of both and of their intersection."""
    both = one.padding
    if other.padding is not None:
        both = other.padding if both is None else both & other.padding
    common = KeyIntervals(torch.maximum(one.first, other.first), torch.minimum(one.last, other.last), both)
    count = _counts(common, keys)
    return all(bool((_counts(rows, keys) == count).all()) for rows in (one, other))


def _counts(rows: KeyIntervals, keys: int) -> Tensor:
    """Return the number of keys that each row sees, ``(b or 1,q)``."""
    length = (rows.last - rows.first + 1).clamp(min=0)
    if rows.padding is None:
        return length[None]
    before = torch.nn.functional.pad(rows.padding.cumsum(dim=1), (1, 0))  # (b or 1,k + 1)
    ends = rows.first + length
    return before[:, ends.clamp(max=keys)] - before[:, rows.first.clamp(max=keys)]
