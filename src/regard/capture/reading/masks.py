"""Conversion of mask tensors to the masks of :mod:`regard.masks`.

Models pass a tensor of ``q * k`` numbers, which mostly is causal, padding or a window. If it is one of these, the
mask is kept as a rule, and otherwise as a tensor.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.biases import StoredBias, moved_bias
from regard.masks import Mask
from regard.masks.base import And
from regard.masks.rules import Causal, Window
from regard.masks.stored import Padding, StoredMask
from regard.shapes import Grid

__all__ = ["HIDING", "MaskReader", "MaskReading", "is_causal_mask", "recognise", "rule_between"]

HIDING = -1e4
"""The largest number that counts as a mask value. Larger numbers in a mask tensor are a bias."""


class MaskReading(NamedTuple):
    """A mask tensor, read as a mask and a bias."""

    mask: Mask | None = None
    bias: StoredBias | None = None
    # The log-sum-exp (b,h,q) of uniform rows, in which one finite mask value hides every key, and NaN for other rows.
    even: Tensor | None = None
    # The number of keys up to the last one that any query may see.
    seen: int | None = None
    # Whether the last of these keys is hidden from some queries only, as in a prompt.
    grows: bool = False
    # Whether no query sees a later key. Fully masked rows do not count.
    causal: bool = False

    def on(self, device: torch.device | None) -> MaskReading:
        """Return the reading with its tensors on a device. None leaves them where they are."""
        if device is None:
            return self
        mask = None if self.mask is None else self.mask.map_tensors(lambda x: x.to(device))
        return self._replace(mask=mask, bias=moved_bias(self.bias, device))

    def tensors(self) -> list[Tensor]:
        """Return the tensors of the mask and the bias, for the memory budget."""
        found: list[Tensor] = []
        if self.mask is not None:
            self.mask.map_tensors(lambda x: found.append(x) or x)
        if isinstance(self.bias, StoredBias):
            found.append(self.bias.values)
        return found


class MaskReader:
    """Reads mask tensors and caches the latest readings, since the layers of a model mostly share one mask.

    Cached masks are compared by value. Writing through ``.data`` changes neither the identity nor the version of a
    tensor.
    """

    def __init__(self, remembered: int = 3):
        # A copy of each mask, its sizes, the flag is_causal and the reading.
        self._held: list[tuple[Tensor, Grid, bool, MaskReading]] = []
        self._remembered = remembered

    def read(self, mask: Tensor | None, causal: bool, grid: Grid) -> MaskReading:
        """Read the arguments ``attn_mask`` and ``is_causal`` of torch for these sizes."""
        if mask is None:
            return MaskReading(_upper_left(grid) if causal else None)
        numbers = _once(mask.detach())
        for held, size, flag, reading in self._held:
            if size == grid and flag == causal and _same(held, numbers):
                return reading
        reading = self._shared(_read(numbers, causal, grid))
        self._held = [*self._held, (numbers.clone(), grid, causal, reading)][-self._remembered :]
        return reading

    def _shared(self, reading: MaskReading) -> MaskReading:
        """Return the reading with the bias tensor of an earlier reading if the two are equal."""
        if reading.bias is not None:
            for *_, earlier in self._held:
                if earlier.bias is not None and _same(earlier.bias.values, reading.bias.values):
                    return reading._replace(bias=earlier.bias)
        return reading


def _same(one: Tensor, other: Tensor) -> bool:
    alike = one.shape == other.shape and one.dtype == other.dtype and one.device == other.device
    return alike and torch.equal(one, other)


def _once(mask: Tensor) -> Tensor:
    """Return a mask with size 1 along expanded axes."""
    for axis, step in enumerate(mask.stride()):
        if step == 0 and mask.shape[axis] > 1:
            mask = mask.narrow(axis, 0, 1)
    return mask


def _upper_left(grid: Grid) -> Mask | None:
    """Return the causal rule of torch, which counts queries and keys from the start."""
    return (Causal() if grid.shift == 0 else Causal(0)).simplified(grid)


@torch.no_grad()
def _read(mask: Tensor, causal: bool, grid: Grid) -> MaskReading:
    if not causal and _is_plainly_causal(mask, grid):
        return MaskReading(Causal(), seen=None if grid.q >= grid.k else grid.k)
    values = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)  # (b or 1,h or 1,q or 1,k or 1)
    if not causal and _hides_nothing(values):
        return MaskReading(None, StoredBias(values.clone()), seen=None if grid.q >= grid.k else grid.k)
    even = bias = hidden = None
    if causal:
        i, j = torch.arange(grid.q, device=mask.device), torch.arange(grid.k, device=mask.device)
        past = j[None, :] <= i[:, None]
        values = values & past if values.dtype == torch.bool else torch.where(past, values, float("-inf"))
    if values.dtype == torch.bool:
        keep = values
    else:
        keep = _seen_beside(values)
        # Rows (b,h,q) in which a finite mask value hides every key. It swamps the scores, so the weights are uniform.
        largest = _largest(values)
        hidden = ~keep.any(dim=-1) & largest.any(dim=-1)
        keep = keep | (largest & hidden[..., None])
        bias = _bias(values, keep, hidden)
    keep = keep.expand(*keep.shape[:2], keep.shape[2], grid.k)
    meant = keep if hidden is None else keep & ~hidden[..., None]
    seen = None if grid.q >= grid.k else _seen_until(meant)
    only_past = False
    if hidden is not None and bool(hidden.any()):
        even = keep.sum(dim=-1).log().masked_fill(~hidden, float("nan"))  # (b or 1,h or 1,q)
        only_past = keep.shape[2] > 1 and not bool((meant & _ahead(grid, mask.device)).any())
    last = meant[..., seen - 1] if seen else meant[..., :0]  # (b or 1,h or 1,q or 1)
    grows = bool((last != last[:, :, :1]).any())
    return MaskReading(recognise(keep, grid), bias, even, seen, grows, only_past)


def _is_plainly_causal(mask: Tensor, grid: Grid) -> bool:
    """Return whether a mask is causal without padding, as in most decoders."""
    if not 1 < grid.q <= grid.k or mask.numel() != grid.q * grid.k or mask.shape[-2:] != grid[2:]:
        return False
    # The last key is hidden from the first query.
    lowest = float(mask[..., 0, -1])
    if mask.dtype == torch.bool:
        past = torch.ones(grid[2:], dtype=torch.bool, device=mask.device).tril(grid.shift)
    elif lowest > HIDING or not mask.is_floating_point():
        return False
    else:
        past = torch.full(grid[2:], lowest, dtype=mask.dtype, device=mask.device).triu(grid.shift + 1)
    return torch.equal(mask.view(grid[2:]), past)


def _hides_nothing(values: Tensor) -> bool:
    """Return whether numbers for all sequences are a bias that hides nothing, as in DeBERTa and T5."""
    if values.shape[0] != 1 or not values.is_floating_point() or not values.numel():
        return False
    lowest = float(values.amin())
    return lowest > HIDING and (lowest != 0 or bool(values.any()))


def _ahead(grid: Grid, device: torch.device | str) -> Tensor:
    """Return a boolean tensor ``(q,k)`` that is True for keys after their query."""
    i = torch.arange(grid.q, device=device)[:, None] + max(grid.shift, 0)
    return torch.arange(grid.k, device=device)[None, :] > i


def _seen_beside(values: Tensor) -> Tensor:
    """Return where the weight is not 0 after these numbers are added to the scores.

    A number hides its pair if it is far below the largest of its row. The exponential of -5,000 is 0 in every dtype.
    """
    if not values.numel():
        return values > HIDING
    near = (values > HIDING) | (values > values.amax(dim=-1, keepdim=True) + HIDING / 2)
    # Kernels add in float32, in which the lowest number of float16 is small enough to keep the scores.
    if values.dtype == torch.float16:
        return near
    return near & (values > torch.finfo(values.dtype).min / 2)


def _largest(values: Tensor) -> Tensor:
    """Return where each row has its largest number, if it is finite."""
    if not values.numel():
        return values > HIDING
    return (values == values.amax(dim=-1, keepdim=True)) & values.isfinite()


def _bias(values: Tensor, keep: Tensor, hidden: Tensor) -> StoredBias | None:
    """Return the finite numbers of a mask as a bias, which is 0 in the rows ``hidden`` ``(b,h,q)``."""
    meant = keep & ~hidden[..., None]
    numbers = values.masked_fill(~meant, 0.0)
    if not bool(numbers.any()):
        return None
    # Sequences often differ in their padding only.
    if values.shape[0] > 1:
        shared = values.masked_fill(~meant, float("-inf")).amax(dim=0, keepdim=True)
        shared = shared.masked_fill(~meant.any(dim=0, keepdim=True), 0.0)
        if bool(((numbers == shared) | ~keep).all()):
            return StoredBias(shared)
    return StoredBias(numbers)


def _seen_until(keep: Tensor) -> int:
    seen = keep.flatten(0, -2).any(dim=0).nonzero()
    return int(seen[-1]) + 1 if len(seen) else keep.shape[-1]


@torch.no_grad()
def recognise(keep: Tensor, grid: Grid) -> Mask | None:
    """Return the simplest mask that is equal to a boolean tensor, or None if it hides nothing.

    >>> from regard.masks import causal, padding
    >>> grid = Grid(b=2, h=3, q=5, k=5)
    >>> recognise((causal() & padding([5, 4])).dense(grid), grid)
    And(left=Causal(offset=None), right=Padding(keep=tensor([[ True,  True,  True,  True,  True],
            [ True,  True,  True,  True, False]])))
    """
    keep = _without_equal(_without_equal(keep, 1), 0)
    if bool(keep.all()):
        return None
    if keep.shape[1] == 1 and (keep.shape[2] == 1 or bool((keep == keep[:, :, :1]).all())):
        return Padding(keep[:, 0, 0].expand(-1, grid.k).clone())
    if keep.shape[1] > 1 or keep.shape[2] == 1:
        return StoredMask(keep.clone())
    rule = _rule(keep[:, 0], grid)
    # The keys that some query sees, (b or 1,k).
    padding = Padding(keep[:, 0].any(dim=1))
    for mask in (rule, padding if rule is None else And(rule, padding)):
        if mask is not None and bool((mask.dense(grid, keep.device) == keep).all()):
            return mask
    return StoredMask(keep.clone())


def _without_equal(keep: Tensor, axis: int) -> Tensor:
    """Return the tensor with size 1 along an axis on which all entries are equal."""
    first = keep.narrow(axis, 0, 1)
    if keep.shape[axis] == 1 or keep.stride(axis) == 0 or bool((keep == first).all()):
        return first
    return keep


def _rule(keep: Tensor, grid: Grid) -> Mask | None:
    """Return the causal or window rule that covers the kept pairs of ``keep`` ``(b,q,k)``."""
    some = keep.any(dim=2)  # (b,q)
    table = keep.to(torch.uint8)
    first = table.argmax(dim=2)  # the first key that is kept
    last = grid.k - 1 - table.flip(2).argmax(dim=2)
    return rule_between(first, last, some, grid)


def rule_between(first: Tensor, last: Tensor, some: Tensor, grid: Grid) -> Mask | None:
    """Return the narrowest rule that covers the first and last key of each row, ``(b,q)`` each.

    ``some`` ``(b,q)`` is True for rows that see a key.
    """
    here = torch.arange(grid.q, device=first.device)[None, :] + grid.shift
    if not bool(some.any()):
        return None
    back = int((here - first)[some].max())
    ahead = int((last - here)[some].max())
    far_back = back >= grid.q - 1 + grid.shift
    if ahead >= grid.k - 1 - grid.shift:
        return None if far_back or back < 0 else Window(back, None)
    causal = Causal(None if ahead == 0 else grid.shift + ahead)
    if far_back:
        return causal
    if ahead >= 0 and back >= 0:
        return Window(back, ahead)
    return And(causal, Window(back, None)) if back >= 0 else causal


def is_causal_mask(mask: Mask | None, grid: Grid) -> bool:
    """Return whether no query sees a later key.

    >>> from regard.masks import causal, padding, window
    >>> is_causal_mask(causal() & padding([2, 3]), Grid(2, 1, 3, 3)), is_causal_mask(window(1, 1), Grid(1, 1, 3, 3))
    (True, False)
    """
    if isinstance(mask, And):
        return is_causal_mask(mask.left, grid) or is_causal_mask(mask.right, grid)
    if isinstance(mask, Causal):
        ahead = 0 if mask.offset is None else mask.offset - max(grid.shift, 0)
        return bool(torch.as_tensor(ahead).max() <= 0)
    if isinstance(mask, Window):
        return mask.right == 0
    if isinstance(mask, StoredMask) and grid.q > 1:
        return not bool((mask.dense(grid, "cpu") & _ahead(grid, "cpu")).any())
    return False
