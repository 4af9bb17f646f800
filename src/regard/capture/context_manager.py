"""The function ``capture(model)`` and the context manager that it returns."""

from __future__ import annotations

import contextlib
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, NoReturn

import torch
from torch import nn

from regard import core
from regard.capture.joining.memory_budget import MemoryBudget
from regard.capture.joining.records import LabelSources
from regard.capture.messages import (
    check_layers,
    check_model,
    doubtful_weights_warning,
    dropped_warning,
    ended_in_other_thread_error,
    guessed_axes_warning,
    no_attention_error,
    ran_in_other_thread_error,
    rival_ids_warning,
    unjoined_steps_warning,
    unseen_warning,
)
from regard.capture.options import as_layers, as_modules, as_numbers
from regard.capture.reading.labels import as_batch_labels, as_speller
from regard.capture.reading.module_choice import ModuleChoice, is_chosen
from regard.capture.recording import Recording
from regard.capture.watching.cache_crops import report_cache_crops
from regard.capture.watching.eager_functions import record_eager_functions
from regard.capture.watching.function_kinds import holds_product
from regard.capture.watching.image_features import report_image_features
from regard.capture.watching.modes import FunctionMode, operations_watched, remove_ended_modes
from regard.capture.watching.module_calls import report_module_calls, watch_modules
from regard.capture.watching.module_stack import SESSIONS_OF
from regard.capture.watching.patches import restore
from regard.capture.watching.session import Session
from regard.capture.watching.watched_modules import may_attend, named_modules
from regard.errors import ArgumentError, CaptureError
from regard.shapes import as_device
from regard.torch_private import FunctionModesOff, parameters_of, without_compiler

__all__ = ["Capture", "capture"]

_USE = "use `with regard.capture(model) as seen: model(...)`, and read `seen` after it"


def capture(
    model: nn.Module,
    *,
    tokenizer: Any = None,
    tokens: Sequence[Any] | None = None,
    query_tokens: Sequence[Any] | None = None,
    key_tokens: Sequence[Any] | None = None,
    layers: int | Iterable[int] | slice | None = None,
    heads: int | Iterable[int] | None = None,
    modules: ModuleChoice | Iterable[ModuleChoice] | Mapping[ModuleChoice, str | None] | None = None,
    device: torch.device | str | None = None,
    memory: int | None = None,
) -> Capture:
    """Record the attention weights of a model while it runs, without changing its output.

    Returns a context manager, inside which the model is called. Entering it gives the :class:`Recording`.

    tokenizer
        Turns the token ids of the input into labels. A tokenizer, a processor that has one, or a callable from a list
        of ids to a list of words.
    tokens
        The words of the input as labels, or a list of words for each sequence.
    query_tokens, key_tokens
        The labels of a model with cross-attention, as for :meth:`Recording.label`. ``tokens`` is the short form of
        ``query_tokens`` for models that have self-attention only.
    layers, heads
        The layers and heads to keep, by default all. Negative numbers count from the end.
    modules
        Names, classes or instances of modules that compute attention by hand. It is needed only for modules that
        neither their name nor their class calls an attention. A dictionary also gives the axes of their scores, with a
        letter for each axis, as in ``{"layer.attn": "bqhk"}``, or ``"(hb)qk"`` for heads folded into the batch.
    device
        The device of the records, by default that of the model. ``"cpu"`` saves the memory of an accelerator.
    memory
        The most bytes that the records may take, by default a quarter of the free memory. Calls beyond it are
        dropped, and their record says so.

    During the capture a compiled model runs uncompiled, and the encoder fast path of torch is off. Raises CaptureError
    if no attention was found, or if the model ran in another thread. A warning names modules whose attention could not
    be recorded, and ``seen.unseen`` lists them.

    >>> model = nn.MultiheadAttention(8, 2, batch_first=True)
    >>> x = torch.randn(3, 5, 8)
    >>> with capture(model) as seen:
    ...     out, _ = model(x, x, x, need_weights=False)
    >>> seen[0].kind, seen[0].map
    ('self', AttentionMap(b=3, h=2, q=5, k=5, recomputed))
    """
    check_model(model)
    names = named_modules(without_compiler(model))
    options = {
        "layers": as_layers(layers),
        "heads": None if heads is None else as_numbers("heads", heads),
        "modules": as_modules(names, modules),
        "device": None if device is None else as_device(device),
    }
    naming = _label_sources(tokenizer, tokens, query_tokens, key_tokens)
    if memory is not None:
        # Raises an error for a wrong number before the model runs.
        MemoryBudget(memory)
    return Capture(model, names, options, naming, memory)


def _label_sources(tokenizer: Any, tokens: Any, query_tokens: Any, key_tokens: Any) -> LabelSources:
    name = "query_tokens" if tokens is None else "tokens"
    if tokens is not None and (query_tokens is not None or key_tokens is not None):
        other = "key_tokens" if query_tokens is None else "query_tokens"
        fix = "use query_tokens= for the queries and key_tokens= for the keys"
        raise ArgumentError("tokens", f"given together with {other}=", fix)
    queries = as_batch_labels(name, query_tokens if tokens is None else tokens)
    return LabelSources(as_speller(tokenizer), queries, as_batch_labels("key_tokens", key_tokens), name)


class Capture:
    """A context manager that records the attention of a model, and can be entered several times.

    Entering it returns the :class:`Recording`.
    """

    def __init__(
        self,
        model: nn.Module,
        names: dict[nn.Module, str],
        options: dict[str, Any],
        naming: LabelSources,
        memory: int | None,
    ):
        self.model, self._options, self._naming, self._memory = model, options, naming, memory
        self._modules = names
        self._active: tuple[contextlib.ExitStack, Session, Recording] | None = None

    def __enter__(self) -> Recording:
        if self._active is not None:
            raise CaptureError("this capture is active already: make another with capture(model)")
        model = without_compiler(self.model)
        budget = MemoryBudget(self._memory, self._options["device"] or _device_of(self._modules))
        session = Session(self._modules, budget=budget, **self._options)
        with contextlib.ExitStack() as switched_on:
            _switch_on(self._watched(model), session, switched_on)
            seen = Recording._of(self, session, self._naming)
            self._active = (switched_on.pop_all(), session, seen)
        return seen

    def _watched(self, model: nn.Module) -> list[nn.Module]:
        """Return the model, the modules that may attend, and those that the user chose."""
        chosen = self._options["modules"]
        return [
            module
            for module, name in self._modules.items()
            if may_attend(module) or module is model or (chosen and is_chosen(module, name, chosen))
        ]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._active is None:
            # The capture may have ended in another thread, which cannot remove the modes of this one.
            remove_ended_modes()
            if error is not None:
                return
            raise CaptureError(f"this capture is not active, or ended in another thread: {_USE}")
        (switched_on, session, seen), self._active = self._active, None
        switched_on.close()
        if error is not None:
            return
        if not session.stack.is_in_its_thread:
            raise ended_in_other_thread_error()
        if session.stack.ran_in_other_thread:
            raise ran_in_other_thread_error()
        check_layers(session)
        if not session.collector.chains:
            raise no_attention_error(self.model, session)
        if self._naming.by_hand:
            self._naming.check(seen.records)
        if session.log.unseen:
            warnings.warn(unseen_warning(session.log.unseen), stacklevel=2)
        if session.log.guessed:
            warnings.warn(guessed_axes_warning(session.log.guessed), stacklevel=2)
        if session.collector.unjoined:
            warnings.warn(unjoined_steps_warning(session.collector.unjoined), stacklevel=2)
        for doubt, names in session.collector.doubted.items():
            warnings.warn(doubtful_weights_warning(doubt, names), stacklevel=2)
        if not self._naming.by_hand and (unnamed := rival_ids_warning(session.collector)):
            warnings.warn(unnamed, stacklevel=2)
        lost = dropped_warning(session.collector.chains, session.collector.budget)
        if lost:
            warnings.warn(lost, stacklevel=2)

    def __call__(self, *_: object, **__: object) -> NoReturn:
        """Raise an error that says how to run the model."""
        raise CaptureError(f"capture(model) does not run the model: {_USE}")

    def __getitem__(self, _: object) -> NoReturn:
        """Raise an error that says where the records are."""
        raise CaptureError(f"capture(model) holds no records: {_USE}")


def _switch_on(modules: list[nn.Module], session: Session, switched_on: contextlib.ExitStack) -> None:
    switched_on.enter_context(_FOR_ALL_THREADS)
    switched_on.enter_context(watch_modules(modules, session))
    switched_on.enter_context(record_eager_functions(modules))
    switched_on.enter_context(report_image_features(modules, session.note_pictures))
    switched_on.enter_context(_observing(session))
    switched_on.enter_context(FunctionMode(session))
    switched_on.callback(session.finish)


class _Switches:
    """Settings of the whole process, changed by the first active capture and restored by the last."""

    def __init__(self) -> None:
        self._lock, self._active, self._back = threading.Lock(), 0, contextlib.ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            if not self._active:
                self._switch()
            self._active += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._active -= 1
            if not self._active:
                self._back.close()

    def _switch(self) -> None:
        fast = torch.backends.mha.get_fastpath_enabled()
        self._back.callback(torch.backends.mha.set_fastpath_enabled, fast)
        torch.backends.mha.set_fastpath_enabled(False)
        self._back.enter_context(report_module_calls())
        self._back.enter_context(report_cache_crops(_tell_sessions))
        self._back.enter_context(_scripted_functions_shown())
        # If torch._dynamo is not loaded, nothing is compiled. Importing it takes seconds.
        if "torch._dynamo" in sys.modules:
            self._back.enter_context(torch.compiler.set_stance("force_eager"))


_FOR_ALL_THREADS = _Switches()


def _tell_sessions(cache: Any, rejected: int) -> None:
    for session in core.OBSERVERS:
        if isinstance(session, Session):
            session.rejected(cache, rejected)


@contextlib.contextmanager
def _scripted_functions_shown() -> Iterator[None]:
    """Watch the operations of scripted functions, since a function mode does not see calls of them."""
    call, on = torch.jit.ScriptFunction.__call__, True

    def shown(self: Any, *args: Any, **kwargs: Any) -> Any:
        sessions = [
            session
            for session in core.OBSERVERS
            if on
            and isinstance(session, Session)
            and session.is_in_forward_pass
            and _may_matter(self, session, args)
        ]
        if not sessions:
            return call(self, *args, **kwargs)
        with contextlib.ExitStack() as watched:
            for session in sessions:
                watched.enter_context(operations_watched(session))
            return call(self, *args, **kwargs)

    torch.jit.ScriptFunction.__call__ = shown
    try:
        yield
    finally:
        on = False
        restore(torch.jit.ScriptFunction, "__call__", shown, call)


def _may_matter(function: Any, session: Session, args: tuple) -> bool:
    """Return whether a scripted function may compute scores, or has followed scores among its arguments."""
    if holds_product(function):
        return True
    with FunctionModesOff():
        return session.handwritten.follows and session.handwritten.concerns(args)


@contextlib.contextmanager
def _observing(session: Session) -> Iterator[None]:
    thread = threading.get_ident()
    core.OBSERVERS.append(session)
    SESSIONS_OF[thread] += 1
    try:
        yield
    finally:
        core.OBSERVERS.remove(session)
        SESSIONS_OF[thread] -= 1
        if not SESSIONS_OF[thread]:
            del SESSIONS_OF[thread]


def _device_of(modules: Iterable[nn.Module]) -> torch.device | None:
    """Return the device of the first parameter of some modules, or None if they have no parameters."""
    return next((p.device for x in modules for p in parameters_of(x).values() if p is not None), None)
