"""Reasons why a record may not be all that multiplies the values."""

from __future__ import annotations

from enum import Enum

__all__ = ["Doubt"]


class Doubt(Enum):
    """A reason to doubt a record. Its value is the note of the record."""

    NOT_MULTIPLIED = (
        "not seen to multiply the values: the model may have changed these weights after the softmax"
    )
    USED_TWICE = "used twice: the model multiplies values with another form of these weights as well"
    PART_OF_KEYS = "a part of the keys: the same queries attend to other keys in another call"
