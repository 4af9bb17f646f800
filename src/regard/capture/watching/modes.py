"""The function mode and the dispatch mode of torch through which a capture sees a model.

Both are needed. The function mode sees the calls of ``F.scaled_dot_product_attention`` with their mask and flags, but
not those inside ``nn.MultiheadAttention``. The dispatch mode sees every kernel with its log-sum-exp, and products and
softmaxes written by hand, but masks only after their conversion.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from regard.capture.reading.tensor_subclasses import is_fake, is_wrapper
from regard.capture.watching.choices import CHOOSING_FUNCTIONS
from regard.capture.watching.function_kinds import FUNCTION_KINDS, FunctionKind, kind_of_function
from regard.capture.watching.observer import Observer
from regard.capture.watching.shortcuts import UNCHANGED, predict, report
from regard.torch_private import (
    DispatchMode,
    FunctionModesOff,
    HigherOrderOperator,
    count_function_modes,
    function_mode_at,
    pop_function_mode,
    push_function_mode,
    transform_on_top,
)

# Looking up an attribute of an enum is slow.
_READS_ATTRIBUTE, _VIEW, _LINEAR = FunctionKind.READS_ATTRIBUTE, FunctionKind.VIEW, FunctionKind.LINEAR
_ATTENTION, _UNKNOWN = FunctionKind.ATTENTION, FunctionKind.UNKNOWN
_SHARES_MEMORY = FunctionKind.SHARES_MEMORY
# Functions that may fold the axis of heads into another.
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
    """Passes calls of ``F.scaled_dot_product_attention`` to a session, and reports operations of other functions."""

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
        except (KeyError, TypeError):
            # Called for the first time, or cannot be hashed.
            kind = kind_of_function(func)
        if kind is _READS_ATTRIBUTE:
            return func(*args, **kwargs)
        session = self.session
        if kind is _ATTENTION:
            return session.call_sdpa(func, args, kwargs)
        if kind >= _LINEAR or (kind is not _VIEW and (session.handwritten.follows or self._uses_again(args))):
            result = self._call_and_report(func, kind, args, kwargs)
        else:
            result = func(*args, **kwargs)
        if func is torch.einsum or (kind is not _UNKNOWN and func in _FOLDING):
            session.handwritten.note_fold(func, args, kwargs, result)
        elif kind is not _UNKNOWN and func in CHOOSING_FUNCTIONS:
            session.handwritten.note_choice(args, kwargs)
        return result

    def _uses_again(self, args: tuple) -> bool:
        """Whether weights that have met the values are among the arguments of a function."""
        used = self.session.handwritten.weights.used
        if not used.tensors or transform_on_top() is not None:
            return False
        with FunctionModesOff():
            return used.are_in(args)

    def _may_report_inner_attention(self, func: FunctionType, kwargs: dict[str, Any]) -> bool:
        """Whether the fused attention in ``F.multi_head_attention_forward`` is all that has to be seen of a call."""
        if kwargs.get("need_weights") is not False:
            return False
        if "scaled_dot_product_attention" not in func.__code__.co_names:
            return False
        # A mode of another capture has to see the call of the function itself.
        if count_function_modes() or self.session in _HERE.operations.sessions:
            return False
        return not self.session.handwritten.follows

    def _call_and_report(self, func: Any, kind: FunctionKind, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Call a function that may concern scores, and report its operations to the session."""
        session = self.session
        if transform_on_top() is not None:
            session.handwritten.inside_transform(func, args)
            return func(*args, **kwargs)
        if kind is _SHARES_MEMORY:
            with FunctionModesOff():
                session.handwritten.note_shared_memory(args[0])
            return func(*args, **kwargs)
        if func is F.multi_head_attention_forward and self._may_report_inner_attention(func, kwargs):
            return _reporting_inner_attention(func, session)(*args, **kwargs)
        predicted = None
        # Inside a traced module all operations are reported already, and a prediction would repeat one.
        if session not in _HERE.operations.sessions:
            with FunctionModesOff():
                predicted = predict(session.handwritten, func, kind, args, kwargs)
        if predicted is None:
            session.handwritten.function_begins(func, args)
            watch_operations(session, True)
            try:
                return func(*args, **kwargs)
            finally:
                watch_operations(session, False)
                session.handwritten.function_ends()
        result = func(*args, **kwargs)
        if predicted is not UNCHANGED:
            with FunctionModesOff():
                report(session, predicted, result)
        return result


class _EndedFunctionMode(FunctionMode):
    """The mode of a capture that has ended. It passes every call on."""

    def __torch_function__(self, func, types, args=(), kwargs=None) -> Any:
        return func(*args, **(kwargs or {}))


def remove_ended_modes() -> None:
    """Remove the modes of ended captures from the stack of this thread, keeping the order of other modes."""
    count = count_function_modes()
    stack = [function_mode_at(n) for n in range(count)]
    first = next((n for n, mode in enumerate(stack) if type(mode) is _EndedFunctionMode), None)
    if first is None:
        return
    for _ in stack[first:]:
        pop_function_mode()
    for mode in stack[first:]:
        if type(mode) is not _EndedFunctionMode:
            push_function_mode(mode)


def _reporting_inner_attention(func: FunctionType, session: Observer) -> FunctionType:
    """Return a copy of ``F.multi_head_attention_forward`` in which the call of fused attention is reported.

    What that function calls passes through no function mode, and watching its thirty operations one by one takes as
    long as a small call itself. The copy differs in one of its global names, so that torch's own function stays as it
    is.
    """

    def scaled_dot_product_attention(*args: Any, **kwargs: Any) -> Any:
        return session.call_sdpa(F.scaled_dot_product_attention, args, kwargs, in_order=True)

    names = {**func.__globals__, "scaled_dot_product_attention": scaled_dot_product_attention}
    return FunctionType(func.__code__, names, func.__name__, func.__defaults__, func.__closure__)


def idle_session() -> Observer | None:
    """Return the session whose function mode is the only one of this thread, unless it follows scores now."""
    if count_function_modes() != 1:
        return None
    mode = function_mode_at(0)
    return mode.session if type(mode) is FunctionMode and not mode.session.handwritten.follows else None


class OperationMode(DispatchMode):
    """Reports each operation, after it ran, to the sessions that ask for it.

    There is one for each thread. It is on only while a session asks for operations, since it costs more than all
    other parts of a capture.
    """

    supports_higher_order_operators = True  # without this, torch refuses to run them

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
            return self._on_subclass(func, args, kwargs)
        if kind_of_function(func) is _READS_ATTRIBUTE:
            return func(*args, **kwargs)
        if torch.is_inference_mode_enabled():
            # Only in inference mode do composite operators reach this mode undecomposed.
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        result = func(*args, **kwargs)
        if not is_wrapper(result):
            for session in self.sessions:
                session.operation(func, args, kwargs, result)
        return result

    def _on_subclass(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Leave an operation to the class of its tensors, whose operations on plain tensors are reported."""
        if not any(map(is_fake, args)):
            return NotImplemented
        for session in self.sessions:
            session.fake_operation(func)
        return func(*args, **kwargs)


class _ThreadModes(threading.local):
    """The dispatch mode of each thread."""

    def __init__(self) -> None:
        self.operations = OperationMode()


_HERE = _ThreadModes()


@contextmanager
def operations_watched(session: Observer) -> Iterator[None]:
    """Report every operation inside a context to a session, keeping the order of other modes on the stack."""
    watch_operations(session, True)
    try:
        yield
    finally:
        watch_operations(session, False)


def watch_operations(session: Observer, wanted: bool) -> None:
    """Start or stop reporting the operations of this thread to a session."""
    operations = _HERE.operations
    if wanted:
        operations.sessions.append(session)
        if len(operations.sessions) == 1:
            operations.__enter__()
    else:
        operations.sessions.remove(session)
        if not operations.sessions:
            operations.__exit__(None, None, None)
