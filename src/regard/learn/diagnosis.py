"""Finds the mistakes that explain the results of a learner's function."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np

from regard.learn.exercise import Exercise, Failure

__all__ = ["Outcome", "close", "explanations", "is_right"]

Outcome = tuple[np.ndarray, ...] | Failure
# The most mistakes that are tried together.
MOST_MISTAKES = 2


def close(given: np.ndarray, right: np.ndarray, share: float, *, any_shape: bool = False) -> bool:
    """Return whether two arrays have the same shape and numbers.

    ``share`` is the largest difference relative to the largest finite number, which counts as 1 if it is smaller. NaN
    equals NaN. With ``any_shape``, axes of size 1 do not count. A single number may always have them.

    >>> close(np.array([1.0, np.inf]), np.array([1.0001, np.inf]), 1e-3)
    True
    """
    given, right = np.asarray(given), np.asarray(right)
    if any_shape or (right.ndim == 0 and given.size == 1):
        given, right = given.squeeze(), right.squeeze()
    if given.shape != right.shape:
        return False
    # The learner chose to compute in half precision.
    if given.dtype == np.float16:
        share = max(share, 1e-2)
    given, right = given.astype(np.float64), right.astype(np.float64)
    finite = np.abs(right[np.isfinite(right)])
    largest = max(1.0, finite.max(initial=0.0))
    with np.errstate(invalid="ignore"):
        near = np.abs(given - right) <= share * largest
    return bool(np.all(near | (given == right) | (np.isnan(given) & np.isnan(right))))


def same(exercise: Exercise, given: Outcome, computed: Outcome) -> bool:
    """Return whether two outcomes of a case are the same results, or both are failures."""
    if isinstance(given, Failure) or isinstance(computed, Failure):
        return isinstance(given, Failure) and isinstance(computed, Failure)
    return len(given) == len(computed) and all(
        close(one, other, exercise.tolerance(part), any_shape=exercise.any_shape)
        for part, (one, other) in enumerate(zip_longest(given, computed))
    )


def is_right(exercise: Exercise, outcomes: Sequence[Outcome]) -> bool:
    """Return whether the outcomes of all cases are the expected ones."""
    pairs = zip(outcomes, exercise.expected, strict=True)
    return all(same(exercise, given, right) for given, right in pairs)


def explanations(
    exercise: Exercise, outcomes: Sequence[Outcome], *, leave_failures: bool = False
) -> list[frozenset[str]]:
    """Return the smallest sets of mistakes that give these outcomes in every case.

    The empty set means that the outcomes are right. The list is empty if no set of at most two mistakes gives them.
    Sets with fewer mistakes are preferred, and all of the smallest size are returned. With ``leave_failures``, cases in
    which the function failed are left out, because a function may also fail for another reason.
    """
    if is_right(exercise, outcomes):
        return [frozenset()]
    outcomes = [_alike(exercise, given) for given in outcomes]
    styles = (None, *range(len(exercise.styles)))
    for size in range(1, MOST_MISTAKES + 1):
        found = [
            chosen
            for chosen in exercise.combinations(size)
            if any(_explains(exercise, chosen, style, outcomes, leave_failures) for style in styles)
        ]
        if found:
            return found
    return []


def _alike(exercise: Exercise, given: Outcome) -> Outcome:
    """Return an outcome with the numbers that ``exercise.alike`` replaces."""
    if exercise.alike is None or isinstance(given, Failure):
        return given
    return tuple(exercise.alike(part) for part in given)


def _explains(
    exercise: Exercise,
    chosen: frozenset[str],
    style: int | None,
    outcomes: Sequence[Outcome],
    leave_failures: bool,
) -> bool:
    """Return whether a set of mistakes gives the outcomes in a style, of which at least one is a wrong result.

    A function may fail for any reason, so failures alone are no evidence.
    """
    evidence = False
    for case, (given, right) in enumerate(zip(outcomes, exercise.expected, strict=True)):
        if leave_failures and isinstance(given, Failure):
            continue
        if not same(exercise, given, exercise.outcome(case, chosen, style)):
            return False
        evidence = evidence or not (isinstance(given, Failure) or same(exercise, given, right))
    return evidence
