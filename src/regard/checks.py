"""Checks of arguments that need neither torch nor NumPy."""

from __future__ import annotations

import operator

from regard.errors import ArgumentError, DtypeError

__all__ = ["whole_number"]


def whole_number(name: str, value: object, least: int | None = None) -> int:
    """Convert any kind of integer, such as one of NumPy, to an int, or raise an error that names the argument.

    Floats, booleans and tensors raise DtypeError, and a number below ``least`` raises ArgumentError.

    >>> whole_number("heads", 0, least=1)
    Traceback (most recent call last):
        ...
    regard.errors.ArgumentError: heads: expected a whole number of 1 or more, got 0
    """
    expected = "a whole number" + ("" if least is None else f" of {least} or more")
    try:
        if isinstance(value, bool) or hasattr(value, "__torch_function__"):
            raise TypeError
        number = operator.index(value)  # pyright: ignore[reportArgumentType]
    except TypeError:
        raise DtypeError(name, f"expected {expected}, got {value!r}") from None
    if least is not None and number < least:
        raise ArgumentError(name, f"expected {expected}, got {number}")
    return number
