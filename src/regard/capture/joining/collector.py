"""Calls of attention, collected into strands of pieces within a memory budget."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from regard.capture.joining.call_chains import Piece, Strand
from regard.capture.joining.changed_weights import corrected
from regard.capture.joining.memory_budget import Budget, in_words
from regard.capture.joining.rejected_tokens import cache_given
from regard.capture.reading import call_parts as selection
from regard.capture.reading import image_patches as vision
from regard.capture.reading.attention_calls import Attended
from regard.capture.reading.fast_replace import replace
from regard.capture.reading.masks import MaskReader, Reading
from regard.capture.reading.running_modules import Frame, LayerNumbers
from regard.capture.reading.sinks import Sinks, learned_sinks
from regard.capture.watching.followed_softmax import Use

__all__ = ["Collector"]


class Collector:
    """Keeps the calls of a model that were asked for, each in the strand that it continues."""

    def __init__(
        self,
        names: dict[nn.Module, str],
        *,
        layers: Collection[int] | None,
        heads: list[int] | None,
        device: torch.device | None,
        budget: Budget,
    ):
        self.layers, self.heads, self.device, self.budget = layers, heads, device, budget
        self.strands: list[Strand] = []
        self.steps = 0  # forward passes of the whole model so far
        self.calls = 0  # attention calls of the model, kept or not
        self.pieces: list[Piece] = []  # of the forward pass under way
        self.patches: list[tuple[int, int]] = []  # grids of image patches in the pass under way
        self.continued: set[int] = set()  # steps in which some keys went on from the step before
        self.reordered: set[int] = set()  # steps in which a beam search had moved its rows
        self.layers_seen: set[int] = set()
        self.layers_from_end: set[int] = set()  # the same, -1 for the last
        self.doubted: dict[str, None] = {}  # modules whose weights may be others than those recorded
        self._rejections = 0  # of draft tokens
        self._open: dict[tuple[str, int], Strand] = {}  # by module and its call within a step
        self._numbers = LayerNumbers({name: type(module) for module, name in names.items()})
        self._reader = MaskReader()
        self._moved = (Reading(), Reading())  # the last reading, and itself on the device of the records
        self._counted: set[int] = set()  # masks and biases that the budget knows

    def begin_step(self) -> None:
        """Count a forward pass of the whole model."""
        self.steps += 1
        self.patches = []

    def finish(self) -> None:
        """Release the model's masks and the strands that could go on."""
        self.pieces.clear()
        self._open.clear()
        self._reader = MaskReader()

    @property
    def changes(self) -> int:
        """A number that grows with everything that changes the records."""
        return self.calls + self._rejections

    # ---- keeping a call

    def add(
        self, call: Attended, frame: Frame, cross: bool | None, stack: Sequence[Frame]
    ) -> tuple[Strand, Piece] | None:
        """Keep a call of the module in ``frame``, inside the modules of ``stack``; None where it is not kept."""
        self.calls += 1
        layer, again = self._numbers.call(frame.name, self.steps)
        if not self._wanted(frame.name, layer):
            return None
        with torch.inference_mode(False), torch.no_grad(), _unwatched(call):
            heads = call.grid.h
            sinks = Sinks.of(call.sinks or learned_sinks(frame.module, call), call.grid.k)
            call, reading = self._read(sinks.in_front(call), cross)
            key = (frame.name, again)
            strand = self._open.get(key)
            if strand is not None and strand.sinks == sinks:
                call, reading = sinks.after_all(call, reading, strand.keys)
            lost = strand and strand.goes_on_lost(call, self.steps, self.steps in self.continued)
            if lost:
                if lost == "grows":
                    self.continued.add(self.steps)
                return None
            how = None if strand is None else strand.continuation(call, self.steps, sinks)
            if strand is None or how is None:
                strand = Strand(frame, layer, cross, call, self.device)
                strand.heads = None if self.heads is None else tuple(n % heads for n in self.heads)
                strand.windows = vision.windows_of(stack, call.grid)
                strand.sinks = sinks
                self.strands.append(strand)
                self._open[key] = strand
            if call.grid.q > 1 and (cache := cache_given(reversed(stack))) is not None:
                strand.cache = weakref.ref(cache)
            return self._keep(strand, call, reading, how)

    def _wanted(self, name: str, layer: int | None) -> bool:
        """Whether a layer is one of those to keep. It counts as seen either way."""
        if layer is not None:
            self.layers_seen.add(layer)
        if self.layers is None or layer is None:
            return self.layers is None
        from_end = self._numbers.from_end(name, layer)
        if from_end is not None:
            self.layers_from_end.add(from_end)
        return layer in self.layers or from_end in self.layers

    def _read(self, call: Attended, cross: bool | None) -> tuple[Attended, Reading]:
        """Return the call without repeated heads and unused keys, and the reading of its mask."""
        if call.k is not None and (distinct := selection.distinct_heads(call.k)) is not call.k:
            call = replace(call, k=distinct)
        if call.q is None or call.mask is not None or call.bias is not None:
            reading = Reading(call.mask, call.bias)  # type: ignore[arg-type]
        else:
            reading = self._reader.read(call.attn_mask, call.causal, call.grid)
            unused = reading.seen is not None and reading.seen < call.grid.k
            if unused and cross is False and reading.seen is not None:  # the free places of a static cache
                call = selection.first_keys(call, reading.seen)
                reading = self._reader.read(call.attn_mask, call.causal, call.grid)
        if self.heads is not None:
            return selection.some_heads(call, reading, self.heads)
        return call, reading

    def _keep(
        self, strand: Strand, call: Attended, reading: Reading, how: str | None
    ) -> tuple[Strand, Piece] | None:
        piece = Piece(order=self.calls, step=self.steps, grid=call.grid, patches=list(self.patches))
        shared = {x.data_ptr(): x.nbytes for x in reading.tensors() if x.data_ptr() not in self._counted}
        if not self.budget.take(strand.cost(call, how) + sum(shared.values())):
            strand.drop(piece, f"past the memory budget of {in_words(self.budget.limit)}")
            return None
        self._counted |= set(shared)
        if reading is not self._moved[0]:
            self._moved = (reading, reading.on(self.device))  # once for the layers that share it
        strand.add(piece, call, self._moved[1], how, self.device)
        self.pieces.append(piece)
        if piece.grew:
            self.continued.add(self.steps)
        if how == "reordered":
            self.reordered.add(self.steps)
        return strand, piece

    # ---- changing what was kept

    def reject(self, cache: Any, count: int) -> None:
        """Take back the last tokens of a cache, drafts that the model does not accept."""
        for strand in self._open.values():
            if strand.cache is not None and strand.cache() is cache and strand.step == self.steps:
                strand.reject(count)
                self._rejections += 1

    def change_weights(self, use: Use, weights: Tensor, parts: Collection[Use]) -> None:
        """Replace the result of a softmax by the weights that multiply the values, which hold other softmaxes too."""
        with torch.inference_mode(False), torch.no_grad():
            own = corrected(use, weights, self.heads)
            if own is None:
                return
            if not self.budget.take(own.nbytes):
                use.strand.drop_last(f"past the memory budget of {in_words(self.budget.limit)}")
            else:
                use.strand.replace_last(own if self.device is None else own.to(self.device))
        for part in parts:
            self._undo(part)

    def _undo(self, use: Use) -> None:
        """Keep nothing of a softmax whose result went into the weights of another, as in differential attention."""
        strand, piece = use.strand, use.piece
        if not strand.pieces or strand.pieces[-1] is not piece:
            return
        strand.pieces.pop()
        self.pieces = [x for x in self.pieces if x is not piece]
        if not strand.pieces:
            self.strands.remove(strand)
            self._open = {key: x for key, x in self._open.items() if x is not strand}

    def doubt(self, use: Use) -> None:
        """Mark a softmax that is not seen to multiply the values."""
        if any(piece is use.piece for piece in use.strand.pieces):
            use.piece.doubtful = True
            self.doubted[use.strand.name] = None

    def name_sinks(self, use: Use, keys: list[int]) -> None:
        """Mark keys of a softmax that have no values as sinks."""
        if keys and not use.strand.sinks.total and use.piece.weights is not None:
            use.strand.sinks = sinks = Sinks.of(tuple(keys), use.call.grid.k)
            order = sinks.order(use.piece.grid.k)
            use.piece.weights = use.piece.weights[..., order]


def _unwatched(call: Attended) -> AbstractContextManager[object]:
    """Hide the collector's own operations from the capture, since seen copies cost five times as much.

    Tensor subclasses, such as those of distributed models, need the dispatch that is switched off here.
    """
    parts = (call.q, call.k, call.weights, call.attn_mask)
    plain = all(x is None or type(x) in (Tensor, nn.Parameter) for x in parts)
    return torch._C._DisableTorchDispatch() if plain else nullcontext()
