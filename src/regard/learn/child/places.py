"""The lines of a learner's file at which things happen, and reports of errors."""

from __future__ import annotations

import contextlib
import traceback
import types
from typing import Any

__all__ = ["Stop", "line_of_frame", "raised"]


class Stop(BaseException):
    """Ends the run of the file. ``trouble`` is what the report says of it."""

    def __init__(self, **trouble: Any):
        self.trouble = trouble
        super().__init__(trouble)


def line_of_frame(frame: types.FrameType | None, path: str) -> int:
    """Return the line of the file that is being executed in a frame or one of its callers, or 0."""
    while frame is not None:
        if frame.f_code.co_filename == path:
            return frame.f_lineno
        frame = frame.f_back
    return 0


def place_of(error: BaseException, path: str) -> tuple[int, dict[str, list[int]]]:
    """Return the last line of the file that an error passed, and the shapes of the arrays that are known there."""
    line, shapes = 0, {}
    for frame, number in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename == path:
            line = number
            shapes = {name: shape for name, value in frame.f_locals.items() if (shape := shape_of(value))}
    return line, shapes


def shape_of(value: Any) -> list[int]:
    """Return the shape of an array or tensor, or [] of anything else.

    Other objects may have an attribute of this name too. ``numpy.shape`` is a function.
    """
    with contextlib.suppress(Exception):
        shape = getattr(value, "shape", ())
        return [int(size) for size in shape] if isinstance(shape, tuple) else []
    return []


def raised(error: BaseException, path: str) -> dict[str, Any]:
    """Return the report of an error."""
    line, shapes = place_of(error, path)
    if isinstance(error, Stop):
        return error.trouble
    if isinstance(error, SystemExit):
        return {"kind": "exit", "line": line}
    if isinstance(error, MemoryError):
        return {"kind": "memory", "line": line}
    try:
        message = str(error)[:500]
    except Exception:
        message = ""
    told = {"type": type(error).__name__, "message": message, "line": line, "shapes": shapes}
    if isinstance(error, ModuleNotFoundError):
        return {"kind": "missing", "name": error.name or "", **told}
    return {"kind": "raised", **told}
