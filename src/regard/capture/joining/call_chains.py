"""Chains of calls whose keys continue one another, such as the steps of ``generate()``.

Each key of a chain is stored once, although several calls use it.
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.capture.joining.kept_calls import KeptCall
from regard.capture.joining.rejected_tokens import without_last_rows
from regard.capture.reading.attention_calls import AttentionCall
from regard.capture.reading.call_parts import HeadsInQueries
from regard.capture.reading.masks import MaskReading, is_causal_mask
from regard.capture.reading.running_modules import RunningModule
from regard.capture.reading.sinks import Sinks
from regard.shapes import Grid, wide_dtype

__all__ = ["CallChain", "RecordedCall", "runs_of_calls"]


class RecordedCall(NamedTuple):
    """A call in its chain, through which its kept tensors can be changed later."""

    chain: CallChain
    kept: KeptCall
    # The number of keys of the call, including unused keys, which are not kept.
    keys: int
    # The heads that the model computed as further queries, which have an axis of their own in the kept call.
    folded: HeadsInQueries | None = None


class CallChain:
    """The calls of one module whose keys continue one another."""

    def __init__(
        self,
        running: RunningModule,
        layer: int | None,
        cross: bool | None,
        call: AttentionCall,
        device: Any = None,
    ):
        self.name, self.module, self.layer, self.cross = running.name, running.module, layer, cross
        self.scale, self.score = call.scale, call.score
        self.v = None if call.v is None else _copy(call.v, device)
        self.calls: list[KeptCall] = []
        # The number of keys.
        self.count = 0
        # Whether a beam search has reordered the rows of the keys.
        self.reordered = False
        # The reason why later calls are dropped, and the number of their rows.
        self.dropped: str | None = None
        self.lost = 0
        # The sizes and the step of the latest call, kept or not.
        self._last = call.grid
        self._step = -1
        # The first call that was dropped.
        self.refused: KeptCall | None = None
        # The heads that were asked for, or None for all.
        self.heads: tuple[int, ...] | None = None
        # The sides of the image, the window size and the shift of window attention.
        self.windows: tuple[tuple[int, int], int, int] | None = None
        # The Hugging Face cache that the latest calls used.
        self.cache: weakref.ref[Any] | None = None
        self.sinks = Sinks()
        # (b,g,room,d), where room is at least the number of keys
        self._keys: Tensor | None = None

    @property
    def keys(self) -> Tensor | None:
        """All keys, ``(b,g,k,d)``."""
        return None if self._keys is None else self._keys[:, :, : self.count]

    @property
    def step(self) -> int:
        """The step of the latest call, kept or not."""
        return self._step

    # ---- does a call continue this chain?

    def how_it_continues(self, call: AttentionCall, step: int, sinks: Sinks) -> str | None:
        """Return how a call continues this chain, or None if it does not.

        "grows" adds keys, "again" has the same keys, and "reordered" adds keys after a beam search moved the rows.
        """
        if self.dropped or sinks != self.sinks:
            return None
        last = self.calls[-1]
        (b, h, _, k), old = call.grid, k_minus_q(call.grid)
        if step == last.step or (b, h) != last.grid[:2]:
            return None
        # Without keys there is no evidence that one call continues another.
        if call.k is None or self._keys is None or not self._alike(call):
            return None
        if (
            self.cross is not True
            and 0 < old <= self.count
            and self._holds(call.k.narrow(2, 0, old), self.count - old)
        ):
            return "grows"
        if k == self.count and self._holds(call.k, 0):
            return "again"
        if old == self.count and b > 1 and self._rows_moved(call.k[:, :, :old]):
            return "reordered"
        return None

    def is_repeated_by(self, call: AttentionCall, reading: MaskReading, step: int, repeats: bool) -> bool:
        """Return whether a call does this chain's only call again with one token more, as without a cache.

        The queries of a causal attention have the same keys in both, so that the longer call has all rows of the
        shorter. Its keys were computed anew, and differ from those before by rounding. ``repeats`` says that this step
        repeats the step before, as another chain has shown. Then cross-attention has more queries and the same keys.
        """
        if len(self.calls) != 1 or self.dropped:
            return False
        last, keys = self.calls[-1], self.keys
        more = (call.grid.q - last.grid.q, call.grid.k - last.grid.k)
        if step != last.step + 1 or call.grid[:2] != last.grid[:2]:
            return False
        if more not in ((1, 1), (1, 0)) or call.k is None or keys is None or not self._alike(call):
            return False
        if more == (1, 0):
            return repeats and self.cross is not False and self._holds(call.k, 0)
        is_causal = self.cross is not True and self.sinks.total == k_minus_q(call.grid) == k_minus_q(
            last.grid
        )
        masks = ((last.mask, last.causal, last.grid), (reading.mask, reading.causal, call.grid))
        # A single query has no later key.
        if not is_causal or not all(
            causal or grid.q == 1 or is_causal_mask(mask, grid) for mask, causal, grid in masks
        ):
            return False
        start, equal = self.sinks.total, _nearly_equal(call.k[:, :, : last.grid.k].to(keys.device), keys)
        if reading.even is not None:
            # Padding may see later tokens, by uniform weights, so that its own keys change.
            padding = ~reading.even.isnan().any(dim=1)[:, : last.grid.q].to(keys.device)  # (b or 1,q)
            equal[:, :, start:] |= padding[:, None]
        return bool(equal.all())

    def _alike(self, call: AttentionCall) -> bool:
        assert self._keys is not None
        assert call.k is not None
        same = (call.k.shape[0], call.k.shape[1], call.k.shape[3]) == (
            *self._keys.shape[:2],
            self._keys.shape[3],
        )
        same = same and call.k.dtype == self._keys.dtype and call.scale == self.scale
        last = self.calls[-1]
        same = same and (last.changed or (call.weights is None) == (last.weights is None))
        if not same or call.score is not self.score or (call.v is None) != (self.v is None):
            return False
        return call.v is None or self.v is None or torch.equal(call.v.to(self.v.device), self.v)

    def _holds(self, k: Tensor, start: int) -> bool:
        if self._keys is None:
            return False
        held = self._keys.narrow(2, start, k.shape[2])
        return torch.equal(held, k if k.device == held.device else k.to(held.device))

    def _rows_moved(self, k: Tensor) -> bool:
        """Return whether each row continues some row of the chain, as after the reordering of a beam search."""
        keys = self.keys
        assert keys is not None
        k = k.to(keys.device)
        return all(any(torch.equal(row, held) for held in keys) for row in k)

    def should_continue(self, call: AttentionCall, cache: Any) -> bool:
        """Return whether a call that does not continue this chain has its cache, or past keys as if it did.

        A call on a part of the keys is a branch of its own, after the caller has cropped the cache.
        """
        if self.dropped:
            return False
        past = k_minus_q(call.grid)
        if cache is not None and self.cache is not None:
            if self.cache() is not cache:
                return False
            if call.k is None or not 0 < past < self.count or call.grid.h != self._last.h:
                return True
            return not (self._alike(call) and self._holds(call.k.narrow(2, 0, past), 0))
        began_with_tokens = bool(self.calls) and self.calls[0].grid.q == self.calls[0].grid.k
        return self.cross is not True and began_with_tokens and past == self._last.k

    def continues_dropped_calls(self, call: AttentionCall, step: int, growing: bool) -> str | None:
        """Return how a call continues dropped calls, judged by its sizes, and count its rows as lost.

        ``growing`` says that this is a step of ``generate()``. Only then can a call use the same keys again.
        """
        if self.dropped is None or step != self._step + 1 or call.grid[:2] != self._last[:2]:
            return None
        grows = call.grid.q < call.grid.k and k_minus_q(call.grid) == self._last.k
        if not grows and not (growing and call.grid.k == self._last.k):
            return None
        self._last, self._step = call.grid, step
        self.lost += call.grid.q
        return "grows" if grows else "again"

    # ---- adding and removing calls

    def reject(self, count: int) -> None:
        """Remove the last ``count`` tokens if they came with the last call.

        All tokens of the last call are removed only if it continued another call.
        """
        if self.dropped:
            self.lost -= count
            self._last = self._last._replace(q=self._last.q - count, k=self._last.k - count)
            return
        last = self.calls[-1]
        # Keys of cross-attention are not the tokens of the queries.
        with_keys = self.cross is not True
        if self.reordered or count > last.grid.q - (0 if last.grew and len(self.calls) > 1 else 1):
            return
        if count == last.grid.q:
            self.calls.pop()
        elif not without_last_rows(last, count, keys=with_keys):
            return
        self.count -= count if with_keys else 0
        self._last = self.calls[-1].grid

    def drop(self, kept: KeptCall, why: str) -> None:
        """Drop a call, and note its size and the reason."""
        self.lost += kept.grid.q
        self._last, self._step = kept.grid, kept.step
        self.dropped = why
        self.refused = self.refused or kept

    def replace_last(self, weights: Tensor) -> None:
        """Replace the last call by its weights ``(b,h,q,k)`` as the model changed them."""
        kept = self.calls[-1]
        # The model transposed the weights.
        if weights.shape[3] != kept.grid.k:
            self._keys, self.count = None, weights.shape[3]
        kept.grid = Grid(*weights.shape)
        kept.weights, kept.changed = weights, True
        kept.q = kept.lse = kept.mask = kept.bias = None

    def drop_last(self, why: str) -> None:
        """Drop the last call, and note its size and the reason."""
        self.drop(self.calls.pop(), why)

    def cost(self, call: AttentionCall, how: str | None) -> int:
        """Return the bytes that keeping a call takes."""
        rows = 0 if call.weights is None else call.weights.nbytes
        if call.q is not None:
            sums = call.grid.b * call.grid.h * call.grid.q * wide_dtype(call.q.dtype).itemsize
            rows = call.q.nbytes + sums
        return rows + self._cost_of_keys(call, how)

    def _cost_of_keys(self, call: AttentionCall, how: str | None) -> int:
        if call.k is None or how == "again":
            return 0
        if how is None:
            return call.k.nbytes
        each = call.k.nbytes // max(call.grid.k, 1)
        need, room = self.count + call.grid.q, 0 if self._keys is None else self._keys.shape[2]
        more = 0 if need <= room else _with_room(need) - room
        if how == "reordered" and not self.reordered:
            # From now on every call holds a copy of its keys.
            more += self.count
        return (more + (call.grid.q if self.reordered or how == "reordered" else 0)) * each

    def add(
        self, kept: KeptCall, call: AttentionCall, reading: MaskReading, how: str | None, device: Any
    ) -> None:
        """Keep copies of the tensors of a call, so that later in-place changes by the model do not affect them.

        The caller switches off inference mode, whose tensors could not be used after it, and gradients.
        """
        kept.mask, kept.bias, kept.causal = reading.mask, reading.bias, reading.causal
        kept.grew = how in ("grows", "reordered")
        if call.weights is not None:
            kept.weights = _copy(call.weights, device)
        else:
            assert call.q is not None
            kept.q = _copy(call.q, device)
            kept.lse = None if call.lse is None else _copy(call.lse, device)
            _even_rows(kept, reading)
        if call.k is None:
            self.count = call.grid.k
        else:
            self._add_keys(kept, call.k, how, device)
        self.calls.append(kept)
        self._last, self._step = kept.grid, kept.step

    def _add_keys(self, kept: KeptCall, k: Tensor, how: str | None, device: Any) -> None:
        if how == "again":
            kept.added = (self.count, self.count)
            return
        if how is None:
            self._keys, self.count = _copy(k, device), k.shape[2]
            kept.added = (0, self.count)
            return
        if how == "reordered":
            self._split(k, device)
        start = self.count
        new = k.narrow(2, k.shape[2] - kept.grid.q, kept.grid.q)
        self._append(new)
        kept.first = self.count - kept.grid.k
        kept.added = (start, self.count)
        if self.reordered:
            kept.new = _copy(new, device)

    def _split(self, k: Tensor, device: Any) -> None:
        """Give each call its own copy of its keys, after a beam search has reordered the rows of the chain."""
        if not self.reordered:
            for kept in self.calls:
                start, stop = kept.added
                assert self._keys is not None
                kept.new = self._keys[:, :, start:stop].clone()
            self.reordered = True
        assert self._keys is not None
        self._keys[:, :, : self.count] = k[:, :, : self.count].to(device)

    def _append(self, new: Tensor) -> None:
        assert self._keys is not None
        need = self.count + new.shape[2]
        if need > self._keys.shape[2]:
            b, g, _, d = self._keys.shape
            room = self._keys.new_empty(b, g, _with_room(need), d)
            room[:, :, : self.count] = self._keys[:, :, : self.count]
            self._keys = room
        self._keys.narrow(2, self.count, new.shape[2]).copy_(new)
        self.count = need


def _nearly_equal(k: Tensor, other: Tensor) -> Tensor:
    """Return which keys ``(b,g,k)`` of ``(b,g,k,d)`` equal others up to the rounding of several layers."""
    far = 1e-3 if k.dtype in (torch.float32, torch.float64) else 0.1
    k, other = (x.to(wide_dtype(x.dtype)) for x in (k, other))
    return (k - other).norm(dim=-1) <= far * other.norm(dim=-1)


def _with_room(count: int) -> int:
    """Return the number of keys to allocate, which is larger than needed, so that most steps copy no old keys."""
    return count + count // 2


def k_minus_q(grid: Grid) -> int:
    """Return how many more keys than queries a grid has."""
    return grid.k - grid.q


def runs_of_calls(chain: CallChain, continued: set[int]) -> list[list[KeptCall]]:
    """Return the calls of a chain in groups, of which each becomes one map.

    ``continued`` are the steps in which the keys of some chain grew, as in ``generate()``. Only in these does a call on
    the same keys continue the call before. In other steps the model was called on a new input.
    """
    runs: list[list[KeptCall]] = []
    for kept in chain.calls:
        again = not kept.grew and kept.step in continued
        if runs and (kept.grew or again):
            runs[-1].append(kept)
        else:
            runs.append([kept])
    return runs


def _copy(x: Tensor, device: Any) -> Tensor:
    """Return a copy of a tensor, on the device of the records."""
    return x.clone() if device is None else x.to(device, copy=True)


def _even_rows(kept: KeptCall, reading: MaskReading) -> None:
    """Make the weights of fully masked rows uniform, by queries of zeros, where the mask value is finite."""
    if reading.even is None or kept.q is None:
        return
    sums = reading.even.to(kept.q.device)
    sums = sums.expand(*kept.grid[:2], sums.shape[2]).expand(kept.grid[:3])
    even = ~sums.isnan()
    kept.q[even] = 0.0
    if kept.lse is not None:
        kept.lse = torch.where(even, sums.to(kept.lse.dtype), kept.lse)
