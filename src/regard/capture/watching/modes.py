"""The two modes by which torch tells what it is asked to do, and what it does.

Neither is enough. The function mode sees ``F.scaled_dot_product_attention`` with its mask and flags as they were
given, but not the one inside ``nn.MultiheadAttention``; the dispatch mode sees every kernel, its log-sum-exp, and
products and softmaxes written by hand, but masks only after they were converted.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._C._functorch import peek_interpreter_stack
from torch._ops import HigherOrderOperator
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from regard.capture.reading.tensor_subclasses import is_fake, is_wrapper
from regard.capture.watching.observer import Observer
from regard.capture.watching.shortcuts import (
    FUNCTION_KINDS,
    UNCHANGED,
    FunctionKind,
    kind_of_function,
    report,
    shortcut,
)

# Looking up an attribute of an enum is slow.
_READS_ATTRIBUTE, _VIEW, _LINEAR = FunctionKind.READS_ATTRIBUTE, FunctionKind.VIEW, FunctionKind.LINEAR
_ATTENTION, _UNKNOWN = FunctionKind.ATTENTION, FunctionKind.UNKNOWN
_FOLDING = {
    torch.cat,
    torch.clone,
    torch.concat,
    torch.flatten,
    torch.matmul,
    torch.reshape,
    Tensor.__matmul__,
    Tensor.clone,
    Tensor.contiguous,
    Tensor.matmul,
    Tensor.flatten,
    Tensor.reshape,
    Tensor.view,
}

__all__ = [
    "FunctionMode",
    "OperationMode",
    "idle_session",
    "operations_watched",
    "remove_ended_modes",
    "watch_operations",
]


class FunctionMode(TorchFunctionMode):
    """Shows each call of ``F.scaled_dot_product_attention`` to a session, and has the operations of others shown."""

    def __init__(self, session: Observer):
        super().__init__()
        self.session = session

    def __enter__(self) -> FunctionMode:
        remove_ended_modes()
        super().__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove this mode from any position on the stack, since captures may end in any order.

        On the stack of another thread the mode stays, without effect, until that thread captures again.
        """
        self.__class__ = _EndedFunctionMode  # type: ignore[assignment]
        remove_ended_modes()

    def __torch_function__(self, func, types, args=(), kwargs=None) -> Any:
        kwargs = kwargs or {}
        try:
            kind = FUNCTION_KINDS[func]
        except (KeyError, TypeError):  # met for the first time, or cannot be hashed
            kind = kind_of_function(func)
        if kind is _READS_ATTRIBUTE:
            return func(*args, **kwargs)
        session = self.session
        if kind is _ATTENTION:
            return session.call_sdpa(func, args, kwargs)
        if kind >= _LINEAR or (kind is not _VIEW and session.handwritten.follows):
            result = self._told(func, kind, args, kwargs)
        else:
            result = func(*args, **kwargs)
        if kind is not _UNKNOWN and func in _FOLDING:
            session.handwritten.folded(func, args, kwargs, result)
        return result

    def _told(self, func: Any, kind: FunctionKind, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Call a function that may concern scores, and tell the session what it did."""
        session = self.session
        if peek_interpreter_stack() is not None:
            session.handwritten.inside_transform(func, args)
            return func(*args, **kwargs)
        known = None
        # Inside a traced module operations are shown already, and a shortcut would tell them a second time.
        if session not in _HERE.operations.sessions:
            with torch._C.DisableTorchFunction():  # what is looked at here is no work of the model's
                known = shortcut(session.handwritten, func, kind, args, kwargs)
        if known is None:
            session.handwritten.in_multi_head_forward = func is F.multi_head_attention_forward
            watch_operations(session, True)
            try:
                return func(*args, **kwargs)
            finally:
                watch_operations(session, False)
                session.handwritten.in_multi_head_forward = False
        result = func(*args, **kwargs)
        if known is not UNCHANGED:
            with torch._C.DisableTorchFunction():
                report(session, known, result)
        return result


class _EndedFunctionMode(FunctionMode):
    """The mode of a capture that is over, which passes every call on."""

    def __torch_function__(self, func, types, args=(), kwargs=None) -> Any:
        return func(*args, **(kwargs or {}))


def remove_ended_modes() -> None:
    """Remove the modes of ended captures from the stack of this thread, keeping the order of other modes."""
    count = torch._C._len_torch_function_stack()
    stack = [torch._C._get_function_stack_at(n) for n in range(count)]
    first = next((n for n, mode in enumerate(stack) if type(mode) is _EndedFunctionMode), None)
    if first is None:
        return
    for _ in stack[first:]:
        torch._C._pop_torch_function_stack()
    for mode in stack[first:]:
        if type(mode) is not _EndedFunctionMode:
            torch._C._push_on_torch_function_stack(mode)


def idle_session() -> Observer | None:
    """Return the session whose function mode is the only one of this thread, unless it follows scores now."""
    if torch._C._len_torch_function_stack() != 1:
        return None
    mode = torch._C._get_function_stack_at(0)
    return mode.session if type(mode) is FunctionMode and not mode.session.handwritten.follows else None


class OperationMode(TorchDispatchMode):
    """Shows each operation, after it ran, to the sessions that want to see them.

    There is one for each thread, and it is on only while some session wants it: it costs more than all the rest.
    """

    supports_higher_order_operators = True  # else torch refuses to run them at all

    def __init__(self) -> None:
        super().__init__()
        self.sessions: list[Observer] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Keep torch from loading its compiler, since nothing is compiled while a capture is active."""
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None) -> Any:
        kwargs = kwargs or {}
        if isinstance(func, HigherOrderOperator):
            for session in self.sessions:
                session.whole_graph(func)
            return func(*args, **kwargs)
        if types and any(kind is not Tensor for kind in types):
            return self._of_a_subclass(func, args, kwargs)
        if torch.is_inference_mode_enabled():
            with self:  # elsewhere torch has taken its operators apart before it comes here
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        result = func(*args, **kwargs)
        if not is_wrapper(result):
            for session in self.sessions:
                session.operation(func, args, kwargs, result)
        return result

    def _of_a_subclass(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Leave an operation to the class of its tensors, whose operations on plain tensors are reported."""
        if not any(map(is_fake, args)):
            return NotImplemented
        for session in self.sessions:
            session.fake_operation(func)
        return func(*args, **kwargs)


class _OfThisThread(threading.local):
    def __init__(self) -> None:
        self.operations = OperationMode()


_HERE = _OfThisThread()


@contextmanager
def operations_watched(session: Observer) -> Iterator[None]:
    """Report every operation inside a context to a session, keeping the order of other modes on the stack."""
    watch_operations(session, True)
    try:
        yield
    finally:
        watch_operations(session, False)


def watch_operations(session: Observer, wanted: bool) -> None:
    """From now on show operations to a session, or no longer."""
    operations = _HERE.operations
    if wanted:
        operations.sessions.append(session)
        if len(operations.sessions) == 1:
            operations.__enter__()
    else:
        operations.sessions.remove(session)
        if not operations.sessions:
            operations.__exit__(None, None, None)
