"""One active capture, which learns of modules and operations and hands attention calls to its collector."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from regard.capture.joining.call_chains import Ids, Piece, Strand
from regard.capture.joining.collector import Collector
from regard.capture.joining.memory_budget import Budget
from regard.capture.reading import call_parts as selection
from regard.capture.reading import image_patches as vision
from regard.capture.reading.attention_calls import (
    Attended,
    read_function,
    read_operation,
    refuse_transforms,
    unwrapped,
)
from regard.capture.reading.axes import Lead, Letters
from regard.capture.reading.axes_of_calls import lead_of_function, place_of_scores
from regard.capture.reading.call_parts import Wanted
from regard.capture.reading.kinds import has_another_duty, is_attention, is_cross
from regard.capture.reading.labels import ids_in, without_words
from regard.capture.reading.regard_calls import own_attended
from regard.capture.reading.running_modules import Frame, heads_of
from regard.capture.reading.tensor_subclasses import is_fake, is_wrapper
from regard.capture.watching.followed_softmax import Use
from regard.capture.watching.modes import show_operations
from regard.capture.watching.module_outputs import attributes_of, storages_in
from regard.capture.watching.operators import EXPONENTIALS, GIVES_LSE, ROLES
from regard.capture.watching.score_tracing import Tracer
from regard.capture.watching.shortcuts import is_plain, tensors_in
from regard.capture.watching.unseen_attention import Unseen
from regard.capture.watching.weight_tracing import Uses
from regard.errors import CaptureError
from regard.kernels.dispatch import Call

__all__ = ["SESSIONS_OF", "Session"]

_RESHAPING = {Tensor.view, Tensor.reshape}
SESSIONS_OF: Counter[int] = Counter()
"""How many captures are active in each thread."""


class Session:
    """Follows a model's forward passes until the capture ends."""

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
        self.names, self.modules = names, modules
        self.collector = Collector(names, layers=layers, heads=heads, device=device, budget=budget)
        self.ids: list[Ids] = []  # in the order in which they were seen
        self.elsewhere = False  # whether the model ran in another thread
        self.guessed: dict[str, tuple[int, ...]] = {}  # modules whose axes may be meant in another way
        self.unseen = Unseen()
        self.in_torchs_own = False  # whether F.multi_head_attention_forward runs, which folds heads as (b*h)
        # Whether calls of an eager attention function of Hugging Face are recorded as a whole, or are followed.
        self.eager_functions: dict[Any, bool] = {}
        self._thread = threading.get_ident()
        self._stack: list[Frame] = []
        self._exponentials = 0  # taken so far, of more than two axes
        self._noticed = 0  # attentions so far, recorded or not
        self._tracer = Tracer(names)
        self._uses = Uses(lambda: self._tracer.parameters, self.collector)
        self._pending: list[Attended] | None = None  # the call of F.scaled_dot_product_attention under way
        self._in_function = False  # whether torch's attention was called on tensors that wrap others
        self._own: list[Any] | None = None  # what torch's kernel returned inside a call of ours

    # ---- which module is running

    def enter(self, module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        """A module begins."""
        if threading.get_ident() != self._thread:
            # A gradient may be taken anywhere.
            self.elsewhere |= not _repeats() and threading.get_ident() not in SESSIONS_OF
            return
        refuse_transforms(*args, *kwargs.values())
        if not self._stack:
            self.collector.begin_step()
            self._tracer.folds.clear()
        kept = self.collector
        counts = (len(kept.pieces), self._tracer.products, kept.calls, self._exponentials, self._noticed)
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
        self.collector.patches = vision.patches_after(module, result, self.collector.patches)
        computed = self._tracer.products > frame.products or self._exponentials > frame.exponentials
        if computed and self._noticed == frame.noticed and result is not None:
            self._check_silent(frame)
        attended = len(self.collector.pieces) > frame.first
        if self._tracer.holds or self._uses.follows:
            # What is known of scores is as large as the weights: only those that it returned are followed further.
            kept = storages_in(result)
            if self._uses.follows:
                kept |= storages_in(attributes_of(module))
            self._tracer.forget(frame.products + 1, () if attended else kept)
            self._uses.forget(frame.calls + 1, kept)
        if attended:
            self._tell(self.collector.pieces[frame.first :], frame)
        if not self._stack:
            self._tracer.forget()
            self._uses.forget()
            self.collector.pieces.clear()

    def _check_silent(self, frame: Frame) -> None:
        """Take note of a module with products or exponentials that is called attention and took no softmax."""
        if not _repeats() and is_attention(frame.module, frame.name):
            self._noticed += 1
            self.unseen.without_softmax[frame.name] = range(frame.products + 1, self._tracer.products + 1)

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
        for x in tensors_in(values):
            if not is_plain(x):
                return True
            home = x.untyped_storage().data_ptr()
            if self._uses.stands_at(home) or self._tracer.stands_at(home):
                return True
        return False

    def passed(self, result: Any) -> None:
        """What a function returned has nothing to do with scores, wherever it stands."""
        for x in (result,) if isinstance(result, Tensor) else tensors_in((result,)):
            if is_plain(x):
                self._tracer.lose(x)

    def _named(self) -> bool:
        """Whether a module that is running is one of those that the user named."""
        return bool(self.modules) and any(selection.chosen(f, self.modules) for f in self._stack)

    def rejected(self, cache: Any, count: int) -> None:
        """The last tokens of a cache were drafts that the model does not accept."""
        if count and threading.get_ident() == self._thread:
            self.collector.reject(cache, count)

    def finish(self) -> None:
        """Release the model's modules, masks and inputs."""
        self._stack.clear()
        self.collector.finish()
        self._tracer.forget()
        self._uses.forget()

    @property
    def watching(self) -> bool:
        """Whether what happens now is the model's own forward pass, in the thread that captures it."""
        if not self._stack or threading.get_ident() != self._thread:
            return False
        return not _repeats()

    @property
    def in_its_thread(self) -> bool:
        """Whether this is the thread in which the capture began."""
        return threading.get_ident() == self._thread

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

    def attention_function(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Call ``F.scaled_dot_product_attention`` and record the call."""
        if self._own is not None or not self.watching:
            return func(*args, **kwargs)
        if args and is_wrapper(args[0]) and not (args[0].is_nested or is_fake(args[0])):
            with self._function_of_wrappers():
                return func(*args, **kwargs)
        call = self._read_function(args, kwargs)
        if call is None:
            result = func(*args, **kwargs)  # raises torch's own error, if torch refuses the arguments too
            self._noticed += 1
            self.unseen.functions.add(self._attention().name)
            return result
        before, self._pending = self._pending, [call]
        try:
            if call.is_small:
                result = func(*args, **kwargs)
            else:
                with self.shown():
                    result = func(*args, **kwargs)
            seen = self._pending[-1]
        finally:
            self._pending = before
        self.record(seen)
        return result

    def _read_function(self, args: tuple, kwargs: dict[str, Any]) -> Attended | None:
        """Return the call with these arguments; None where they cannot be read."""
        refuse_transforms(*args, *kwargs.values())
        try:
            return read_function(*args, **kwargs, **self._given_axes(*args, **kwargs))
        except CaptureError:
            raise
        except (TypeError, RuntimeError, AttributeError, IndexError):
            return None

    @contextmanager
    def _function_of_wrappers(self) -> Iterator[None]:
        """Around a call of ``F.scaled_dot_product_attention`` whose tensors wrap others: its kernels are recorded."""
        before, calls = self._in_function, self.collector.calls
        self._in_function = True
        try:
            with self.shown():
                yield
        finally:
            self._in_function = before
        if self.collector.calls == calls:
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
            if func is GIVES_LSE:
                self._own.append(result[1])
            return
        role = ROLES.get(id(func))
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
                self._exponentials += id(func) in EXPONENTIALS and args[0].ndim > 2
                if use is None:
                    self._tracer.saw(func, args, kwargs, result)
                else:
                    self._tracer.spend(use.product)

    def folded(self, func: Any, args: tuple, kwargs: dict[str, Any], result: Any) -> None:
        """Take note of axes that were joined, as heads that are folded into the batch, or multiplied."""
        if not self._stack or type(result) is not Tensor or result.ndim < 3:
            return
        if func in _RESHAPING and args[0].shape[:2] == result.shape[:2]:
            return  # heads that are split or joined behind the sequence, as in most models
        self._tracer.folds.saw(func, args, kwargs, result)

    def fake_operation(self, func: Any) -> None:
        """An operation on fake tensors: those of the model, or those with which a DTensor works out a shape."""
        if id(func) in ROLES and self.watching:
            self.unseen.numberless = "a model of fake tensors"

    def inside_transform(self, func: Any, args: tuple) -> None:
        """A function inside a transform of torch.func, on tensors that cannot be looked at; a softmax is refused."""
        if not self.watching:
            return
        if "softmax" in getattr(func, "__name__", ""):
            refuse_transforms(*args)
        for x in map(unwrapped, tensors_in(args)):
            if is_plain(x):
                self._uses.lose_at(x.untyped_storage().data_ptr())

    def whole_graph(self, func: Any) -> None:
        """An operation that is a graph of its own, with a function of the user's inside."""
        if "flex_attention" in func.name() and self.watching:
            raise CaptureError(
                f"{self._attention().name}: flex_attention cannot be recorded, its score is a function of its own: "
                "use F.scaled_dot_product_attention (attn_implementation='sdpa')"
            )

    def _fused(self, func: Any, args: tuple, kwargs: dict[str, Any], result: Any) -> None:
        given = result if func is GIVES_LSE else ()
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
        call = self._tracer.softmax(
            args, weights, place_of_scores(frame, self._stack, self.modules, self.in_torchs_own)
        )
        if call.guessed and args[0].numel():
            self.guessed.setdefault(frame.name, tuple(args[0].shape))
        kept = self.record(call, frame)
        if kept is not None:
            born = 0 if product is None else product.born
            self._uses.begin(Use(*kept, call, born), result, args[1])

    def _given_axes(self, *args: Any, **kwargs: Any) -> dict[str, Lead]:
        """How the axes of a call of torch's attention are read, where they are not (b,h,n,d)."""
        frame = self._attention()
        lead, shape = lead_of_function(frame, self._stack, self.modules, self._tracer.folds, *args, **kwargs)
        if lead is not None and lead.guessed:
            self.guessed.setdefault(frame.name, shape)
        return {} if lead is None else {"lead": lead}

    def attends_now(self, module: nn.Module) -> bool:
        """Whether a module is the innermost that is running, and is an attention."""
        if self._own is not None or self._pending is not None or not self.watching:
            return False
        return self._stack[-1].module is module and self._attends(self._stack[-1])

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
        """Keep a call of the module given, or of the one that is running."""
        self._noticed += 1
        frame = frame or self._attention()
        return self.collector.add(call, frame, self._is_cross(frame), self._stack)

    def _is_cross(self, frame: Frame) -> bool | None:
        """Whether an attention looks at another sequence; a part of one may not know, but the module around it."""
        cross = is_cross(frame.module, frame.name, frame.arguments)
        if cross is not None:
            return cross
        around = self._around(frame)
        if around is None or not is_attention(around.module, around.name):
            return None
        return is_cross(around.module, around.name, around.arguments)


def _repeats() -> bool:
    """Whether this is a pass that is repeated for the gradient."""
    return torch._C._current_graph_task_id() != -1
