"""Calls of modules, reported from a replacement of ``nn.Module._call_impl``.

The model itself gets no hooks, which ``copy.deepcopy`` would copy and ``torch.save`` cannot write.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from regard.capture.watching.modes import idle_session, operations_watched
from regard.capture.watching.observer import Observer
from regard.capture.watching.patches import restore
from regard.capture.watching.watched_modules import is_simple, parts_called_by
from regard.torch_private import (
    COMPILED_CALL,
    MODULE_CALL,
    FunctionModesOff,
    all_function_modes_off,
    all_modules_have_hooks,
    has_hooks,
    parameters_of,
    parts_of,
)

__all__ = ["report_module_calls", "watch_modules"]

# The sessions that watch a module, by its id.
_SESSIONS: dict[int, tuple[Observer, ...]] = {}
_CHANGING = threading.Lock()


@contextmanager
def watch_modules(modules: list[nn.Module], session: Observer) -> Iterator[None]:
    """Report calls of some modules, and their ends, to a session. The session must hold references to the modules."""
    compiled = any(getattr(module, COMPILED_CALL) is not None for module in modules)
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
                remaining = tuple(s for s in _SESSIONS[id(module)] if s is not session)
                if remaining:
                    _SESSIONS[id(module)] = remaining
                else:
                    del _SESSIONS[id(module)]


class _CompiledCalls:
    """Reports calls of modules that were compiled in place, while some of them are watched.

    ``nn.Module.__call__`` is replaced only then, since replacing it takes longer than all other steps at the beginning
    of a capture.
    """

    def __init__(self) -> None:
        self._watched, self._call = 0, nn.Module.__call__
        self._replacement = self._call
        # Empty when the replacement only has to pass calls on.
        self._on: list[bool] = []

    def begin(self) -> None:
        self._watched += 1
        if self._watched > 1:
            return
        call = self._call = nn.Module.__call__
        on = self._on = [True]

        def _wrapped_call_impl(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
            compiled = getattr(self, COMPILED_CALL)
            if compiled is None or not on or (sessions := _SESSIONS.get(id(self))) is None:
                return call(self, *args, **kwargs)
            # Compiled code may hold torch's own _call_impl, which reports nothing.
            return _reported(sessions, self, compiled, args, kwargs)

        self._replacement = nn.Module.__call__ = _wrapped_call_impl

    def end(self) -> None:
        self._watched -= 1
        if not self._watched:
            self._on.clear()
            restore(nn.Module, "__call__", self._replacement, self._call)


_COMPILED = _CompiledCalls()


@contextmanager
def report_module_calls() -> Iterator[None]:
    """Report calls of modules to the sessions that watch them, in the whole process."""
    implementation, on = getattr(nn.Module, MODULE_CALL), True

    def _call_impl(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if not on:
            return implementation(self, *args, **kwargs)
        sessions = _SESSIONS.get(id(self))
        if sessions is not None:
            return _reported(sessions, self, implementation.__get__(self), args, kwargs)
        # Inside a module without attention, all function modes are off already.
        if (
            not kwargs
            and not all_function_modes_off()
            and _is_without_attention(self, args)
            and idle_session()
        ):
            with FunctionModesOff():
                return implementation(self, *args)
        return implementation(self, *args, **kwargs)

    setattr(nn.Module, MODULE_CALL, _call_impl)
    try:
        yield
    finally:
        on = False
        restore(nn.Module, MODULE_CALL, _call_impl, implementation)


def _is_without_attention(module: nn.Module, args: tuple) -> bool:
    """Whether a call of a module on these arguments is known to do nothing but layers, norms and arithmetic."""
    parts = parts_of(module)
    if parts:
        names = parts_called_by(type(module))
        if names is None:
            return False
        for name in names:
            part = parts.get(name)
            if part is None or not is_simple(part) or not _has_plain_forward(part):
                return False
    elif not is_simple(module):
        return False
    for x in args:
        if type(x) is not Tensor:
            return False
    return _has_plain_forward(module) and not all_modules_have_hooks()


def _has_plain_forward(module: nn.Module) -> bool:
    """Whether a module has no hooks, the ``forward`` of its class and parameters of no subclass."""
    # A loop, since all() with a generator takes three times as long.
    for x in parameters_of(module).values():
        if x is not None and type(x) is not nn.Parameter:
            return False
    return not has_hooks(module) and "forward" not in module.__dict__


@contextmanager
def _operations_reported(sessions: tuple[Observer, ...]) -> Iterator[None]:
    """Report every operation inside a scripted module, whose functions no function mode sees."""
    with ExitStack() as reporting:
        for session in sessions:
            if session.is_in_forward_pass:
                reporting.enter_context(operations_watched(session))
        yield


def _reported(
    sessions: tuple[Observer, ...],
    module: nn.Module,
    run: Callable[..., Any],
    args: tuple,
    kwargs: dict[str, Any],
) -> Any:
    """Run a module, and report its call and its end to sessions."""
    result, failed = None, True
    try:
        # Without this, each shape that a session reads would pass through the function mode.
        with FunctionModesOff():
            for session in sessions:
                session.enter(module, args, kwargs)
        if isinstance(module, torch.jit.ScriptModule):
            with _operations_reported(sessions):
                result = run(*args, **kwargs)
        else:
            result = run(*args, **kwargs)
        failed = False
    finally:
        with FunctionModesOff():
            for session in sessions:
                session.leave(module, result, failed=failed)
    return result
