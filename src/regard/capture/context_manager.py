"""``capture(model)``: switches the watching on, and off again whatever happens in between."""

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
from regard.capture.joining.memory_budget import Budget
from regard.capture.joining.records import Naming
from regard.capture.joining.rejected_tokens import crops_told
from regard.capture.messages import (
    check_layers,
    check_model,
    doubted,
    dropped,
    ended_elsewhere,
    guessed_axes,
    nothing_found,
    partly_found,
    ran_elsewhere,
)
from regard.capture.options import as_layers, as_modules, as_numbers
from regard.capture.reading.call_parts import Wanted, is_chosen
from regard.capture.reading.labels import as_labels, as_speller
from regard.capture.reading.running_modules import may_attend, named_modules
from regard.capture.recording import Recording
from regard.capture.watching.eager_functions import eager_functions_shown
from regard.capture.watching.modes import Functions, remove_ended_modes
from regard.capture.watching.module_calls import calls_told, watched
from regard.capture.watching.patches import put_back
from regard.capture.watching.session import SESSIONS_OF, Session
from regard.capture.watching.shortcuts import holds_product
from regard.errors import CaptureError
from regard.shapes import as_device

__all__ = ["Capture", "capture"]

_USE = "use `with regard.capture(model) as seen: model(...)`, and read `seen` after it"


def capture(
    model: nn.Module,
    *,
    tokenizer: Any = None,
    tokens: Sequence[Any] | None = None,
    key_tokens: Sequence[Any] | None = None,
    layers: int | Iterable[int] | slice | None = None,
    heads: int | Iterable[int] | None = None,
    modules: Wanted | Iterable[Wanted] | Mapping[Wanted, str | None] = (),
    device: torch.device | str | None = None,
    memory: int | None = None,
) -> Capture:
    """Record what a model attends to, while its own kernels compute its own output.

    tokenizer
        Turns the token ids that the model is given into labels: a tokenizer, or a callable on a list of ids.
    tokens, key_tokens
        Labels by hand: words, or a list of words for each sequence. ``key_tokens`` are for cross attention.
    layers, heads
        Which to keep; all by default. Negative numbers count from the end.
    modules
        Modules that compute a softmax by hand, by name, by class or themselves. A softmax of a product inside a
        module that is called an attention is found without. A dictionary gives the axes of their scores too, with a
        letter for each: ``{"layer.attn": "bqhk"}``, or ``"(hb)qk"`` for heads folded into the batch.
    device
        Where records are kept: ``"cpu"`` spares the memory of an accelerator. By default where the model runs.
    memory
        Bytes that the records may take, by default a quarter of what is free. What comes after is dropped, and its
        record says so.

    While it is active a compiled model runs uncompiled, and the encoder fast path of torch is off. Calls in other
    threads cannot be seen; that is an error, as it is one if no attention was found. Attention that ran and could not
    be recorded is warned of, and its modules stand in ``seen.unseen``.

    >>> model = nn.MultiheadAttention(8, 2, batch_first=True)
    >>> x = torch.randn(3, 5, 8)
    >>> with capture(model) as seen:
    ...     out, _ = model(x, x, x, need_weights=False)
    >>> seen[0].kind, seen[0].map
    ('self', AttentionMap(b=3, h=2, q=5, k=5, recomputed))
    """
    check_model(model)
    names = named_modules(_unwrapped(model))
    options = {
        "layers": as_layers(layers),
        "heads": None if heads is None else as_numbers("heads", heads),
        "modules": as_modules(names, modules),
        "device": None if device is None else as_device(device),
    }
    naming = Naming(as_speller(tokenizer), as_labels("tokens", tokens), as_labels("key_tokens", key_tokens))
    if memory is not None:
        Budget(memory)  # a wrong number is refused here
    return Capture(model, names, options, naming, memory)


class Capture:
    """A context manager; entering it gives the :class:`Recording`. It can be entered again when it is over."""

    def __init__(
        self,
        model: nn.Module,
        names: dict[nn.Module, str],
        options: dict[str, Any],
        naming: Naming,
        memory: int | None,
    ):
        self.model, self._options, self._naming, self._memory = model, options, naming, memory
        self._modules = names
        self._active: tuple[contextlib.ExitStack, Session, Recording] | None = None

    def __enter__(self) -> Recording:
        if self._active is not None:
            raise CaptureError("this capture is active already: make another with capture(model)")
        model = _unwrapped(self.model)
        budget = Budget(self._memory, self._options["device"] or _device_of(model))
        session = Session(self._modules, budget=budget, **self._options)
        with contextlib.ExitStack() as switched_on:
            _switch_on([m for m in self._modules if m is model or self._is_watched(m)], session, switched_on)
            seen = Recording._of(self, session, self._naming)
            self._active = (switched_on.pop_all(), session, seen)
        return seen

    def _is_watched(self, module: nn.Module) -> bool:
        return may_attend(module) or is_chosen(module, self._modules[module], self._options["modules"])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._active is None:
            remove_ended_modes()  # it may have ended in another thread
            if error is not None:
                return
            raise CaptureError(f"this capture is not active, or ended in another thread: {_USE}")
        (switched_on, session, seen), self._active = self._active, None
        switched_on.close()
        if error is not None:
            return
        if not session.in_its_thread:
            raise ended_elsewhere()
        if session.elsewhere:
            raise ran_elsewhere()
        check_layers(session)
        if not session.collector.strands:
            raise nothing_found(self.model, session)
        if self._naming.by_hand:
            self._naming.check(seen.records)
        if session.unseen:
            warnings.warn(partly_found(session.unseen), stacklevel=2)
        if session.guessed:
            warnings.warn(guessed_axes(session), stacklevel=2)
        if session.collector.doubted:
            warnings.warn(doubted(session.collector.doubted), stacklevel=2)
        lost = dropped(session.collector.strands, session.collector.budget.limit)
        if lost:
            warnings.warn(lost, stacklevel=2)

    def __call__(self, *_: object, **__: object) -> NoReturn:
        """Refuse to be called as the model would be."""
        raise CaptureError(f"capture(model) does not run the model: {_USE}")

    def __getitem__(self, _: object) -> NoReturn:
        """Refuse to be read: the records are what entering gives."""
        raise CaptureError(f"capture(model) holds no records: {_USE}")


def _switch_on(modules: list[nn.Module], session: Session, switched_on: contextlib.ExitStack) -> None:
    switched_on.enter_context(_FOR_ALL_THREADS)
    switched_on.enter_context(watched(modules, session))
    switched_on.enter_context(eager_functions_shown(modules))
    switched_on.enter_context(_observing(session))
    switched_on.enter_context(Functions(session))
    switched_on.callback(session.finish)


class _Switches:
    """What is switched for the whole process: by the first capture that begins, and back by the last that ends."""

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
        self._back.enter_context(calls_told())
        self._back.enter_context(crops_told(_tell_sessions))
        self._back.enter_context(_scripted_functions_shown())
        if "torch._dynamo" in sys.modules:  # else nothing is compiled, and loading it would take seconds
            self._back.enter_context(torch.compiler.set_stance("force_eager"))


_FOR_ALL_THREADS = _Switches()


def _tell_sessions(cache: Any, rejected: int) -> None:
    for session in core.OBSERVERS:
        if isinstance(session, Session):
            session.rejected(cache, rejected)


@contextlib.contextmanager
def _scripted_functions_shown() -> Iterator[None]:
    """Have scripted functions shown too: no mode is asked about the call of one, only about its operations."""
    call, on = torch._C.ScriptFunction.__call__, True

    def shown(self: Any, *args: Any, **kwargs: Any) -> Any:
        told = [
            session
            for session in core.OBSERVERS
            if on and isinstance(session, Session) and session.watching and _may_matter(self, session, args)
        ]
        if not told:
            return call(self, *args, **kwargs)
        with contextlib.ExitStack() as sessions:
            for session in told:
                sessions.enter_context(session.shown())
            return call(self, *args, **kwargs)

    torch._C.ScriptFunction.__call__ = shown
    try:
        yield
    finally:
        on = False
        put_back(torch._C.ScriptFunction, "__call__", shown, call)


def _may_matter(function: Any, session: Session, args: tuple) -> bool:
    """Whether a scripted function may make scores, or is given some that are followed."""
    if holds_product(function):
        return True
    with torch._C.DisableTorchFunction():
        return session.follows and session.concerns(args)


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


def _device_of(model: nn.Module) -> torch.device | None:
    """Where a model stands, and so do the records of it."""
    return next((p.device for p in model.parameters()), None)


def _unwrapped(model: nn.Module) -> nn.Module:
    """The model inside ``torch.compile(model)``."""
    return getattr(model, "_orig_mod", model)
