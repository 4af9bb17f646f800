"""Attention sinks, which are keys without a token that receive a part of each row.

A sink is an additional score (GPT-OSS, off-by-one softmax) or a learned key. While calls are joined, sinks are the
first keys, so that a growing cache appends its keys behind them. In a record they are where the model has them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.biases import Bias, StoredBias, dense_bias
from regard.capture.reading.attention_calls import AttentionCall
from regard.capture.reading.fast_replace import replace
from regard.capture.reading.kinds import attribute
from regard.capture.reading.masks import MaskReading, recognise
from regard.maps.sources import Recomputed, Source, Stored
from regard.masks import Mask
from regard.scores import Prepared
from regard.shapes import Grid
from regard.torch_private import parameters_of

# Names of parameters that are not keys.
_NO_KEYS = re.compile(r"weight|proj|bias(?!_k)|pos|table")

__all__ = ["Sinks", "learned_sink_keys", "with_sink_labels"]


class Sinks(NamedTuple):
    """The number of sinks before and behind the other keys."""

    before: int = 0
    behind: int = 0

    @classmethod
    def of(cls, columns: tuple[int, ...], keys: int) -> Sinks:
        """Return the number of sinks before the first and behind the last key that is not a sink.

        ``columns`` are the indices of all sinks among ``keys`` keys. Sinks between other keys are not counted.
        """
        if not columns:
            return _NONE
        sinks = set(columns)
        before = next((n for n in range(keys) if n not in sinks), keys)
        behind = next((n for n in range(keys - before) if keys - 1 - n not in sinks), 0)
        return cls(before, behind)

    @property
    def total(self) -> int:
        """The number of sinks on both sides."""
        return self.before + self.behind

    def columns(self, keys: int) -> tuple[int, ...]:
        """Return the indices of the sinks among ``keys`` keys in the order of the model."""
        return (*range(self.before), *range(keys - self.behind, keys))

    def order(self, keys: int) -> list[int]:
        """Return the indices of all keys in the order of the model, but with the sinks first."""
        return [*self.columns(keys), *range(self.before, keys - self.behind)]

    def in_front(self, call: AttentionCall) -> AttentionCall:
        """Return a call with its sinks as the first keys."""
        if not self.behind:
            return call
        grid, mask, device = call.grid, call.attn_mask, _device(call)
        order = self.order(grid.k)
        if call.causal:
            past = torch.ones(grid.q, grid.k, dtype=torch.bool, device=device).tril()
            hidden = torch.zeros((), device=device).masked_fill(~past, float("-inf"))
            mask = past if mask is None else mask & past if mask.dtype == torch.bool else mask + hidden
        return replace(
            call,
            causal=False,
            attn_mask=None if mask is None else mask if mask.shape[-1] == 1 else mask[..., order],
            k=None if call.k is None else call.k[:, :, order],
            weights=None if call.weights is None else call.weights[..., order],
            mask=_sorted_mask(call.mask, order, grid, device),
            bias=_sorted_bias(call.bias, order, grid, device),
        )

    def after_all(
        self, call: AttentionCall, reading: MaskReading, held: Tensor | None
    ) -> tuple[AttentionCall, MaskReading]:
        """Extend a step of a sliding window to all keys so far, of which its mask hides the older ones.

        ``held`` are the keys so far, ``(b,g,k,d)``. A sliding window drops old keys but keeps the sinks, so without
        this the keys of the step would not continue those before.
        """
        count, k = self.total, call.k
        if (
            not count
            or held is None
            or k is None
            or (*k.shape[:2], k.shape[3]) != (*held.shape[:2], held.shape[3])
        ):
            return call, reading
        old = k.shape[2] - count - call.grid.q
        hidden = held.shape[2] - count - old
        last = held[:, :, held.shape[2] - old :]
        if old < 1 or hidden < 1 or not torch.equal(k[:, :, count : count + old].to(last), last):
            return call, reading
        grid = call.grid._replace(k=call.grid.k + hidden)
        mask = torch.ones(call.grid[2:], dtype=torch.bool, device=k.device)[None, None]
        if reading.mask is not None:
            mask = reading.mask.dense(call.grid, k.device)
            mask = mask.expand(*mask.shape[:2], *call.grid[2:])
        mask = recognise(_with_columns(mask, count, hidden), grid)
        bias = reading.bias
        if bias is not None and bias.values.shape[3] > 1:
            bias = StoredBias(_with_columns(bias.values, count, hidden))
        weights = None if call.weights is None else _with_columns(call.weights, count, hidden)
        every = torch.cat([held.to(k), k[:, :, count + old :]], dim=2)
        return replace(call, grid=grid, k=every, weights=weights), reading._replace(mask=mask, bias=bias)

    def as_in_model(self, source: Source) -> Source:
        """Return a source with its sinks where the model has them."""
        if not self.behind:
            return source
        grid = source.grid
        order = [*range(self.before), *range(self.total, grid.k), *range(self.before, self.total)]
        if isinstance(source, Stored):
            return Stored(source.values[..., order])
        if not isinstance(source, Recomputed):
            return source
        ready, device = source.ready, source.ready.q.device
        return Recomputed(
            Prepared(ready.q, ready.k[:, :, order], ready.scale, ready.v),
            grid,
            _sorted_mask(source.mask, order, grid, device),
            _sorted_bias(source.bias, order, grid, device),
            source._lse,
            source.score,
        )


_NONE = Sinks()


def _with_columns(x: Tensor, at: int, count: int) -> Tensor:
    """Insert ``count`` columns of zeros at the index ``at``."""
    zeros = x.new_zeros(*x.shape[:-1], count)
    return torch.cat([x[..., :at], zeros, x[..., at:]], dim=-1)


def _sorted_mask(mask: Mask | None, order: list[int], grid: Grid, device: torch.device) -> Mask | None:
    if mask is None:
        return None
    keep = mask.dense(grid, device)  # (b or 1,h or 1,q or 1,k or 1)
    return recognise(keep.expand(*keep.shape[:2], grid.q, grid.k)[..., order], grid)


def _sorted_bias(bias: Bias | None, order: list[int], grid: Grid, device: torch.device) -> Bias | None:
    if bias is None:
        return None
    values = dense_bias(bias, grid, device)
    return StoredBias(values if values.shape[3] == 1 else values[..., order])


def _device(call: AttentionCall) -> torch.device:
    given = next(x for x in (call.k, call.weights) if x is not None)
    return given.device


def learned_sink_keys(module: nn.Module, call: AttentionCall) -> tuple[int, ...]:
    """Return the indices of keys that are parameters of the module, or the zeros of ``add_zero_attn``."""
    k = call.k
    if k is None or not k.numel() or k.shape[2] != call.grid.k:
        return ()
    found: list[int] = []
    zeros = attribute(module, "add_zero_attn") is True
    rows = _own_rows(module, k.shape[1], k.shape[3])
    if not zeros and not rows:
        return ()
    for columns in (range(call.grid.k), range(call.grid.k - 1, -1, -1)):
        for n in columns:
            key = k[0, :, n]  # (h,d)
            own = any(bool((x.to(key) == key).all(dim=(-2, -1)).any()) for x in rows)
            if not own and not (zeros and n == call.grid.k - 1 and not bool(key.any())):
                break
            found.append(n)
    return tuple(sorted(set(found))) if len(set(found)) < call.grid.k else ()


def _own_rows(module: nn.Module, heads: int, width: int) -> list[Tensor]:
    """Return the parameters of a module as possible keys, ``(n,h,d)`` or ``(n,1,d)`` each, in every axis order."""
    found = []
    for name, values in parameters_of(module).items():
        if values is None or values.ndim < 2 or not values.is_floating_point() or _NO_KEYS.search(name):
            continue
        values = values.detach()
        if values.shape[-1] == heads * width:  # (...,n,m)
            found.append(values.reshape(-1, heads, width))
        elif values.shape[-1] == width:
            flat = values.reshape(-1, width)
            if flat.shape[0] % heads == 0:
                found.append(flat.reshape(heads, -1, width).transpose(0, 1))  # (h,n,d)
                found.append(flat.reshape(-1, heads, width))  # (n,h,d)
            found.append(flat[:, None])  # (n,1,d), shared by all heads
    return found


def with_sink_labels(labels: list[list[str]] | None, sinks: tuple[int, ...]) -> list[list[str]] | None:
    """Insert labels for the sinks between the labels of tokens.

    >>> with_sink_labels([["a", "b"]], (2,))
    [['a', 'b', '[sink]']]
    """
    if labels is None or not sinks:
        return labels
    named = []
    for row in labels:
        words = iter(row)
        at = {n: "[sink]" if len(sinks) == 1 else f"[sink {i}]" for i, n in enumerate(sinks, 1)}
        named.append([at[n] if n in at else next(words) for n in range(len(row) + len(sinks))])
    return named
