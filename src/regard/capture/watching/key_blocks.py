"""Keys that are processed in blocks, as in ring attention, whose outputs a model merges by their log-sum-exps."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.capture.joining.call_chains import RecordedCall
from regard.capture.joining.collector import Collector
from regard.capture.joining.doubts import Doubt
from regard.capture.reading.attention_calls import AttentionCall
from regard.capture.reading.running_modules import RunningModule
from regard.torch_private import DispatchOff, FunctionModesOff

__all__ = ["KeyBlocks"]


class _Place(NamedTuple):
    """The place of keys ``(b,g,k,d)`` in memory."""

    storage: int
    offset: int
    step: int  # from one key to the next
    size: int  # the number of keys

    @classmethod
    def of(cls, k: Tensor) -> _Place:
        storage = k.untyped_storage().data_ptr()
        return cls(storage, int(k.storage_offset()), k.stride(2), k.shape[2])

    def is_beside(self, other: _Place) -> bool:
        """Whether both hold different keys of one tensor."""
        if (self.storage, self.step) != (other.storage, other.step) or not self.step:
            return False
        first, second = sorted((self, other), key=lambda place: place.offset)
        steps, rest = divmod(second.offset - first.offset, self.step)
        return rest != 0 or steps >= first.size


class _Block(NamedTuple):
    recorded: RecordedCall
    place: _Place


class KeyBlocks:
    """Marks records of the same queries with different keys, where these are parts of one attention.

    Two attentions of a model may share their queries without being parts of one. Calls are parts if their keys are
    different slices of one tensor, or if the model takes exponentials around the calls, as it needs for a log-sum-exp.
    """

    def __init__(self, collector: Collector):
        self._collector = collector
        # The latest call of each module in this forward pass.
        self._latest: dict[str, _Block] = {}
        # Pairs of calls with the same queries and different keys.
        self._pairs: list[tuple[RecordedCall, RecordedCall]] = []

    def note(self, call: AttentionCall, recorded: RecordedCall) -> None:
        """Note a recorded call, and compare it with the call before it in the same module and forward pass."""
        if call.k is None or call.q is None:
            return
        with FunctionModesOff():
            block, before = _Block(recorded, _Place.of(call.k)), self._latest.get(recorded.chain.name)
            self._latest[recorded.chain.name] = block
            if before is None or before.recorded.kept.step != recorded.kept.step:
                return
            if _same_queries(before.recorded.kept.q, recorded.kept.q) and not _same_keys(before, block):
                pair = (before.recorded, recorded)
                if block.place.is_beside(before.place):
                    self._mark(pair)
                else:
                    self._pairs.append(pair)

    def module_ended(self, running: RunningModule, exponentials: int) -> None:
        """Mark the calls with the same queries in a module that took exponentials."""
        if not self._pairs or exponentials == running.exponentials:
            return
        for pair in self._pairs:
            if pair[0].kept.order > running.calls:
                self._mark(pair)
        self._pairs = [pair for pair in self._pairs if pair[0].kept.order <= running.calls]

    def clear(self) -> None:
        """Forget the calls of a forward pass that has ended."""
        self._latest.clear()
        self._pairs.clear()

    def _mark(self, pair: tuple[RecordedCall, RecordedCall]) -> None:
        for recorded in pair:
            self._collector.mark_doubtful(recorded, Doubt.PART_OF_KEYS)


def _same_keys(block: _Block, other: _Block) -> bool:
    """Whether two calls have the same keys. Keys that were freed may have left their place to others."""
    k, keys = block.recorded.chain.keys, other.recorded.chain.keys
    if block.place != other.place or k is None or keys is None or k.shape != keys.shape:
        return False
    with DispatchOff():
        return torch.equal(k, keys)


def _same_queries(q: Tensor | None, other: Tensor | None) -> bool:
    """Whether two calls have the same queries, of which those of fully masked rows may be zeros."""
    if q is None or other is None or q.shape != other.shape or q.dtype != other.dtype:
        return False
    with DispatchOff():
        if torch.equal(q, other):
            return True
        rows = (q == other).all(-1) | (q == 0).all(-1) | (other == 0).all(-1)  # (b,h,q)
        return bool(rows.all()) and bool((q == other).all(-1).any())
