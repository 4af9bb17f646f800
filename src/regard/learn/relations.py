"""Simple relations between a wrong result and the right one, such as a factor or another order."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from regard.learn.diagnosis import close
from regard.learn.exercise import TOLERANCE, Case
from regard.learn.words import Words

__all__ = ["Relation", "find_relation", "show_number"]

Array = np.ndarray

_RELATIONS = {
    "negative": Words("All numbers have the wrong sign.", "所有数的符号都反了。"),
    "factor": Words(
        "Every number is {value} times the right one{guess}.",
        "每个数都是正确值的 {value} 倍{guess}。",
    ),
    "row_factors": Words(
        "Each row is a multiple of the right one, by {value}. Something by which a whole row is divided or "
        "multiplied is "
        "missing or is there twice.",
        "每一行都是正确行的倍数：{value}。整行要除以或乘以的某个量漏掉了，或者用了两次。",
    ),
    "offset": Words("Every number is {value} more than the right one.", "每个数都比正确值大 {value}。"),
    "order": Words("The numbers are right, but in another order.", "数值是对的，但顺序不同。"),
    "axes": Words(
        "The numbers are right, but the axes are in the order {order}.",
        "数值是对的，但轴的顺序是 {order}。",
    ),
    "rounded": Words(
        "The numbers are right, but rounded to {value} digits after the point.",
        "数值是对的，但只保留到小数点后 {value} 位。",
    ),
    "flat": Words("The numbers are right, only the shape differs.", "数值是对的，只是形状不同。"),
    "nan": Words(
        "It contains NaN, which comes from 0 / 0, inf / inf or inf - inf.",
        "其中有 NaN，它来自 0 / 0、inf / inf 或 inf - inf。",
    ),
}
_GUESS = Words(
    ", which is {form}, and {size} is the size of an axis of {name}",
    "（即 {form}，{size} 是 {name} 的一个轴的大小）",
)


def show_number(value: float) -> str:
    """Return a number with five digits."""
    return f"{value:.5g}"


class Relation(NamedTuple):
    """The kind of a relation, and the values of its sentence."""

    kind: str
    values: dict[str, Any]

    def say(self, case: Case, language: str) -> str:
        """Return the relation as a sentence."""
        values = dict(self.values)
        if self.kind == "factor":
            values = {
                "value": show_number(values["factor"]),
                "guess": _guess(values["factor"], case, language),
            }
        return _RELATIONS[self.kind].say(language, **values)


def find_relation(wrong: Array, right: Array, share: float = TOLERANCE) -> Relation | None:
    """Return how a whole result relates to the right one, or None if no relation is found.

    ``share`` is the tolerance of the numbers, as in `close`.

    >>> find_relation(np.array([2.0, 6.0]), np.array([1.0, 3.0])).say(Case({"q": np.zeros(4)}), "en")
    'Every number is 2 times the right one, which is √4, and 4 is the size of an axis of q.'
    """
    wrong, right = wrong.astype(float), right.astype(float)
    if np.isnan(wrong).any() and not np.isnan(right).any():
        return Relation("nan", {})
    if wrong.size != right.size or right.size < 2:
        return None
    for order in itertools.permutations(range(right.ndim)) if 1 < right.ndim < 5 else ():
        if order != tuple(range(right.ndim)) and close(wrong, right.transpose(order), share):
            return Relation("axes", {"order": order})
    if wrong.shape != right.shape:
        return Relation("flat", {}) if close(wrong.ravel(), right.ravel(), share) else None
    if close(wrong, -right, share):
        return Relation("negative", {})
    if np.isfinite(wrong).all() and np.isfinite(right).all():
        return _numeric_relation(wrong, right, share)
    return None


def _numeric_relation(wrong: Array, right: Array, share: float) -> Relation | None:
    for digits in (3, 2, 1):
        # Half a unit of the last digit, and a whole unit if digits were cut off.
        if np.array_equal(wrong, wrong.round(digits)) and np.abs(wrong - right).max() < 10.0**-digits:
            return Relation("rounded", {"value": digits})
    factor = _factor(wrong, right, share)
    if factor is not None:
        return Relation("factor", {"factor": factor})
    if right.ndim > 1 and right.shape[-1] > 1:
        pairs = zip(wrong.reshape(-1, wrong.shape[-1]), right.reshape(-1, right.shape[-1]), strict=True)
        factors = [_factor(*pair, share) for pair in pairs]
        known = [factor for factor in factors if factor is not None]
        if len(known) == len(factors):
            return Relation("row_factors", {"value": ", ".join(map(show_number, known[:4]))})
    offset = float(np.median(wrong - right))
    if close(wrong, right + offset, share):
        return Relation("offset", {"value": show_number(offset)})
    same_numbers = close(np.sort(wrong.ravel()), np.sort(right.ravel()), share)
    return Relation("order", {}) if same_numbers else None


def _factor(wrong: Array, right: Array, share: float) -> float | None:
    """Return the number by which all numbers of ``right`` are multiplied in ``wrong``, or None if there is none."""
    used = np.abs(right) > 1e-6
    if not used.any():
        return None
    factor = float(np.median(wrong[used] / right[used]))
    return factor if abs(factor) > 1e-3 and close(wrong, right * factor, share) else None


def _guess(factor: float, case: Case, language: str) -> str:
    """Return what a factor is in terms of the size of an axis, or ""."""
    for name, value in case.arguments.items():
        for size in getattr(value, "shape", ())[::-1]:
            forms = {f"√{size}": math.sqrt(size), f"1/√{size}": 1 / math.sqrt(max(size, 1))}
            forms |= {f"{size}": size, f"1/{size}": 1 / max(size, 1)}
            for form, number in forms.items():
                if size > 1 and math.isclose(factor, number, rel_tol=1e-3):
                    return _GUESS.say(language, form=form, size=size, name=name)
    return ""
