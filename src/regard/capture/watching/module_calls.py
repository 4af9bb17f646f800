"""Calls of modules, watched where ``nn.Module`` makes them.

Nothing is put on the model: hooks would be copied with it by ``copy.deepcopy``, and ``torch.save`` cannot write them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as hooks

from regard.capture.watching.modes import idle_session, operations_watched
from regard.capture.watching.observer import Observer
from regard.capture.watching.patches import restore
from regard.capture.watching.watched_modules import is_simple

__all__ = ["report_module_calls", "watch_modules"]

_SESSIONS: dict[int, tuple[Observer, ...]] = {}  # which want to know of a module, by its id
_CHANGING = threading.Lock()


@contextmanager
def watch_modules(modules: list[nn.Module], session: Observer) -> Iterator[None]:
    """Report the calls and the ends of some modules to a session, which must hold references to them."""
    compiled = any(module._compiled_call_impl is not None for module in modules)
    with _CHANGING:
        for module in modules:
            _SESSIONS[id(module)] = (*_SESSIONS.get(id(module), ()), session)
        if compiled:
            _COMPILED.begin()
    try:
        yield
    finally:
        with _CHANGING:
            if compiled:
                _COMPILED.end()
            for module in modules:
                left = tuple(s for s in _SESSIONS[id(module)] if s is not session)
                if left:
                    _SESSIONS[id(module)] = left
                else:
                    del _SESSIONS[id(module)]


class _CompiledCalls:
    """Has calls of modules that were compiled in place told too, while some of them are watched.

    Changing ``nn.Module.__call__`` takes longer than all else that a capture begins with.
    """

    def __init__(self) -> None:
        self._watched, self._call = 0, nn.Module.__call__
        self._replacement = self._call
        self._on: list[bool] = []  # empty once the replacement is to pass its calls on

    def begin(self) -> None:
        self._watched += 1
        if self._watched > 1:
            return
        call = self._call = nn.Module.__call__
        on = self._on = [True]

        def _wrapped_call_impl(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
            compiled = self._compiled_call_impl
            if compiled is None or not on or (sessions := _SESSIONS.get(id(self))) is None:
                return call(self, *args, **kwargs)
            return _told(sessions, self, compiled, args, kwargs)  # it may hold the implementation from before

        self._replacement = nn.Module.__call__ = _wrapped_call_impl

    def end(self) -> None:
        self._watched -= 1
        if not self._watched:
            self._on.clear()
            restore(nn.Module, "__call__", self._replacement, self._call)


_COMPILED = _CompiledCalls()


@contextmanager
def report_module_calls() -> Iterator[None]:
    """For the whole process, have calls of modules told to the sessions that watch them."""
    implementation, on = nn.Module._call_impl, True

    def _call_impl(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if not on:
            return implementation(self, *args, **kwargs)
        sessions = _SESSIONS.get(id(self))
        if sessions is not None:
            return _told(sessions, self, implementation.__get__(self), args, kwargs)
        simple = is_simple(self) and not kwargs and _is_as_it_was_made(self, args)
        if simple and idle_session() is not None:
            with torch._C.DisableTorchFunction():  # there is nothing in it to be told of
                return implementation(self, *args, **kwargs)
        return implementation(self, *args, **kwargs)

    nn.Module._call_impl = _call_impl
    try:
        yield
    finally:
        on = False
        restore(nn.Module, "_call_impl", _call_impl, implementation)


def _is_as_it_was_made(module: nn.Module, args: tuple) -> bool:
    """Whether a module has plain tensors, no hooks and the ``forward`` of its class."""
    if module._forward_hooks or module._forward_pre_hooks or "forward" in module.__dict__:
        return False
    if hooks._global_forward_hooks or hooks._global_forward_pre_hooks:
        return False
    for x in args:  # loops, since all() with a generator takes three times as long
        if type(x) is not Tensor:
            return False
    own = True
    for x in module._parameters.values():
        own = own and (x is None or type(x) is nn.Parameter)
    return own


@contextmanager
def _operations_shown(sessions: tuple[Observer, ...]) -> Iterator[None]:
    """Report every operation inside a scripted module, of which nothing else is visible."""
    with ExitStack() as shown:
        for session in sessions:
            if session.is_in_forward_pass:
                shown.enter_context(operations_watched(session))
        yield


def _told(
    sessions: tuple[Observer, ...],
    module: nn.Module,
    run: Callable[..., Any],
    args: tuple,
    kwargs: dict[str, Any],
) -> Any:
    result = None
    try:
        with torch._C.DisableTorchFunction():  # else torch shows us each shape that we look at ourselves
            for session in sessions:
                session.enter(module, args, kwargs)
        if isinstance(module, torch.jit.ScriptModule):
            with _operations_shown(sessions):
                result = run(*args, **kwargs)
        else:
            result = run(*args, **kwargs)
    finally:
        with torch._C.DisableTorchFunction():
            for session in sessions:
                session.leave(module, result)
    return result
