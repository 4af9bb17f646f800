"""Limits of memory and time for the process of a learner's file."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
import types

from regard.learn.child.places import Stop, line_of_frame

__all__ = ["end_limits", "limit_memory", "limit_time"]


def limit_memory(size: int) -> None:
    """Limit the memory of this process, where the system can."""
    try:
        import resource
    except ImportError:
        return
    # Address space includes the files of libraries, of which torch maps many gigabytes on some machines.
    kind = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(kind, (size, size))
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def limit_time(path: str, cpu: float, wall: float) -> None:
    """Raise Stop in the main thread after some seconds of computing, or of waiting, from now on."""
    if not hasattr(signal, "setitimer"):
        return

    start, computed = time.monotonic(), time.process_time()

    def stop(number: int, frame: types.FrameType | None) -> None:
        elapsed = time.monotonic() - start
        # On a busy machine a file that computes gets only a part of the time.
        waited = time.process_time() - computed < 0.05 * elapsed
        raise Stop(kind="time", line=line_of_frame(frame, path), waited=waited)

    signal.signal(signal.SIGPROF, stop)
    signal.signal(signal.SIGALRM, stop)
    # A file that catches the first signal gets another each second.
    signal.setitimer(signal.ITIMER_PROF, cpu, 1.0)
    signal.setitimer(signal.ITIMER_REAL, wall, 1.0)
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    hard = int(used.ru_utime + used.ru_stime + cpu + 4)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (hard, hard))


def end_limits() -> None:
    """Stop the timers."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
