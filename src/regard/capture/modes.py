"""The two modes by which torch tells what it is asked to do, and what it does.

Neither is enough. The function mode sees ``F.scaled_dot_product_attention`` with its mask and flags as they were
given, but not the one inside ``nn.MultiheadAttention``; the dispatch mode sees every kernel, its log-sum-exp, and
products and softmaxes written by hand, but masks only after they were converted.
"""

from __future__ import annotations

import functools
import re
import threading
from types import (
    BuiltinFunctionType,
    FunctionType,
    MethodDescriptorType,
    MethodWrapperType,
    WrapperDescriptorType,
)
from typing import TYPE_CHECKING, Any

import torch.nn.functional as F
from torch import nn
from torch._ops import HigherOrderOperator
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

if TYPE_CHECKING:
    from regard.capture.session import Session

_BUILT_IN = (BuiltinFunctionType, MethodDescriptorType, MethodWrapperType, WrapperDescriptorType)
_TELLING = re.compile(r"attention|softm|mm|mat|dot|ein|inner|linear|transformer|dist|cov|corr")

__all__ = ["Functions", "Operations", "show_operations"]


class Functions(TorchFunctionMode):
    """Shows each call of ``F.scaled_dot_product_attention`` to a session, and has the operations of others shown."""

    def __init__(self, session: Session):
        super().__init__()
        self._session = session

    def __torch_function__(self, func, types, args=(), kwargs=None) -> Any:
        kwargs = kwargs or {}
        if not _may_attend(func) or (func is F.linear and _by_weights(*args)):
            return func(*args, **kwargs)
        attends = func is F.scaled_dot_product_attention
        with self._session.function_call(args, kwargs) if attends else self._session.shown():
            return func(*args, **kwargs)


@functools.lru_cache(maxsize=4096)
def _may_attend(func: Any) -> bool:
    """Whether a function may be or hold a product, a softmax or an attention: torch's own say so by their names."""
    torchs = isinstance(func, _BUILT_IN) or (
        isinstance(func, FunctionType) and func.__module__.startswith("torch.")
    )
    return not torchs or _TELLING.search(func.__name__) is not None


def _by_weights(*args: Any) -> bool:
    """Whether ``F.linear`` is what it is in a layer: a product with weights of the model's own, which is no score."""
    return len(args) > 1 and type(args[1]) is nn.Parameter


class Operations(TorchDispatchMode):
    """Shows each operation, after it ran, to the sessions that want to see them.

    There is one for each thread, and it is on only while some session wants it: it costs more than all the rest.
    """

    supports_higher_order_operators = True  # else torch refuses to run them at all

    def __init__(self) -> None:
        super().__init__()
        self.sessions: list[Session] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled while a capture is active; torch need not load its compiler to make sure of it."""
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None) -> Any:
        kwargs = kwargs or {}
        if isinstance(func, HigherOrderOperator):
            for session in self.sessions:
                session.whole_graph(func)
            return func(*args, **kwargs)
        result = func(*args, **kwargs)
        for session in self.sessions:
            session.operation(func, args, kwargs, result)
        return result


class _OfThisThread(threading.local):
    def __init__(self) -> None:
        self.operations = Operations()


_HERE = _OfThisThread()


def show_operations(session: Session, wanted: bool) -> None:
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
