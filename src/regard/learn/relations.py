"""Simple relations between a wrong result and the right one, such as a factor or another order."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from regard.learn.diagnosis import close
from regard.learn.exercise import TOLERANCE, Case
from regard.learn.words import Words

__all__ = ["Relation", "common_forms", "find_factor", "find_relation", "show_number", "tell_form"]

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
    "cut": Words(
        "The numbers are right, but cut off after {value} digits after the point. Round them instead.",
        "数值是对的，但小数点后 {value} 位之后被直接截断了。应四舍五入。",
    ),
    "whole": Words(
        "The numbers are right, but cut to whole numbers. Look for // in place of /, int(), or an array of integers.",
        "数值是对的，但只剩整数部分。请查找用作除法的 //、int()，或整数数组。",
    ),
    "flat": Words("The numbers are right, only the shape differs.", "数值是对的，只是形状不同。"),
    "nan": Words(
        "It contains NaN, which comes from 0 / 0, inf / inf, inf - inf or 0 * inf.",
        "其中有 NaN，它来自 0 / 0、inf / inf、inf - inf 或 0 * inf。",
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
            factor = values["factor"]
            forms = values.get("forms", forms_of(factor, case))
            values = {"value": show_number(factor), "guess": tell_form(forms, case, language)}
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
    if wrong.size != right.size:
        return None
    if right.size < 2:
        same = wrong.shape != right.shape and close(wrong.ravel(), right.ravel(), share)
        return Relation("flat", {}) if same else None
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
        if np.array_equal(wrong, wrong.round(digits)) and wrong.any():
            unit = 10.0**-digits
            lost = np.abs(right) - np.abs(wrong)
            if np.abs(wrong - right).max() <= 0.5 * unit + 1e-9:
                return Relation("rounded", {"value": digits})
            if np.all(wrong * right >= 0) and lost.min() >= -1e-9 and lost.max() < unit:
                return Relation("cut", {"value": digits})
    if wrong.any() and any(np.array_equal(wrong, cut(right)) for cut in (np.floor, np.trunc)):
        return Relation("whole", {})
    factor = find_factor(wrong, right, share)
    if factor is not None:
        return Relation("factor", {"factor": factor})
    if right.ndim > 1 and right.shape[-1] > 1:
        pairs = zip(wrong.reshape(-1, wrong.shape[-1]), right.reshape(-1, right.shape[-1]), strict=True)
        factors = [find_factor(*pair, share) for pair in pairs]
        known = [factor for factor in factors if factor is not None]
        if len(known) == len(factors):
            return Relation("row_factors", {"value": ", ".join(map(show_number, known[:4]))})
    offset = float(np.median(wrong - right))
    if close(wrong, right + offset, share):
        return Relation("offset", {"value": show_number(offset)})
    same_numbers = close(np.sort(wrong.ravel()), np.sort(right.ravel()), share)
    return Relation("order", {}) if same_numbers else None


def find_factor(wrong: Array, right: Array, share: float = TOLERANCE) -> float | None:
    """Return the number by which all numbers of ``right`` are multiplied in ``wrong``, or None if there is none."""
    used = np.abs(right) > 1e-6
    if not used.any():
        return None
    # A result that overflowed may have a factor near the largest number.
    with np.errstate(all="ignore"):
        factor = float(np.median(wrong[used] / right[used]))
        if abs(factor) <= 1e-3 or not close(wrong, right * factor, share):
            return None
        # A result of few digits has a factor near 100 if its numbers are percentages.
        whole = np.round(factor)
        rounded = math.isclose(factor, whole, rel_tol=1e-3) and close(wrong, right * whole, share)
        return float(whole) if rounded else factor


# The sizes that a factor may come from: the name of an argument, its axis, and how the factor is made of the size.
Form = tuple[str, int, str]
_FORMS = {
    "√{}": math.sqrt,
    "1/√{}": lambda size: 1 / math.sqrt(size),
    "{}": float,
    "1/{}": lambda size: 1 / size,
}


def forms_of(factor: float, case: Case, *, only_roots: bool = False) -> list[Form]:
    """Return the ways in which a factor is made of the size of an axis of an argument.

    >>> forms_of(0.5, Case({"q": np.zeros((2, 4))}))
    [('q', 1, '1/√{}'), ('q', 0, '1/{}')]
    """
    found: list[Form] = []
    for name, value in case.arguments.items():
        sizes = list(enumerate(getattr(value, "shape", ())))[::-1]
        for axis, size in sizes:
            for form, number in _FORMS.items():
                root = "√" in form or not only_roots
                if size > 1 and root and math.isclose(factor, number(size), rel_tol=1e-3):
                    found.append((name, axis, form))
    return found


def common_forms(factors: Sequence[float], cases: Sequence[Case]) -> list[Form]:
    """Return the forms that the factors have in all cases. In a single case a form may be a coincidence."""
    sets = [forms_of(factor, case) for factor, case in zip(factors, cases, strict=True)]
    return [form for form in sets[0] if all(form in others for others in sets)]


def tell_form(forms: Sequence[Form], case: Case, language: str) -> str:
    """Return the first form as a part of a sentence, or "" if there is none."""
    if not forms:
        return ""
    name, axis, form = forms[0]
    size = case.arguments[name].shape[axis]
    return _GUESS.say(language, form=form.format(size), size=size, name=name)
