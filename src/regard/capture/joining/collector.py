"""Collects attention calls into chains, within a memory budget."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from regard.capture.joining.call_chains import CallChain, RecordedCall
from regard.capture.joining.changed_weights import changed_weights
from regard.capture.joining.doubts import Doubt
from regard.capture.joining.kept_calls import KeptCall
from regard.capture.joining.memory_budget import MemoryBudget, bytes_as_text
from regard.capture.reading import call_parts as selection
from regard.capture.reading import image_patches as vision
from regard.capture.reading.attention_calls import AttentionCall
from regard.capture.reading.caches import cache_given
from regard.capture.reading.fast_replace import replace
from regard.capture.reading.layer_numbers import LayerNumbers
from regard.capture.reading.masks import MaskReader, MaskReading
from regard.capture.reading.running_modules import RunningModule
from regard.capture.reading.sinks import Sinks, learned_sink_keys
from regard.capture.reading.token_ids import TokenIds
from regard.torch_private import DispatchOff, InferenceMode, set_grad_enabled

__all__ = ["Collector"]


class Collector:
    """Keeps the calls of the chosen layers and heads, each in the chain that it continues."""

    def __init__(
        self,
        names: dict[nn.Module, str],
        *,
        layers: Collection[int] | None,
        heads: list[int] | None,
        device: torch.device | None,
        budget: MemoryBudget,
    ):
        self.layers, self.heads, self.device, self.budget = layers, heads, device, budget
        self.chains: list[CallChain] = []
        # The number of forward passes of the whole model so far. A step is one of them.
        self.steps = 0
        # The number of attention calls so far, kept or not.
        self.calls = 0
        # The token ids given to all modules, in the order of the calls.
        self.token_ids: list[TokenIds] = []
        # The calls and the grids of image patches of the current forward pass.
        self.new_calls: list[KeptCall] = []
        self.patches: list[tuple[int, int]] = []
        # The steps in which the keys of some chain continued those of the step before.
        self.continued: set[int] = set()
        # The steps that repeat the step before with one token more, as without a cache.
        self.repeated: set[int] = set()
        # The steps before which a beam search reordered its rows.
        self.reordered: set[int] = set()
        # The layer numbers of all calls, counted from the start, and from the end with -1 for the last layer.
        self.layers_seen: set[int] = set()
        self.layers_from_end: set[int] = set()
        # The names of modules whose records may not be all that multiplies the values.
        self.doubted: dict[Doubt, dict[str, None]] = {}
        # The names of modules with a step that has the cache or the sizes of the step before, and other keys.
        self.unjoined: dict[str, None] = {}
        # The number of times that draft tokens were rejected.
        self._rejections = 0
        # The latest chain of each module, and of each of its calls within a step.
        self._open: dict[tuple[str, int], CallChain] = {}
        self._numbers = LayerNumbers({name: type(module) for module, name in names.items()})
        self._reader = MaskReader()
        # The latest mask reading, and the same on the device of the records.
        self._moved = (MaskReading(), MaskReading())
        # The addresses of masks and biases that the memory budget already counts.
        self._counted: set[int] = set()

    def begin_step(self) -> None:
        """Count a forward pass of the whole model."""
        self.steps += 1
        self.patches = []

    def finish(self) -> None:
        """Release references to the masks of the model, and continue no chain from here on."""
        self.new_calls.clear()
        self._open.clear()
        self._reader = MaskReader()

    @property
    def changes(self) -> int:
        """A number that grows whenever the records change."""
        return self.calls + self._rejections

    # ---- keeping a call

    def add(
        self, call: AttentionCall, running: RunningModule, cross: bool | None, stack: Sequence[RunningModule]
    ) -> RecordedCall | None:
        """Keep a call of the module ``running``, inside the modules of ``stack``, or return None if it is not kept."""
        self.calls += 1
        layer, again = self._numbers.call(running.name, self.steps)
        if not self._wanted(running.name, layer):
            return None
        # The same as torch.inference_mode(False) and torch.no_grad(), in a sixth of the time.
        with InferenceMode(False), _unwatched(call):
            set_grad_enabled(False)  # until the end of this block
            heads, keys = call.grid.h, call.grid.k
            sinks = Sinks.of(call.sinks or learned_sink_keys(running.module, call), call.grid.k)
            call, reading = self._read(sinks.in_front(call), cross, stack)
            key = (running.name, again)
            chain = self._open.get(key)
            if chain is not None and chain.sinks == sinks:
                call, reading = sinks.after_all(call, reading, chain.keys)
            lost = chain and chain.continues_dropped_calls(call, self.steps, self.steps in self.continued)
            if lost:
                if lost == "grows":
                    self.continued.add(self.steps)
                return None
            how = None if chain is None else chain.how_it_continues(call, self.steps, sinks)
            repeats = self.steps in self.repeated
            if (
                chain is not None
                and how != "grows"
                and chain.is_repeated_by(call, reading, self.steps, repeats)
            ):
                self.repeated.add(self.steps)
                self._forget(chain)
                how = None
            if chain is None or how is None:
                if chain is not None and chain.should_continue(call, cache_given(reversed(stack))):
                    self.unjoined[running.name] = None
                chain = CallChain(running, layer, cross, call, self.device)
                chain.heads = None if self.heads is None else tuple(n % heads for n in self.heads)
                chain.windows = vision.image_windows_of(stack, call.grid)
                chain.sinks = sinks
                self.chains.append(chain)
                self._open[key] = chain
            if call.grid.q > 1 and (cache := cache_given(reversed(stack))) is not None:
                chain.cache = weakref.ref(cache)
            recorded = self._keep(chain, call, reading, how, keys)
            if recorded is not None and keys > call.grid.k and cache_given(reversed(stack)) is None:
                recorded.kept.left_out = keys - call.grid.k
            return recorded

    def _forget(self, chain: CallChain) -> None:
        """Remove a chain, all rows of which are in the call that follows."""
        self.chains.remove(chain)
        self.budget.used -= sum(kept.nbytes for kept in chain.calls)
        self.budget.used -= 0 if chain.keys is None else chain.keys.nbytes

    def _wanted(self, name: str, layer: int | None) -> bool:
        """Return whether to keep the calls of a layer, and note that the layer was seen."""
        if layer is not None:
            self.layers_seen.add(layer)
        if self.layers is None or layer is None:
            return self.layers is None
        from_end = self._numbers.from_end(name, layer)
        if from_end is not None:
            self.layers_from_end.add(from_end)
        return layer in self.layers or from_end in self.layers

    def _read(
        self, call: AttentionCall, cross: bool | None, stack: Sequence[RunningModule]
    ) -> tuple[AttentionCall, MaskReading]:
        """Return the call without repeated heads and unused keys, and the reading of its mask."""
        if call.k is not None and (distinct := selection.distinct_heads(call.k)) is not call.k:
            call = replace(call, k=distinct)
        if call.q is None or call.mask is not None or call.bias is not None:
            reading = MaskReading(call.mask, call.bias)  # type: ignore[arg-type]
        else:
            reading = self._reader.read(call.attn_mask, call.causal, call.grid)
            unused = reading.seen is not None and reading.seen < call.grid.k
            if unused and cross is False and reading.seen is not None and _may_be_cache(call, reading, stack):
                # A static cache has free places behind its keys.
                call = selection.first_keys(call, reading.seen)
                reading = self._reader.read(call.attn_mask, call.causal, call.grid)
        if self.heads is not None:
            return selection.some_heads(call, reading, self.heads)
        return call, reading

    def _keep(
        self, chain: CallChain, call: AttentionCall, reading: MaskReading, how: str | None, keys: int
    ) -> RecordedCall | None:
        kept = KeptCall(order=self.calls, step=self.steps, grid=call.grid, patches=list(self.patches))
        shared = {x.data_ptr(): x.nbytes for x in reading.tensors() if x.data_ptr() not in self._counted}
        if not self.budget.take(chain.cost(call, how) + sum(shared.values())):
            chain.drop(kept, f"past the memory budget of {bytes_as_text(self.budget.limit)}")
            return None
        self._counted |= set(shared)
        if reading is not self._moved[0]:
            # Layers that share a mask share the copy on the device of the records.
            self._moved = (reading, reading.on(self.device))
        chain.add(kept, call, self._moved[1], how, self.device)
        self.new_calls.append(kept)
        if kept.grew:
            self.continued.add(self.steps)
        if how == "reordered":
            self.reordered.add(self.steps)
        return RecordedCall(chain, kept, keys)

    # ---- changing calls that were kept

    def reject(self, cache: Any, count: int) -> None:
        """Remove the last ``count`` tokens of a cache from the records, after the model rejected them as drafts."""
        for chain in self._open.values():
            if chain.cache is not None and chain.cache() is cache and chain.step == self.steps:
                chain.reject(count)
                self._rejections += 1

    def change_weights(
        self, recorded: RecordedCall, weights: Tensor, parts: Collection[RecordedCall]
    ) -> None:
        """Replace the result of a softmax by the weights that multiply the values.

        ``parts`` are other softmaxes that went into these weights. Their own calls are removed.
        """
        with torch.inference_mode(False), torch.no_grad():
            changed = changed_weights(recorded, weights, self.heads)
            if changed is None:
                return
            if not self.budget.take(changed.nbytes):
                recorded.chain.drop_last(f"past the memory budget of {bytes_as_text(self.budget.limit)}")
            else:
                recorded.chain.replace_last(changed if self.device is None else changed.to(self.device))
        for part in parts:
            self._undo(part)

    def _undo(self, recorded: RecordedCall) -> None:
        """Remove a softmax whose result is a part of the weights of another, as in differential attention."""
        chain, kept = recorded.chain, recorded.kept
        if not chain.calls or chain.calls[-1] is not kept:
            return
        chain.calls.pop()
        self.new_calls = [x for x in self.new_calls if x is not kept]
        if not chain.calls:
            self.chains.remove(chain)
            self._open = {key: x for key, x in self._open.items() if x is not chain}

    def mark_doubtful(self, recorded: RecordedCall, doubt: Doubt) -> None:
        """Mark a call whose record may not be all that multiplies the values."""
        if any(kept is recorded.kept for kept in recorded.chain.calls):
            recorded.kept.doubt = doubt
            self.doubted.setdefault(doubt, {})[recorded.chain.name] = None

    def mark_sinks(self, recorded: RecordedCall, keys: list[int]) -> None:
        """Mark keys of a softmax that have no values as sinks."""
        if keys and not recorded.chain.sinks.total and recorded.kept.weights is not None:
            recorded.chain.sinks = sinks = Sinks.of(tuple(keys), recorded.keys)
            order = sinks.order(recorded.kept.grid.k)
            recorded.kept.weights = recorded.kept.weights[..., order]


def _may_be_cache(call: AttentionCall, reading: MaskReading, stack: Sequence[RunningModule]) -> bool:
    """Return whether hidden keys at the end may be free places of a cache, and not the padding of a block.

    The queries of a prompt see one key more each, unless the model sees its whole prompt at once.
    """
    return call.grid.q == 1 or reading.grows or cache_given(reversed(stack)) is not None


def _unwatched(call: AttentionCall) -> AbstractContextManager[object]:
    """Hide the operations of the collector from the capture, since watched copies take five times as long.

    Tensor subclasses, such as those of distributed models, need the dispatch that is switched off here.
    """
    parts = (call.q, call.k, call.weights, call.attn_mask)
    # A loop, which is faster than all() with a generator.
    for x in parts:
        if x is not None and type(x) is not Tensor and type(x) is not nn.Parameter:
            return nullcontext()
    return DispatchOff()
