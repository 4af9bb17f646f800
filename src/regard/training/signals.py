"""Ctrl-C and requests to end, heard between steps."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["StopRequest"]


class StopRequest:
    """Whether somebody has asked to stop. The step is finished and saved first; a second Ctrl-C ends at once."""

    def __init__(self):
        self.asked = False
        self.signal: int | None = None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Listen to Ctrl-C (SIGINT) and SIGTERM within this block. Only a main thread can."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        for number in before:
            signal.signal(number, self._ask)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _ask(self, number: int, frame: Any) -> None:
        self.asked, self.signal = True, number
        signal.signal(signal.SIGINT, signal.default_int_handler)
