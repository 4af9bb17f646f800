"""Attention that a single function or kernel of torch, or :func:`regard.attention`, computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor

from regard.capture.reading.attention_calls import (
    AttentionCall,
    read_kernel,
    read_sdpa_function,
    refuse_transforms,
)
from regard.capture.reading.axes import LeadingAxes
from regard.capture.reading.axes_of_calls import axes_of_sdpa_function
from regard.capture.reading.regard_calls import read_regard_call
from regard.capture.reading.tensor_subclasses import is_fake, is_wrapper
from regard.capture.watching.call_log import CallLog
from regard.capture.watching.module_stack import ModuleStack
from regard.capture.watching.operators import GIVES_LSE
from regard.errors import CaptureError
from regard.kernels.dispatch import Call

__all__ = ["FusedAttention"]


class FusedAttention:
    """Records the calls of attention functions and of the kernels behind them.

    ``watched`` makes a context manager inside which every operation is reported to the session.
    """

    def __init__(
        self,
        stack: ModuleStack,
        log: CallLog,
        watched: Callable[[], AbstractContextManager[None]],
    ):
        self._stack, self._log, self._watched = stack, log, watched
        # The running call of F.scaled_dot_product_attention, and behind it a copy of the call with the result of each
        # of its kernels.
        self._running: list[AttentionCall] | None = None
        # Whether F.scaled_dot_product_attention runs on tensors that wrap others.
        self.runs_on_wrappers = False
        # The log-sum-exps of the kernels inside the running call of regard.attention.
        self._regard_sums: list[Tensor] | None = None

    @property
    def is_running(self) -> bool:
        """Whether ``F.scaled_dot_product_attention`` runs now on plain tensors."""
        return self._running is not None

    @property
    def is_inside_regard(self) -> bool:
        """Whether :func:`regard.attention` runs now."""
        return self._regard_sums is not None

    def call_sdpa(self, func: Any, args: tuple, kwargs: dict[str, Any], *, in_order: bool = False) -> Any:
        """Call ``F.scaled_dot_product_attention`` and record the call.

        ``in_order`` says that the axes are known to be ``(b,h,n,d)``, the order of torch.
        """
        if self._regard_sums is not None or not self._stack.is_in_forward_pass:
            return func(*args, **kwargs)
        if args and is_wrapper(args[0]) and not (args[0].is_nested or is_fake(args[0])):
            with self._on_wrappers():
                return func(*args, **kwargs)
        call = self._read(args, kwargs, in_order)
        if call is None:
            # Raises torch's error if torch rejects the arguments too.
            result = func(*args, **kwargs)
            self._log.note_unread_function()
            return result
        before, self._running = self._running, [call]
        try:
            if call.is_small:
                result = func(*args, **kwargs)
            else:
                with self._watched():
                    result = func(*args, **kwargs)
            recorded = self._running[-1]
        finally:
            self._running = before
        self._log.record(recorded)
        return result

    def _read(self, args: tuple, kwargs: dict[str, Any], in_order: bool) -> AttentionCall | None:
        """Read a call with these arguments. Returns None where they cannot be read."""
        refuse_transforms(*args, *kwargs.values())
        try:
            axes = {} if in_order else self._axes(*args, **kwargs)
            return read_sdpa_function(*args, **kwargs, **axes)
        except CaptureError:
            raise
        except (TypeError, RuntimeError, AttributeError, IndexError):
            return None

    def _axes(self, *args: Any, **kwargs: Any) -> dict[str, LeadingAxes]:
        """The argument ``leading`` for a call of torch's function, or nothing where its axes are ``(b,h,n,d)``."""
        running = self._stack.innermost
        leading, shape = axes_of_sdpa_function(
            running, self._stack.modules, self._stack.choices, self._log.folds, *args, **kwargs
        )
        if leading is not None and leading.guessed:
            self._log.note_guess(running, shape)
        return {} if leading is None else {"leading": leading}

    @contextmanager
    def _on_wrappers(self) -> Iterator[None]:
        """Record the kernels of a call of ``F.scaled_dot_product_attention`` on tensors that wrap others."""
        before, calls = self.runs_on_wrappers, self._log.collector.calls
        self.runs_on_wrappers = True
        try:
            with self._watched():
                yield
        finally:
            self.runs_on_wrappers = before
        if self._log.collector.calls == calls:
            self._log.note_unread_function()

    @contextmanager
    def regard_call(self, call: Call) -> Iterator[None]:
        """Record a call of :func:`regard.attention`, not all of whose kernels are operators of torch."""
        if self._regard_sums is not None or not self._stack.is_in_forward_pass:
            yield
            return
        self._regard_sums = []
        try:
            with self._watched():
                yield
            with torch.no_grad():
                recorded = read_regard_call(call, self._regard_sums)
        finally:
            self._regard_sums = None
        self._log.record(recorded)

    def kernel_in_regard(self, func: Any, result: Any) -> None:
        """Note the log-sum-exp of a kernel inside :func:`regard.attention`."""
        if func is GIVES_LSE and self._regard_sums is not None:
            self._regard_sums.append(result[1])

    def kernel(self, func: Any, args: tuple, kwargs: dict[str, Any], result: Any) -> None:
        """Note the result of a fused kernel. Outside of ``F.scaled_dot_product_attention`` it is recorded as a call."""
        returned = result if func is GIVES_LSE else ()
        if self._running is not None:
            self._running.append(self._running[0].in_dtype(args[0].dtype).with_result(returned))
        elif self._stack.is_in_forward_pass:
            self._log.record(read_kernel(func, args, kwargs).with_result(returned))
