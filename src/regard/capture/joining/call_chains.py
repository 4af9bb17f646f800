"""Chains of calls whose keys continue one another, such as the steps of ``generate()``.

A chain holds the calls of one module whose keys continue one another. Each key is stored once, whichever calls use it.
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.capture.joining.kept_calls import KeptCall
from regard.capture.joining.rejected_tokens import without_last_rows
from regard.capture.reading.attention_calls import AttentionCall
from regard.capture.reading.masks import MaskReading
from regard.capture.reading.running_modules import RunningModule
from regard.capture.reading.sinks import Sinks
from regard.shapes import Grid, wide_dtype

__all__ = ["CallChain", "RecordedCall", "runs_of_calls"]


class RecordedCall(NamedTuple):
    """A call that was added to a chain, so that what was kept of it can be changed later."""

    chain: CallChain
    kept: KeptCall
    keys: int  # of the call itself, before keys that no query sees were left out


class CallChain:
    """The pieces of one module, on one set of keys."""

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
        self.count = 0  # keys
        self.reordered = False
        self.dropped: str | None = None
        self.lost = 0  # rows that came after the memory ran out
        self._last = call.grid  # of the latest call, kept or not
        self._step = -1  # in which it was made
        self.refused: KeptCall | None = None  # the first call that was not kept
        self.heads: tuple[int, ...] | None = None  # which were asked for
        self.windows: tuple[tuple[int, int], int, int] | None = None  # a picture's sides, window and shift
        self.cache: weakref.ref[Any] | None = None  # of Hugging Face, that the last calls were given
        self.sinks = Sinks()  # keys in front that are no token
        self._keys: Tensor | None = None  # (b,g,room,d)

    @property
    def keys(self) -> Tensor | None:
        """All keys, ``(b,g,k,d)``."""
        return None if self._keys is None else self._keys[:, :, : self.count]

    @property
    def step(self) -> int:
        """The step of the latest call, kept or not."""
        return self._step

    # ---- does a call go on from here?

    def how_it_continues(self, call: AttentionCall, step: int, sinks: Sinks) -> str | None:
        """How a call continues this chain, as "grows", "again" (the same keys) or "reordered". None if it does not."""
        if self.dropped or sinks != self.sinks:
            return None
        last = self.calls[-1]
        (b, h, _, k), old = call.grid, k_minus_q(call.grid)
        if step == last.step or (b, h) != last.grid[:2]:
            return None
        if call.k is None or self._keys is None or not self._alike(call):
            return None  # without keys nothing shows that one call goes on from another
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
        """Whether each row continues some row of the chain, as after the reordering of a beam search."""
        keys = self.keys
        assert keys is not None
        k = k.to(keys.device)
        return all(any(torch.equal(row, held) for held in keys) for row in k)

    def continues_dropped_calls(self, call: AttentionCall, step: int, growing: bool) -> str | None:
        """How a call continues dropped calls, judged by its sizes. Its rows are counted as lost.

        ``growing`` says that this is a step of ``generate()``: only there are the same keys looked at again.
        """
        if self.dropped is None or step != self._step + 1 or call.grid[:2] != self._last[:2]:
            return None
        grows = call.grid.q < call.grid.k and k_minus_q(call.grid) == self._last.k
        if not grows and not (growing and call.grid.k == self._last.k):
            return None
        self._last, self._step = call.grid, step
        self.lost += call.grid.q
        return "grows" if grows else "again"

    # ---- adding, and taking out again

    def reject(self, count: int) -> None:
        """Take out the last tokens, if they came with the last call and it had others, or was one token itself."""
        if self.dropped:
            self.lost -= count
            self._last = self._last._replace(q=self._last.q - count, k=self._last.k - count)
            return
        last = self.calls[-1]
        own = self.cross is not True
        if self.reordered or count > last.grid.q - (0 if last.grew and len(self.calls) > 1 else 1):
            return
        if count == last.grid.q:
            self.calls.pop()
        elif not without_last_rows(last, count, keys=own):
            return
        self.count -= count if own else 0
        self._last = self.calls[-1].grid

    def drop(self, kept: KeptCall, why: str) -> None:
        """Keep nothing of a call but its size and the reason."""
        self.lost += kept.grid.q
        self._last, self._step = kept.grid, kept.step
        self.dropped = why
        self.refused = self.refused or kept

    def replace_last(self, weights: Tensor) -> None:
        """Keep other weights, ``(b,h,q,k)``, in the place of what the last call was."""
        kept = self.calls[-1]
        if weights.shape[3] != kept.grid.k:  # queries and keys have changed places
            self._keys, self.count = None, weights.shape[3]
        kept.grid = Grid(*weights.shape)
        kept.weights, kept.changed = weights, True
        kept.q = kept.lse = kept.mask = kept.bias = None

    def drop_last(self, why: str) -> None:
        """Keep nothing of the last call but its size and the reason."""
        self.drop(self.calls.pop(), why)

    def cost(self, call: AttentionCall, how: str | None) -> int:
        """Bytes that a call will take."""
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
            more += self.count  # every call gets its own keys
        return (more + (call.grid.q if self.reordered or how == "reordered" else 0)) * each

    def add(
        self, kept: KeptCall, call: AttentionCall, reading: MaskReading, how: str | None, device: Any
    ) -> None:
        """Keep copies of the tensors of a call, which later changes by the model do not reach.

        Under inference mode the copies could not be used after it: it is to be off here, and so are gradients.
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


def _with_room(count: int) -> int:
    """For how many keys there is to be room, so that not every step copies them all."""
    return count + count // 2


def k_minus_q(grid: Grid) -> int:
    return grid.k - grid.q


def runs_of_calls(chain: CallChain, continued: set[int]) -> list[list[KeptCall]]:
    """The pieces of a chain that make one map each.

    A call on the same keys continues the one before only in a step in which the keys of some chain grew, as in one of
    ``generate()``. Otherwise the model was called on a new input.
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
    """A copy of our own, on the device that was asked for."""
    return x.clone() if device is None else x.to(device, copy=True)


def _even_rows(kept: KeptCall, reading: MaskReading) -> None:
    """Give uniform weights to the rows whose keys were all hidden by one finite number, by a query of zeros."""
    if reading.even is None or kept.q is None:
        return
    sums = reading.even.to(kept.q.device)
    sums = sums.expand(*kept.grid[:2], sums.shape[2]).expand(kept.grid[:3])
    even = ~sums.isnan()
    kept.q[even] = 0.0
    if kept.lse is not None:
        kept.lse = torch.where(even, sums.to(kept.lse.dtype), kept.lse)
