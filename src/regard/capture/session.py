"""One capture while it is active: what the modes and hooks tell it becomes strands of pieces."""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.capture import selection, vision
from regard.capture.budget import Budget, in_words
from regard.capture.calls import (
    Attended,
    read_function,
    read_operation,
    refuse_transforms,
)
from regard.capture.correcting import corrected
from regard.capture.cropping import cache_given
from regard.capture.kinds import has_another_duty, is_attention, is_cross, sequences_in
from regard.capture.layouts import Lead, Letters, read_lead, strides_of
from regard.capture.masks import MaskReader, Reading
from regard.capture.modes import show_operations
from regard.capture.names import Frame, LayerNumbers, heads_of
from regard.capture.own import own_attended
from regard.capture.selection import Wanted
from regard.capture.shortcuts import is_plain
from regard.capture.sinks import Sinks, learned_sinks
from regard.capture.strands import Ids, Piece, Strand
from regard.capture.tokens import ids_in, without_words
from regard.capture.tracing import LOG_SOFTMAXES, SOFTMAXES, Place, Tracer
from regard.capture.unseen import Unseen
from regard.capture.uses import Use, Uses
from regard.capture.wrapped import is_fake, is_wrapper
from regard.errors import CaptureError
from regard.kernels.dispatch import Call

__all__ = ["SESSIONS_OF", "Session"]

SMALL_WORK = 262_144
"""Pairs of query and key up to which a call is small."""
SESSIONS_OF: Counter[int] = Counter()
"""How many captures are active in each thread."""

_FUSED = {
    getattr(torch.ops.aten, name).default
    for name in (
        "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_cudnn_attention",
        "_scaled_dot_product_fused_attention_overrideable",
        "_scaled_dot_product_attention_math_for_mps",
    )
    if hasattr(torch.ops.aten, name)
}
_GIVES_LSE = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default  # in natural units, unpadded
# By identity: operators are there once and for ever, and hashing them takes longer than all the rest.
_ROLES = {
    **{id(op): "fused" for op in _FUSED},
    **{id(op): "softmax" for op in SOFTMAXES},
    **{id(op): "log softmax" for op in LOG_SOFTMAXES},
}
_EXPONENTIALS = {
    id(op) for op in (torch.ops.aten.exp.default, torch.ops.aten.exp_.default, torch.ops.aten.exp2.default)
}


class Session:
    """Everything that is seen of a model, until the capture ends."""

    def __init__(
        self,
        names: dict[nn.Module, str],
        *,
        layers: Collection[int] | None,
        heads: list[int] | None,
        modules: Mapping[Wanted, Letters | None],
        device: torch.device | None,
        budget: Budget,
    ):
        self.names = names
        self.layers, self.heads, self.modules, self.device, self.budget = (
            layers,
            heads,
            modules,
            device,
            budget,
        )
        self.strands: list[Strand] = []
        self.continued: set[int] = set()  # steps in which some keys went on from the step before
        self.reordered: set[int] = set()  # steps in which a beam search had moved its rows
        self.ids: list[Ids] = []  # in the order in which they were seen
        self.steps = 0
        self.calls = 0  # attention calls of the model, kept or not
        self.elsewhere = False  # whether the model ran in another thread
        self.guessed: dict[str, tuple[int, ...]] = {}  # modules whose axes may be meant in another way
        self.unseen = Unseen()
        self._thread = threading.get_ident()
        self._stack: list[Frame] = []
        self._pieces: list[Piece] = []
        self._exponentials = 0  # taken so far, of more than two axes
        self._rejections = 0  # of draft tokens
        self._noticed = 0  # attentions so far, recorded or not
        self._open: dict[tuple[str, int], Strand] = {}
        self._numbers = LayerNumbers({name: type(module) for module, name in names.items()})
        self._reader = MaskReader()
        self._moved = (Reading(), Reading())  # the last reading, and itself on the device of the records
        self._tracer = Tracer(names)
        self._uses = Uses(lambda: self._tracer.parameters, self._changed, self._without_values)
        self.in_torchs_own = False  # whether F.multi_head_attention_forward runs, which folds heads as (b*h)
        self._patches: list[tuple[int, int]] = []
        self._pending: list[Attended] | None = None  # the call of F.scaled_dot_product_attention under way
        self._in_function = False  # whether torch's attention was called on tensors that wrap others
        self._own: list[Any] | None = None  # what torch's kernel returned inside a call of ours
        self._counted: set[int] = set()  # masks and biases that the budget knows
        self.layers_seen: set[int] = set()
        self.layers_from_end: set[int] = set()  # the same, -1 for the last

    # ---- which module is running

    def enter(self, module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        """A module begins."""
        if threading.get_ident() != self._thread:
            # A gradient may be taken anywhere.
            self.elsewhere |= not _repeats() and threading.get_ident() not in SESSIONS_OF
            return
        refuse_transforms(*args, *kwargs.values())
        if not self._stack:
            self.steps += 1
            self._patches = []
            self._tracer.folds.clear()
        counts = (len(self._pieces), self._tracer.products, self.calls, self._exponentials, self._noticed)
        self._stack.append(Frame(module, self.names[module], args, kwargs, *counts))

    def leave(self, module: nn.Module, result: object) -> None:
        """A module has ended, or failed."""
        if threading.get_ident() != self._thread:
            return
        latest = self._stack[-1].module if self._stack else None
        if latest is not module and all(f.module is not module for f in self._stack):
            return
        frame = self._stack.pop()
        while frame.module is not module:  # those inside it that never got to say so
            frame = self._stack.pop()
        self._patches = vision.patches_after(module, result, self._patches)
        if self._noticed == frame.noticed and result is not None:
            self._check_silent(frame)
        attended = len(self._pieces) > frame.first
        if self._tracer.holds or self._uses.follows:
            # What is known of scores is as large as the weights: only those that it returned are followed further.
            kept = _addresses(result)
            self._tracer.forget(frame.products + 1, () if attended else kept)
            self._uses.forget(frame.calls + 1, kept)
        if attended:
            self._tell(self._pieces[frame.first :], frame)
        if not self._stack:
            self._tracer.forget()
            self._uses.forget()
            self._pieces.clear()

    def _check_silent(self, frame: Frame) -> None:
        """Take note of a module that is called attention, and took no softmax of its products or exponentials."""
        products = range(frame.products + 1, self._tracer.products + 1)
        computed = bool(products) or self._exponentials > frame.exponentials
        if computed and not _repeats() and is_attention(frame.module, frame.name):
            self._noticed += 1
            self.unseen.without_softmax[frame.name] = products

    def _tell(self, pieces: list[Piece], frame: Frame) -> None:
        """Which token ids the module around some pieces was given, if any."""
        found = ids_in(frame.name, frame.arguments)
        self.ids.extend(found)
        # The heads of an attention have four axes, as a picture has.
        attends = any(is_attention(f.module, f.name) for f in (frame, *self._stack[-1:]))
        worded = bool(found) or attends or not without_words(frame.module, frame.arguments)
        for piece in pieces:
            if piece.worded:
                piece.inputs.extend(found)
                piece.worded = worded

    @property
    def follows(self) -> bool:
        """Whether there are scores of which a softmax may be taken."""
        return self._tracer.follows or self._uses.follows

    @property
    def parameters(self) -> set[int]:
        """Storages of the model's own weights."""
        return self._tracer.parameters

    def concerns(self, *values: Any) -> bool:
        """Whether a tensor among some values holds numbers that are followed, or cannot be looked at."""
        followed = self._tracer.storages() | self._uses.storages()
        return any(not is_plain(x) or x.untyped_storage().data_ptr() in followed for x in _tensors(values))

    def passed(self, result: Any) -> None:
        """What a function returned has nothing to do with scores, wherever it stands."""
        for x in _tensors((result,)):
            if is_plain(x):
                self._tracer.lose(x)

    def _named(self) -> bool:
        """Whether a module that is running is one of those that the user named."""
        return bool(self.modules) and any(selection.chosen(f, self.modules) for f in self._stack)

    def rejected(self, cache: Any, count: int) -> None:
        """The last tokens of a cache were drafts that the model does not accept."""
        if not count or threading.get_ident() != self._thread:
            return
        for strand in self._open.values():
            if strand.cache is not None and strand.cache() is cache and strand.step == self.steps:
                strand.reject(count)
                self._rejections += 1

    @property
    def changes(self) -> int:
        """Grows with everything that changes the records."""
        return self.calls + self._rejections

    def finish(self) -> None:
        """Let go of what belongs to the model: its masks, and what it was given."""
        self._stack.clear()
        self._pieces.clear()
        self._open.clear()
        self._tracer.forget()
        self._uses.forget()
        self._reader = MaskReader()

    @property
    def watching(self) -> bool:
        """Whether what happens now is the model's own forward pass, in the thread that captures it."""
        if not self._stack or threading.get_ident() != self._thread:
            return False
        return not _repeats()

    def _attention(self) -> Frame:
        """The innermost module that is watched: the attention."""
        return self._stack[-1]

    # ---- what torch is asked to do

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Around a function that may attend: it is seen operation by operation.

        That ends with the function: a mode of somebody else's that is switched on or off in between stays in its place.
        """
        show_operations(self, True)
        try:
            yield
        finally:
            show_operations(self, False)

    @contextmanager
    def function_call(self, args: tuple, kwargs: dict[str, Any]) -> Iterator[None]:
        """Around a call of ``F.scaled_dot_product_attention``."""
        call, watched = None, self._own is None and self.watching
        if watched and args and is_wrapper(args[0]) and not (args[0].is_nested or is_fake(args[0])):
            with self._function_of_wrappers():
                yield
            return
        if watched:
            try:
                call = read_function(*args, **kwargs, **self._given_axes(*args, **kwargs))
            except CaptureError:
                raise
            except (TypeError, RuntimeError, AttributeError, IndexError):
                call = None  # arguments that torch refuses: its own error is the one to see
        if call is None:
            yield
            if watched:  # it did not refuse them
                self._noticed += 1
                self.unseen.functions.add(self._attention().name)
            return
        before, self._pending = self._pending, [call]
        try:
            with nullcontext() if _is_small(call) else self.shown():
                yield
            seen = self._pending[-1]
        finally:
            self._pending = before
        self.record(seen)

    @contextmanager
    def _function_of_wrappers(self) -> Iterator[None]:
        """Around a call of ``F.scaled_dot_product_attention`` whose tensors wrap others: its kernels are recorded."""
        before, calls = self._in_function, self.calls
        self._in_function = True
        try:
            with self.shown():
                yield
        finally:
            self._in_function = before
        if self.calls == calls:
            self._noticed += 1
            self.unseen.functions.add(self._attention().name)

    @contextmanager
    def own_call(self, call: Call) -> Iterator[None]:
        """Around a call of :func:`regard.attention`, whose kernels torch does not always see."""
        if self._own is not None or not self.watching:
            yield
            return
        self._own = []
        try:
            with self.shown():
                yield
            with torch.no_grad():
                seen = own_attended(call, self._own)
        finally:
            self._own = None
        self.record(seen)

    def operation(self, func: Any, args: tuple, kwargs: dict[str, Any], result: Any) -> None:
        """An operation that torch has done."""
        if self._own is not None:
            if func is _GIVES_LSE:
                self._own.append(result[1])
            return
        role = _ROLES.get(id(func))
        if role is not None and args[0].is_meta:
            self.unseen.numberless = "a model on the meta device"
            return
        if role == "fused":
            self._fused(func, args, kwargs, result)
        elif self._pending is None and self._stack:
            if role is not None:
                self._softmax(args, result, result.exp() if role == "log softmax" else result)
            else:
                use = self._uses.saw(func, args, kwargs, result) if self._uses.follows else None
                self._exponentials += id(func) in _EXPONENTIALS and args[0].ndim > 2
                if use is None:
                    self._tracer.saw(func, args, kwargs, result)
                else:
                    self._tracer.spend(use.product)

    def folded(self, func: Any, args: tuple, kwargs: dict[str, Any], result: Any) -> None:
        """Take note of axes that were joined, as heads that are folded into the batch, or multiplied."""
        if not self._stack or type(result) is not Tensor:
            return
        if result.ndim > 4 and func in (torch.matmul, Tensor.matmul, Tensor.__matmul__):
            self._tracer.folds.multiplied(*args[:2])
        if result.ndim not in (3, 4):
            return
        if func in (torch.cat, torch.concat):
            self._tracer.folds.stacked(args[0] if args else None, kwargs.get("dim", *args[1:2]))
        elif args and type(args[0]) is Tensor:
            self._tracer.folds.reshaped(args[0], result)

    def fake_operation(self, func: Any) -> None:
        """An operation on fake tensors: those of the model, or those with which a DTensor works out a shape."""
        if id(func) in _ROLES and self.watching:
            self.unseen.numberless = "a model of fake tensors"

    def whole_graph(self, func: Any) -> None:
        """An operation that is a graph of its own, with a function of the user's inside."""
        if "flex_attention" in func.name() and self.watching:
            raise CaptureError(
                f"{self._attention().name}: flex_attention cannot be recorded, its score is a function of its own: "
                "use F.scaled_dot_product_attention (attn_implementation='sdpa')"
            )

    def _fused(self, func: Any, args: tuple, kwargs: dict[str, Any], result: Any) -> None:
        given = result if func is _GIVES_LSE else ()
        if self._pending is not None:
            self._pending.append(self._pending[0].in_dtype(args[0].dtype).with_result(given))
        elif self.watching:
            self.record(read_operation(func, args, kwargs).with_result(given))

    def _softmax(self, args: tuple, result: Tensor, weights: Tensor) -> None:
        """A softmax outside of torch's attention functions."""
        heads = heads_of(self._stack[-1], self._stack)
        product = self._tracer.attends(args[0], args[1], heads) if args[0].ndim > 1 else None
        self._tracer.lose(result)
        if not self.watching or args[0].ndim < 2:
            return
        frame = self._attention()
        if product is not None:
            self.unseen.softmax_follows(product.born)
        if product is not None and not selection.chosen(frame, self.modules):
            # The module that has made both the product and the softmax: another may do a part of it.
            frame = next(f for f in reversed(self._stack) if f.products < product.born)
        if not self._in_function and not self._named():
            attends = self._attends(frame)
            if product is None or not attends:
                if product is not None or attends:
                    self._noticed += 1
                    self.unseen.softmaxes[frame.name] = tuple(args[0].shape)
                return
        call = self._tracer.softmax(args, weights, self._place(frame))
        if call.guessed and args[0].numel():
            self.guessed.setdefault(frame.name, tuple(args[0].shape))
        kept = self.record(call, frame)
        if kept is not None:
            born = 0 if product is None else product.born
            self._uses.begin(Use(*kept, call, born, set()), result, args[1])

    def _given_axes(
        self, query: Any = None, key: Any = None, *_: Any, enable_gqa: bool = False, **__: Any
    ) -> dict[str, Lead]:
        """How the axes of a call of torch's attention are read, where they are not (b,h,n,d)."""
        letters, frame = selection.letters_of(self._stack, self.modules), self._attention()
        if letters is None and (query.ndim in (2, 4) or enable_gqa):
            return {}
        sizes = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2])
        shape = (*sizes, query.shape[-2], key.shape[-2])
        heads = heads_of(frame, self._stack)
        if letters is None and heads is None:
            return {}  # torch's own order: heads come last of all axes in front
        if letters is not None:
            *last, lead = letters.place(frame.name, shape, heads)
            if last != [len(shape) - 2, len(shape) - 1]:
                told = (
                    f"{frame.name}: the axes {letters.text!r} were given, but F.scaled_dot_product_attention"
                )
                raise CaptureError(f"{told} has queries and keys last: end them with 'qk'")
        else:
            first = self._tracer.folds.heads_first(sizes[0], heads) if len(sizes) == 1 else None
            if len(sizes) == 1 and first is None:
                return {}
            lead = read_lead(sizes, heads, strides=strides_of(query, key), heads_first=first)
            if lead.guessed:
                self.guessed.setdefault(frame.name, shape)
        return {"lead": lead}

    def _place(self, frame: Frame) -> Place:
        """What is known of the axes of scores in a module."""
        given = [x for x in sequences_in(frame.arguments).values() if x.ndim == 3]
        return Place(
            frame.name,
            heads_of(frame, self._stack),
            {x.shape[0] for x in given if x.shape[-1] == given[0].shape[-1]},  # without a bias, (b*h,q,k)
            selection.letters_of(self._stack, self.modules),
            self.in_torchs_own or isinstance(frame.module, nn.MultiheadAttention),
        )

    def _attends(self, frame: Frame) -> bool:
        """Whether a module is an attention, or the part of one that computes it, as x-transformers' ``Attend`` is."""
        if is_attention(frame.module, frame.name):
            return True
        around = self._around(frame)
        part = around is not None and is_attention(around.module, around.name)
        return part and not has_another_duty(frame.module, frame.name)

    def _around(self, frame: Frame) -> Frame | None:
        """The module that called another."""
        at = next(n for n, f in enumerate(self._stack) if f is frame)
        return self._stack[at - 1] if at else None

    # ---- keeping it

    def record(self, call: Attended, frame: Frame | None = None) -> tuple[Strand, Piece] | None:
        """Keep what was seen of a call: of the module given, or the one that is running."""
        self.calls += 1
        self._noticed += 1
        frame = frame or self._attention()
        layer, again = self._numbers.call(frame.name, self.steps)
        if not self._wanted(frame.name, layer):
            return None
        cross = self._is_cross(frame)
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
                strand.windows = vision.windows_of(self._stack, call.grid)
                strand.sinks = sinks
                self.strands.append(strand)
                self._open[key] = strand
            if call.grid.q > 1 and (cache := cache_given(reversed(self._stack))) is not None:
                strand.cache = weakref.ref(cache)
            return self._keep(strand, call, reading, how)

    def _is_cross(self, frame: Frame) -> bool | None:
        """Whether an attention looks at another sequence; a part of one may not know, but the module around it."""
        cross, around = is_cross(frame.module, frame.name, frame.arguments), self._around(frame)
        if cross is None and around is not None and is_attention(around.module, around.name):
            return is_cross(around.module, around.name, around.arguments)
        return cross

    def _wanted(self, name: str, layer: int | None) -> bool:
        """Whether a layer is one of those to keep; it counts as seen either way."""
        if layer is not None:
            self.layers_seen.add(layer)
        if self.layers is None or layer is None:
            return self.layers is None
        from_end = self._numbers.from_end(name, layer)
        if from_end is not None:
            self.layers_from_end.add(from_end)
        return layer in self.layers or from_end in self.layers

    def _read(self, call: Attended, cross: bool | None) -> tuple[Attended, Reading]:
        """The call without what is there twice or never seen, and what its mask says."""
        if call.k is not None:
            call = replace(call, k=selection.distinct_heads(call.k))
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
        piece = Piece(order=self.calls, step=self.steps, grid=call.grid, patches=list(self._patches))
        shared = {x.data_ptr(): x.nbytes for x in reading.tensors() if x.data_ptr() not in self._counted}
        if not self.budget.take(strand.cost(call, how) + sum(shared.values())):
            strand.drop(piece, f"past the memory budget of {in_words(self.budget.limit)}")
            return None
        self._counted |= set(shared)
        if reading is not self._moved[0]:
            self._moved = (reading, reading.on(self.device))  # once for the layers that share it
        strand.add(piece, call, self._moved[1], how, self.device)
        self._pieces.append(piece)
        if piece.grew:
            self.continued.add(self.steps)
        if how == "reordered":
            self.reordered.add(self.steps)
        return strand, piece

    # ---- what became of a softmax

    def _changed(self, use: Use, weights: Tensor, parts: Collection[Use]) -> None:
        """Keep the weights that multiply the values in the place of a softmax, and of others that are part of them."""
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
        self._pieces = [x for x in self._pieces if x is not piece]
        if not strand.pieces:
            self.strands.remove(strand)
            self._open = {key: x for key, x in self._open.items() if x is not strand}

    def _without_values(self, use: Use, keys: list[int]) -> None:
        """Some keys of a softmax have no values: they are sinks."""
        if keys and not use.strand.sinks.total and use.piece.weights is not None:
            use.strand.sinks = sinks = Sinks.of(tuple(keys), use.call.grid.k)
            order = sinks.order(use.piece.grid.k)
            use.piece.weights = use.piece.weights[..., order]


def _is_small(call: Attended) -> bool:
    """Whether the log-sum-exp of a call is better computed when it is needed than taken from the kernel.

    To see what a kernel returns costs more than a small call itself. Under autocast it also tells the dtype.
    """
    b, h, q, k = call.grid
    return b * h * q * k <= SMALL_WORK and not torch._C._is_any_autocast_enabled()


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors among some values, and in the lists and dictionaries among them."""
    for x in values:
        if isinstance(x, Tensor):
            yield x
        elif isinstance(x, list | tuple):
            yield from _tensors(x)
        elif isinstance(x, dict):
            yield from _tensors(x.values())


def _addresses(result: object) -> set[int]:
    """Where the tensors stand that a module returned."""
    parts = result if isinstance(result, tuple | list) else [result]
    return {x.data_ptr() for x in parts if type(x) is Tensor and x.layout is torch.strided}


def _repeats() -> bool:
    """Whether this is a pass that is repeated for the gradient."""
    return torch._C._current_graph_task_id() != -1


def _unwatched(call: Attended) -> AbstractContextManager[object]:
    """What a session does itself is not shown to it: copies would cost five times as much.

    Tensors that are more than numbers (a subclass, as of distributed models) need what is switched off here.
    """
    parts = (call.q, call.k, call.weights, call.attn_mask)
    plain = all(x is None or type(x) in (Tensor, nn.Parameter) for x in parts)
    return torch._C._DisableTorchDispatch() if plain else nullcontext()
