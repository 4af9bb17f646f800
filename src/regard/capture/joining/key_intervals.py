"""Masks whose rows are intervals of keys, joined into one mask without a matrix of queries and keys.

A row of such a mask is an interval of keys, of which padding may hide some. That is a few numbers for each row, so that
the mask of a long text is joined_mask, and checked, without any matrix of queries and keys.
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
    """Rows that see the keys from ``first`` to ``last``, but for those that padding hides."""

    first: Tensor  # (q,)
    last: Tensor  # (q,), before the first where a row sees nothing
    padding: Tensor | None  # bool (b or 1,k), True on keys that are there

    def moved(self, by: int, keys: int) -> KeyIntervals:
        """The same rows among ``keys`` keys, of which their own begin at ``by``."""
        padding = self.padding
        if padding is not None:
            padding = torch.nn.functional.pad(padding, (by, keys - by - padding.shape[1]))
        return KeyIntervals(self.first + by, self.last + by, padding)


def intervals_of(mask: Mask | None, grid: Grid) -> KeyIntervals | None:
    """The rows of a mask as intervals, or None where some row is not an interval."""
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


def joined_mask(bands: Iterable[KeyIntervals], grid: Grid) -> tuple[bool, Mask | None]:
    """Whether these rows together make a mask rule, and that rule. A rule of None hides nothing.

    >>> prompt, step = intervals_of(Causal(), Grid(1, 1, 3, 3)), intervals_of(None, Grid(1, 1, 1, 4))
    >>> joined_mask([prompt.moved(0, 4), step.moved(0, 4)], Grid(1, 1, 4, 4))
    (True, Causal(offset=None))
    """
    bands = list(bands)
    ends = [_ends(band, grid.k) for band in bands]
    first, last = (_under_one_another(x) for x in zip(*ends, strict=True))  # (b or 1,q)
    rule = rule_between(first, last, first <= last, grid)
    padding = Padding(_seen(bands, grid.k))
    candidates: list[Mask | None] = [None, padding]
    if rule is not None:
        candidates += [rule, And(rule, padding)]
    for mask in candidates:
        if _says(mask, bands, grid):
            return True, mask
    return False, None


def _ends(band: KeyIntervals, keys: int) -> tuple[Tensor, Tensor]:
    """The first and last visible key of each row, ``(b or 1,q)``, in reverse order where no key is visible."""
    if band.padding is None:
        return band.first[None], band.last[None]
    j = torch.arange(keys)
    following = j.where(band.padding, keys).flip(1).cummin(dim=1).values.flip(1)  # the next key that is there
    before = j.where(band.padding, -1).cummax(dim=1).values
    first = following[:, band.first.clamp(max=keys - 1)]
    last = before[:, band.last.clamp(min=0)]
    nothing = (first > band.last) | (last < band.first)
    return first.masked_fill(nothing, keys), last.masked_fill(nothing, -1)


def _under_one_another(parts: tuple[Tensor, ...]) -> Tensor:
    b = max(x.shape[0] for x in parts)
    return torch.cat([x.expand(b, -1) for x in parts], dim=1)


def _seen(bands: list[KeyIntervals], keys: int) -> Tensor:
    """Keys that some row sees, ``(b or 1,k)``."""
    found = torch.zeros(1, keys, dtype=torch.bool)
    for band in bands:
        some = band.first <= band.last
        edges = torch.zeros(keys + 1, dtype=torch.long)  # one more interval begins, or has ended
        edges.index_add_(0, band.first[some], torch.ones_like(band.first[some]))
        edges.index_add_(0, band.last[some] + 1, -torch.ones_like(band.last[some]))
        inside = (edges.cumsum(0)[:-1] > 0)[None]
        found = found | (inside if band.padding is None else inside & band.padding)
    return found


def _says(mask: Mask | None, bands: list[KeyIntervals], grid: Grid) -> bool:
    """Whether a mask hides the same keys from every row as the intervals."""
    whole = intervals_of(mask, grid)
    assert whole is not None
    at = 0
    for band in bands:
        rows = slice(at, at + len(band.first))
        at = rows.stop
        if not _same(KeyIntervals(whole.first[rows], whole.last[rows], whole.padding), band, grid.k):
            return False
    return True


def _same(one: KeyIntervals, other: KeyIntervals, keys: int) -> bool:
    """Whether two sets of intervals hold the same keys, judged by the sizes of both and of their intersection."""
    both = one.padding
    if other.padding is not None:
        both = other.padding if both is None else both & other.padding
    common = KeyIntervals(torch.maximum(one.first, other.first), torch.minimum(one.last, other.last), both)
    count = _counts(common, keys)
    return all(bool((_counts(band, keys) == count).all()) for band in (one, other))


def _counts(band: KeyIntervals, keys: int) -> Tensor:
    """How many keys each row sees, ``(b or 1,q)``."""
    length = (band.last - band.first + 1).clamp(min=0)
    if band.padding is None:
        return length[None]
    before = torch.nn.functional.pad(band.padding.cumsum(dim=1), (1, 0))  # (b or 1,k + 1)
    ends = band.first + length
    return before[:, ends.clamp(max=keys)] - before[:, band.first.clamp(max=keys)]
