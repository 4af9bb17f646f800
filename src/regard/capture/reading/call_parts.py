"""Parts of a call: some heads, the keys in use, heads that are not copies of one another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn

from regard.biases import StoredBias, dense_bias
from regard.capture.reading.attention_calls import Attended
from regard.capture.reading.axes import Letters
from regard.capture.reading.fast_replace import replace
from regard.capture.reading.masks import Reading
from regard.capture.reading.running_modules import Frame
from regard.errors import ArgumentError
from regard.masks import Mask
from regard.masks.stored import StoredMask
from regard.shapes import Grid

__all__ = ["Wanted", "chosen", "distinct_heads", "first_keys", "is_chosen", "letters_of", "some_heads"]

Wanted = str | nn.Module | type[nn.Module]


def chosen(frame: Frame, modules: Mapping[Wanted, Letters | None]) -> bool:
    """Whether a module is one of those that the user named: by name, by itself, or by its class."""
    return is_chosen(frame.module, frame.name, modules)


def is_chosen(module: nn.Module, name: str, modules: Iterable[Wanted]) -> bool:
    """The same for a module that is not running."""
    return any(_is(module, name, wanted) for wanted in modules)


def letters_of(stack: Sequence[Frame], modules: Mapping[Wanted, Letters | None]) -> Letters | None:
    """The axes that the user gave for the innermost module that is running, if any."""
    given = [(wanted, letters) for wanted, letters in modules.items() if letters is not None]
    if not given:
        return None
    return next(
        (x for frame in reversed(stack) for wanted, x in given if _is(frame.module, frame.name, wanted)), None
    )


def _is(module: nn.Module, name: str, wanted: Wanted) -> bool:
    if isinstance(wanted, str):
        return name == wanted
    return isinstance(module, wanted) if isinstance(wanted, type) else module is wanted


def distinct_heads(k: Tensor) -> Tensor:
    """Keys ``(b,h,k,d)`` without the copies that a model made for grouped queries, ``(b,g,k,d)``.

    >>> distinct_heads(torch.randn(2, 3, 5, 4).repeat_interleave(2, dim=1)).shape
    torch.Size([2, 3, 5, 4])
    """
    heads = k.shape[1]
    if heads < 2 or not k.numel() or not torch.equal(k[0, 0, 0], k[0, 1, 0]):
        return k  # one comparison of a few numbers, for most models
    alike = (k[0, :, 0] == k[0, :1, 0]).all(dim=-1).tolist()
    run = next((n for n, same in enumerate(alike) if not same), heads)
    while run > 1:
        if heads % run == 0:
            groups = k.unflatten(1, (heads // run, run))  # (b,g,copies,k,d)
            if bool((groups == groups[:, :, :1]).all()):
                return groups[:, :, 0]
        run -= 1
    return k


def first_keys(call: Attended, count: int) -> Attended:
    """Only the first keys of a call."""
    assert call.k is not None
    mask = call.attn_mask
    if mask is not None and mask.shape[-1] != 1:
        mask = mask[..., :count]
    return replace(call, k=call.k[:, :, :count], attn_mask=mask, grid=call.grid._replace(k=count))


def some_heads(call: Attended, reading: Reading, heads: list[int]) -> tuple[Attended, Reading]:
    """Only these heads of a call and of its mask."""
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
    reading = Reading(
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


def _bias_of(reading: Reading, heads: list[int], grid: Grid) -> StoredBias | None:
    if reading.bias is None:
        return None
    values = dense_bias(reading.bias, grid, torch.device("cpu"))
    return StoredBias(values if values.shape[1] == 1 else values[:, heads])
