"""Parts of a call, such as some of its heads, its first keys, or its heads without copies."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.biases import StoredBias, dense_bias
from regard.capture.reading.attention_calls import AttentionCall
from regard.capture.reading.fast_replace import replace
from regard.capture.reading.masks import MaskReading
from regard.errors import ArgumentError
from regard.masks import Mask
from regard.masks.stored import StoredMask
from regard.shapes import Grid

__all__ = [
    "HeadsInQueries",
    "distinct_heads",
    "first_keys",
    "some_heads",
]


def distinct_heads(k: Tensor) -> Tensor:
    """Return keys ``(b,h,k,d)`` as ``(b,g,k,d)``, without the copies that a model made for grouped heads.

    >>> distinct_heads(torch.randn(2, 3, 5, 4).repeat_interleave(2, dim=1)).shape
    torch.Size([2, 3, 5, 4])
    """
    heads = k.shape[1]
    if heads < 2 or not k.numel():
        return k
    # Most models have no copies, which the first number of two heads shows.
    first, second = k[0, :2, 0, 0].tolist()
    if first != second:
        return k
    alike = (k[0, :, 0] == k[0, :1, 0]).all(dim=-1).tolist()
    run = next((n for n, same in enumerate(alike) if not same), heads)
    while run > 1:
        if heads % run == 0:
            groups = k.unflatten(1, (heads // run, run))  # (b,g,copies,k,d)
            if bool((groups == groups[:, :, :1]).all()):
                return groups[:, :, 0]
        run -= 1
    return k


def first_keys(call: AttentionCall, count: int) -> AttentionCall:
    """Return a call with its first ``count`` keys only."""
    assert call.k is not None
    mask = call.attn_mask
    if mask is not None and mask.shape[-1] != 1:
        mask = mask[..., :count]
    return replace(call, k=call.k[:, :, :count], attn_mask=mask, grid=call.grid._replace(k=count))


class HeadsInQueries(NamedTuple):
    """Heads of a group that a model computes as further queries ``(b,g,heads*n,d)`` of the same keys."""

    # The number of heads in a group.
    copies: int
    # Whether the rows of a group are (heads*n), and not (n*heads).
    outer: bool = True

    def unfold(self, x: Tensor) -> Tensor:
        """Return queries or weights ``(b,g,rows,m)`` as ``(b,h,n,m)``."""
        n = x.shape[2] // self.copies
        if self.outer:
            return x.unflatten(2, (self.copies, n)).flatten(1, 2)
        return x.unflatten(2, (n, self.copies)).transpose(2, 3).flatten(1, 2)

    def unfold_mask(self, mask: Tensor, grid: Grid) -> Tensor:
        """Return a mask that broadcasts to the folded ``grid`` with an axis for all heads."""
        mask = mask[(None,) * (4 - mask.ndim)]
        if mask.shape[1] == mask.shape[2] == 1:
            return mask
        return self.unfold(mask.expand(-1, grid.h, grid.q, -1))

    def unfold_call(self, call: AttentionCall) -> AttentionCall:
        """Return a call with an axis for all heads."""
        b, g, rows, k = call.grid
        mask = call.attn_mask
        if call.causal and call.q is not None:
            # Torch aligns the mask to the upper left corner of the rows, which are no tokens.
            mask = call.q.new_ones(rows, k, dtype=torch.bool).tril()
        return replace(
            call,
            grid=Grid(b, g * self.copies, rows // self.copies, k),
            q=None if call.q is None else self.unfold(call.q),
            lse=None if call.lse is None else self.unfold(call.lse[..., None])[..., 0],
            weights=None if call.weights is None else self.unfold(call.weights),
            attn_mask=None if mask is None else self.unfold_mask(mask, call.grid),
            causal=False,
        )


def some_heads(
    call: AttentionCall, reading: MaskReading, heads: list[int]
) -> tuple[AttentionCall, MaskReading]:
    """Return a call and its mask with some heads only."""
    grid = call.grid
    for head in heads:
        if not -grid.h <= head < grid.h:
            raise ArgumentError("heads", f"head {head} was asked for, but there are {grid.h}")
    at = [n % grid.h for n in heads]
    if len(set(at)) < len(at):
        raise ArgumentError(
            "heads", f"{heads} name a head twice, of the {grid.h} there are", "give each once"
        )
    cut = {
        name: None if x is None else x[:, at]
        for name, x in (("q", call.q), ("lse", call.lse), ("weights", call.weights))
    }
    if call.k is not None:
        copies = grid.h // call.k.shape[1]
        cut["k"] = call.k[:, [n // copies for n in at]]
    reading = MaskReading(
        _mask_of(reading.mask, at, grid),
        _bias_of(reading, at, grid),
        reading.even if reading.even is None or reading.even.shape[1] == 1 else reading.even[:, at],
        causal=reading.causal,
    )
    return replace(call, grid=grid._replace(h=len(at)), **cut), reading


def _mask_of(mask: Mask | None, heads: list[int], grid: Grid) -> Mask | None:
    if mask is None:
        return None
    keep = mask.allow(torch.zeros(1, 1, dtype=torch.long), torch.zeros(1, 1, dtype=torch.long), grid)
    return mask if keep.shape[1] == 1 else StoredMask(mask.dense(grid)[:, heads])


def _bias_of(reading: MaskReading, heads: list[int], grid: Grid) -> StoredBias | None:
    if reading.bias is None:
        return None
    values = dense_bias(reading.bias, grid, torch.device("cpu"))
    return StoredBias(values if values.shape[1] == 1 else values[:, heads])
