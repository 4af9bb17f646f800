"""Checks of arguments that need neither torch nor NumPy."""

from __future__ import annotations

import operator

from regard.errors import ArgumentError, DtypeError

__all__ = ["rows_and_columns", "whole_number"]


def whole_number(name: str, value: object, least: int | None = None, *, bits: int | None = 64) -> int:
    """Convert any kind of integer, such as one of NumPy, to an int, or raise an error that names the argument.

    Floats, booleans and tensors raise DtypeError. A number below ``least``, and one of more than ``bits`` bits, raise
    ArgumentError.

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
    if bits is not None and number.bit_length() > bits:
        raise ArgumentError(name, f"expected {expected} of at most {bits} bits, got {number}")
    return number


def rows_and_columns(name: str, value: object) -> tuple[int, int]:
    """Return the numbers of rows and columns of a grid of patches, or raise an error that names the argument.

    >>> rows_and_columns("grid", (2.0, 2.0))
    Traceback (most recent call last):
        ...
    regard.errors.DtypeError: grid: expected a whole number of 1 or more, got 2.0
    """
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise ArgumentError(name, f"expected (rows, columns), got {value!r}")
    return whole_number(name, value[0], least=1), whole_number(name, value[1], least=1)
