"""Overviews of the maps of the viewer's server, computed in the background."""

from __future__ import annotations

import threading

from regard.maps.sources import Source
from regard.viewer.tiles import Overview

__all__ = ["Overviews"]


class Overviews:
    """Overviews that one thread computes in the background, the most recently requested first."""

    LIMIT = 2**28  # bytes of all overviews in memory

    def __init__(self) -> None:
        self._held: dict[tuple[int, int, int, int], Overview] = {}
        self._waiting: list[Overview] = []
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = False

    def get(self, key: tuple[int, int, int, int], source: Source) -> Overview:
        """Return the overview of ``key``, which is (record, sequence, head, side), without waiting for it.

        The first call starts to compute it from ``source``. Its ``done`` and ``error`` tell how far it is.
        """
        with self._lock:
            found = self._held.pop(key, None)
            if found is None:
                found = Overview(source, *key[1:])
                self._waiting.append(found)
            self._held[key] = found  # the newest is the last
            self._drop_oldest()
            if found in self._waiting:  # to the front of the queue
                self._waiting.remove(found)
                self._waiting.append(found)
            if self._thread is None and self._waiting and not self._stopped:
                self._thread = threading.Thread(target=self._work, daemon=True)
                self._thread.start()
        return found

    def _drop_oldest(self) -> None:
        """Drop the oldest finished overviews. Unfinished ones stay, or they would be started again and again."""
        size = sum(overview.values.nbytes for overview in self._held.values())
        for key, overview in [*self._held.items()][:-1]:
            if size > self.LIMIT and overview not in self._waiting:
                size -= self._held.pop(key).values.nbytes

    def stop(self) -> None:
        """Stop the computation for good, and wait at most ten seconds for the thread to end."""
        with self._lock:
            self._stopped = True
            thread = self._thread
        if thread is not None:
            thread.join(timeout=10)

    def _work(self) -> None:
        while True:
            with self._lock:
                self._waiting = [overview for overview in self._waiting if overview.done < 1]
                if self._stopped or not self._waiting:
                    self._thread = None
                    return
                current = self._waiting[-1]
            try:
                current.advance()
            # The next request of this overview gets the error, and the other overviews are computed.
            except Exception as error:
                current.error = error
                with self._lock:
                    self._waiting.remove(current)
