"""The exercises, in the order in which they are meant to be done."""

from __future__ import annotations

from regard.learn.bank.first import SCORES, SOFTMAX
from regard.learn.bank.tutorial import EXERCISE_1, EXERCISE_2, WORKED_EXAMPLE
from regard.learn.exercise import Exercise

__all__ = ["EXERCISES"]

EXERCISES: tuple[Exercise, ...] = (SOFTMAX, SCORES, WORKED_EXAMPLE, EXERCISE_1, EXERCISE_2)
