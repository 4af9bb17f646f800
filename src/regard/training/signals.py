"""Handling of Ctrl-C and SIGTERM between steps."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["StopRequest"]


class StopRequest:
    """A flag that Ctrl-C (SIGINT) and SIGTERM set, so that the step is finished and saved before training stops.

    ``asked`` is the flag, and ``signal`` the number of the last signal. After either signal, a Ctrl-C raises
    KeyboardInterrupt at once.
    """

    def __init__(self):
        self.asked = False
        self.signal: int | None = None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Return a context manager that handles both signals, and restores their former handlers at its end.

        Python allows this in the main thread only. In other threads it does nothing.
        """
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
