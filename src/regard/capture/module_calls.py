"""Calls of modules, watched where ``nn.Module`` makes them.

Nothing is put on the model: hooks would be copied with it by ``copy.deepcopy``, and ``torch.save`` cannot write them.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from regard.capture.session import Session

__all__ = ["calls_told", "watched"]

_SESSIONS: dict[int, tuple[Session, ...]] = {}  # which want to know of a module, by its id
_CHANGING = threading.Lock()


@contextmanager
def watched(modules: list[nn.Module], session: Session) -> Iterator[None]:
    """Tell a session when one of these modules begins and when it ends, or fails; it is to hold the modules."""
    with _CHANGING:
        for module in modules:
            _SESSIONS[id(module)] = (*_SESSIONS.get(id(module), ()), session)
    try:
        yield
    finally:
        with _CHANGING:
            for module in modules:
                left = tuple(s for s in _SESSIONS[id(module)] if s is not session)
                if left:
                    _SESSIONS[id(module)] = left
                else:
                    del _SESSIONS[id(module)]


@contextmanager
def calls_told() -> Iterator[None]:
    """For the whole process, have calls of modules told to the sessions that watch them."""
    call, implementation = nn.Module.__call__, nn.Module._call_impl

    def _wrapped_call_impl(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        compiled = self._compiled_call_impl
        if compiled is None or (sessions := _SESSIONS.get(id(self))) is None:
            return call(self, *args, **kwargs)
        return _told(sessions, self, compiled, args, kwargs)  # it may hold the implementation from before

    def _call_impl(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        sessions = _SESSIONS.get(id(self))
        if sessions is None:
            return implementation(self, *args, **kwargs)
        return _told(sessions, self, implementation.__get__(self), args, kwargs)

    nn.Module._call_impl = _call_impl
    if "torch._dynamo" in sys.modules:  # else nothing is compiled
        nn.Module.__call__ = _wrapped_call_impl
    try:
        yield
    finally:
        nn.Module.__call__, nn.Module._call_impl = call, implementation


@contextmanager
def _operations_shown(sessions: tuple[Session, ...]) -> Iterator[None]:
    """Have every operation shown: of a scripted module nothing else is seen."""
    with ExitStack() as shown:
        for session in sessions:
            if session.watching:
                shown.enter_context(session.shown())
        yield


def _told(
    sessions: tuple[Session, ...],
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
        with _operations_shown(sessions) if isinstance(module, torch.jit.ScriptModule) else nullcontext():
            result = run(*args, **kwargs)
    finally:
        with torch._C.DisableTorchFunction():
            for session in sessions:
                session.leave(module, result)
    return result
