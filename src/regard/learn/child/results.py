"""The results of a learner's function as arrays, and the variables on the way to them."""

from __future__ import annotations

import contextlib
import itertools
import numbers
import sys
import types
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np

__all__ = ["Unusable", "outcome_of", "traced"]

# The most numbers of a result, of an array that a trace keeps, and the most arrays of a trace.
MOST_NUMBERS = 1_000_000
MOST_TRACED = 4096
MOST_RECORDS = 300
NUMERIC = "biuf"
# The names of frames whose value is not that of a return statement.
COMPREHENSIONS = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}


class Unusable(Exception):
    """Raised for a result that is no array of numbers. Its argument is the kind, as in the report."""


def _without_bfloat16(tensor: Any) -> Any:
    """Return a tensor in float16, whose tolerance fits, or in float32 if numbers of it are too large for float16."""
    half = tensor.half()
    return half if bool((half.isinf() == tensor.isinf()).all()) else tensor.float()


def listed(value: Any) -> Any:
    """Return the list of an iterator, such as a generator, or the value itself if it is none."""
    if not isinstance(value, Iterator):
        return value
    return list(itertools.islice(value, MOST_NUMBERS + 1))


def array_of(value: Any) -> np.ndarray:
    """Return a result as an array. It may be a number, an array, a tensor, or lists or iterators of them."""
    if value is None:
        raise Unusable("none")
    value = listed(value)
    if isinstance(value, list | tuple):
        parts = [array_of(part) for part in value]
        try:
            array = np.asarray(parts)
        except ValueError:
            raise Unusable("ragged") from None
    elif hasattr(value, "detach"):
        value = value.detach().cpu()
        array = (_without_bfloat16(value) if str(value.dtype) == "torch.bfloat16" else value).numpy()
    else:
        array = np.asarray(value)
    if array.dtype.kind == "O" and all(isinstance(one, numbers.Real | Decimal) for one in array.flat):
        array = array.astype(float)
    if array.dtype.kind not in NUMERIC:
        raise Unusable({"c": "complex", "U": "text", "S": "text"}.get(array.dtype.kind, "object"))
    if array.size > MOST_NUMBERS:
        raise Unusable("large")
    return array


def outcome_of(answer: Any, count: int) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Return the report of a result and its arrays. ``count`` is the number of arrays that the exercise asks for.

    An array or tensor of ``count`` rows counts as that many arrays.
    """
    kind = type(answer).__name__
    answer = listed(answer)
    # A single array of numbers may happen to have as many numbers as arrays are asked for, so it has no rows.
    rows = count > 1 and getattr(answer, "ndim", 0) > 1
    parts = list(answer) if rows or isinstance(answer, list | tuple) else [answer]
    if count > 1 and len(parts) != count:
        tuples = len(parts) > 0 and all(isinstance(one, list | tuple) and len(one) == count for one in parts)
        return {"kind": "parts", "type": kind, "given": len(parts)} | ({"tuples": True} if tuples else {}), []
    try:
        arrays = [array_of(part) for part in parts] if count > 1 else [array_of(answer)]
        return {"kind": "arrays", "type": kind}, arrays
    except Unusable as error:
        with contextlib.suppress(Unusable):
            if error.args[0] == "ragged" and isinstance(answer, tuple):
                return {"kind": "tuple", "type": kind, "given": len(parts)}, [
                    array_of(part) for part in parts
                ]
        return {"kind": error.args[0], "type": kind}, []


def traced(work: Callable[[], object], path: str) -> list[tuple[dict[str, Any], np.ndarray]]:
    """Call ``work`` and return the numeric variables of the file, each with its name and line, in order."""
    records: list[tuple[dict[str, Any], np.ndarray]] = []
    seen: set[tuple[str, bytes]] = set()

    def keep(name: str, line: int, value: Any) -> None:
        if len(records) >= MOST_RECORDS or not (
            hasattr(value, "shape") or isinstance(value, list | tuple | float)
        ):
            return
        with contextlib.suppress(Exception):
            array = array_of(value)
            if array.size <= MOST_TRACED and (name, array.tobytes()) not in seen:
                seen.add((name, array.tobytes()))
                records.append(({"name": name, "line": line}, np.copy(array)))

    def trace(frame: types.FrameType, event: str, value: Any) -> Any:
        if frame.f_code.co_filename != path:
            return None
        previous = [frame.f_lineno]

        def local(frame: types.FrameType, event: str, value: Any) -> Any:
            for name, variable in frame.f_locals.items():
                if not name.startswith("."):
                    keep(name, previous[0], variable)
            previous[0] = frame.f_lineno
            if event == "return" and value is not None and frame.f_code.co_name not in COMPREHENSIONS:
                keep("return", frame.f_lineno, value)
            return local

        return local

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(None)
    return records
