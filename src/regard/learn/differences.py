"""Says where a result that no known mistake explains leaves the formula."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.learn.diagnosis import close
from regard.learn.exercise import ERRORS, Case, Exercise, Step
from regard.learn.troubles import shapes_of
from regard.learn.words import Words

__all__ = ["tell_difference"]

Array = np.ndarray
Trace = Sequence[tuple[dict[str, Any], Array]]
# Numbers of a stage that are shown at most.
MOST_SHOWN = 8

_UNKNOWN = Words("This is not one of the known mistakes.", "这不是已知的错误之一。")
_PLACE = Words(
    "With {arguments}, the first number that differs is {name}[{index}]{axes}: yours is {given}, right is {right}.",
    "参数为 {arguments} 时，第一个不同的数是 {name}[{index}]{axes}：你的是 {given}，正确的是 {right}。",
)
_SHAPE = Words(
    "With {arguments}, your {name} has the shape {given}. The right shape is {right}{axes}.",
    "参数为 {arguments} 时，你的 {name} 的形状是 {given}。正确的形状是 {right}{axes}。",
)
_REACHED = Words(
    "You are right up to {stage}: your {variable} of line {line} has it.",
    "到“{stage}”为止是对的：第 {line} 行的 {variable} 就是它。",
)
_NOT_RETURNED = Words(
    "Your {variable} of line {line} is the right result, but something else is returned.",
    "第 {line} 行的 {variable} 就是正确的结果，但返回的是别的东西。",
)
_NEXT = Words("The next stage is {stage}.", "下一步是“{stage}”。")
_OTHER = Words(
    "Your {variable} of line {line} has its shape, but {given} at [{index}]{axes} where {right} is right.",
    "第 {line} 行的 {variable} 形状相同，但 [{index}]{axes} 处是 {given}，正确的是 {right}。",
)
_NAMED = Words(
    "Your {variable} of line {line} shows a known mistake: {mistake}",
    "第 {line} 行的 {variable} 显示出一个已知的错误：{mistake}",
)
_MORE = Words("After it there is another difference.", "在它之后还有另一处不同。")
_STAGES = Words("The right numbers on the way to it:", "得到它的过程中，正确的数是：")
_RELATIONS = {
    "negative": Words("All numbers have the wrong sign.", "所有数的符号都反了。"),
    "factor": Words(
        "Every number is {value} times the right one{guess}.", "每个数都是正确值的 {value} 倍{guess}。"
    ),
    "offset": Words("Every number is {value} more than the right one.", "每个数都比正确值大 {value}。"),
    "order": Words("The numbers are right, but in another order.", "数值是对的，但顺序不同。"),
    "axes": Words(
        "The numbers are right, but the axes are in the order {order}.", "数值是对的，但轴的顺序是 {order}。"
    ),
    "flat": Words("The numbers are right, only the shape differs.", "数值是对的，只是形状不同。"),
    "nan": Words(
        "It contains NaN, which comes from 0 / 0, inf / inf or inf - inf.",
        "其中有 NaN，它来自 0 / 0、inf / inf 或 inf - inf。",
    ),
}
_GUESS = Words(
    ", which is {form} for the {size} of an axis of {name}", "（即 {form}，{size} 是 {name} 的一个轴的大小）"
)


def tell_difference(
    exercise: Exercise, number: int, given: Sequence[Array], trace: Trace, language: str
) -> list[str]:
    """Return what is said of a wrong result in the case of a number, as sentences.

    ``trace`` has the variables of the learner's function in that case.
    """
    case, expected = exercise.cases[number], exercise.expected[number]
    part = next(i for i, right in enumerate(expected) if not _close(exercise, given[i], right, i))
    step = _step(exercise, exercise.returns[part])
    wrong, right = np.asarray(given[part]), expected[part]
    if exercise.any_shape:
        wrong, right = wrong.squeeze(), right.squeeze()
    said = [_UNKNOWN.say(language)]
    values = {"arguments": shapes_of(case) or "()", "name": step.name}
    if wrong.shape != right.shape:
        axes = _axes(step, right.ndim, language)
        shapes = {"given": wrong.shape, "right": right.shape}
        said.append(_SHAPE.say(language, **values, **shapes, axes=f" ({axes})" if axes else ""))
    else:
        said.append(_PLACE.say(language, **values, **_first_difference(step, wrong, right, language)))
    said += _relation(wrong, right, case, language)
    said += _way(exercise, number, trace, language) or _stages_there(
        exercise, number, step, wrong, right, language
    )
    return said


def _close(exercise: Exercise, given: Array, right: Array, part: int) -> bool:
    return close(given, right, exercise.tolerance(part), any_shape=exercise.any_shape)


def _step(exercise: Exercise, name: str) -> Step:
    return next(step for step in exercise.steps if step.name == name)


def _number(value: float) -> str:
    return f"{value:.5g}"


def _axes(step: Step, ndim: int, language: str) -> str:
    return ", ".join(axis.say(language) for axis in step.axes) if len(step.axes) == ndim else ""


def _first_difference(step: Step, wrong: Array, right: Array, language: str) -> dict[str, str]:
    """Return the index of the first number that differs, the names of its axes, and both numbers."""
    wrong, right = wrong.astype(float), right.astype(float)
    largest = max(1.0, np.abs(right[np.isfinite(right)]).max(initial=0.0))
    with np.errstate(invalid="ignore"):
        near = np.abs(wrong - right) <= 2e-4 * largest
    same = near | (wrong == right) | (np.isnan(wrong) & np.isnan(right))
    # If the tolerance of the exercise and this one disagree, the largest difference is shown.
    index = tuple(int(i) for i in np.argwhere(~same)[0]) if not same.all() else (0,) * right.ndim
    named = zip(step.axes, index, strict=True) if len(step.axes) == len(index) else ()
    axes = ", ".join(f"{axis.say(language)} {i}" for axis, i in named)
    return {
        "index": ", ".join(map(str, index)),
        "axes": f" ({axes})" if axes else "",
        "given": _number(wrong[index]),
        "right": _number(right[index]),
    }


# ---- relations between a wrong result and the right one


def _relation(wrong: Array, right: Array, case: Case, language: str) -> list[str]:
    """Return a sentence on how the whole result relates to the right one, if it does in a simple way."""
    wrong, right = wrong.astype(float), right.astype(float)
    if np.isnan(wrong).any() and not np.isnan(right).any():
        return [_RELATIONS["nan"].say(language)]
    if wrong.size != right.size or right.size < 2:
        return []
    for order in itertools.permutations(range(right.ndim)) if 1 < right.ndim < 5 else ():
        if order != tuple(range(right.ndim)) and close(wrong, right.transpose(order), 2e-4):
            return [_RELATIONS["axes"].say(language, order=order)]
    if wrong.shape != right.shape:
        same = close(wrong.ravel(), right.ravel(), 2e-4)
        return [_RELATIONS["flat"].say(language)] if same else []
    if close(wrong, -right, 2e-4):
        return [_RELATIONS["negative"].say(language)]
    if np.isfinite(wrong).all() and np.isfinite(right).all():
        return _numeric_relation(wrong, right, case, language)
    return []


def _numeric_relation(wrong: Array, right: Array, case: Case, language: str) -> list[str]:
    used = np.abs(right) > 1e-6
    if used.any():
        factor = float(np.median(wrong[used] / right[used]))
        if abs(factor) > 1e-3 and close(wrong, right * factor, 2e-4):
            guess = _guess(factor, case, language)
            return [_RELATIONS["factor"].say(language, value=_number(factor), guess=guess)]
    offset = float(np.median(wrong - right))
    if close(wrong, right + offset, 2e-4):
        return [_RELATIONS["offset"].say(language, value=_number(offset))]
    if close(np.sort(wrong.ravel()), np.sort(right.ravel()), 2e-4):
        return [_RELATIONS["order"].say(language)]
    return []


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


# ---- the learner's variables on the way through the formula


def _matching(trace: Trace, value: Any, case: Case) -> tuple[dict[str, Any], Array] | None:
    """Return the first variable that holds the numbers of a stage, and is not an argument."""
    value = np.asarray(value)
    if value.size < 2 or np.ptp(np.nan_to_num(value.astype(float), posinf=1e9, neginf=-1e9)) == 0:
        return None
    if any(close(np.asarray(one), value, 2e-4) for one in case.arguments.values() if hasattr(one, "shape")):
        return None
    return next((record for record in trace if close(record[1], value, 2e-4, any_shape=True)), None)


def _way(exercise: Exercise, number: int, trace: Trace, language: str) -> list[str]:
    """Return how far the variables of the learner follow the formula, and what comes next."""
    case = exercise.cases[number]
    right = exercise.stages(case)
    reached: tuple[int, tuple[dict[str, Any], Array]] | None = None
    for place, step in enumerate(exercise.steps):
        if record := _matching(trace, right[step.name], case):
            reached = (place, record)
    if reached is None:
        return _known_stage(exercise, case, trace, 0, language)
    place, (record, _) = reached
    named = {"variable": _variable(record["name"], language), "line": record["line"]}
    if place + 1 == len(exercise.steps):
        return [_NOT_RETURNED.say(language, **named)]
    following = exercise.steps[place + 1]
    said = [_REACHED.say(language, **named, stage=exercise.steps[place].words.say(language))]
    if known := _known_stage(exercise, case, trace, place + 1, language):
        return said + known
    said.append(_NEXT.say(language, stage=following.words.say(language)))
    return said + _other_variable(trace, record, following, right, language)


def _other_variable(
    trace: Trace, record: dict[str, Any], step: Step, right: dict[str, Any], language: str
) -> list[str]:
    """Return what differs in the first later variable that has the shape of a stage."""
    value = np.asarray(right[step.name])
    start = next(i for i, (one, _) in enumerate(trace) if one is record)
    for other, array in trace[start + 1 :]:
        known = any(close(array, np.asarray(stage), 2e-4) for stage in right.values())
        if array.shape == value.shape and value.size > 1 and not known:
            values = _first_difference(step, array, value, language)
            variable = _variable(other["name"], language)
            return [_OTHER.say(language, variable=variable, line=other["line"], **values)]
    return []


def _known_stage(exercise: Exercise, case: Case, trace: Trace, start: int, language: str) -> list[str]:
    """Return the known mistake that a variable of the learner shows at some stage, if there is one."""
    right = exercise.stages(case)
    for mistake in exercise.mistakes:
        try:
            stages = exercise.stages(case, frozenset([mistake.name]))
        except ERRORS:
            continue
        for step in exercise.steps[start:]:
            wrong = stages[step.name]
            if step.name in mistake.replaces and not close(wrong, right[step.name], 2e-4):
                record = _matching(trace, wrong, case)
                # Another right stage may have the same numbers.
                if record and not any(close(record[1], stage, 2e-4) for stage in right.values()):
                    named = {"variable": _variable(record[0]["name"], language), "line": record[0]["line"]}
                    words = mistake.words.say(language)
                    return [_NAMED.say(language, **named, mistake=words), _MORE.say(language)]
    return []


def _variable(name: str, language: str) -> str:
    return Words("returned value", "返回值").say(language) if name == "return" else f"`{name}`"


def _stages_there(
    exercise: Exercise, number: int, last: Step, wrong: Array, right: Array, language: str
) -> list[str]:
    """Return the right numbers of the earlier stages in the row of the first difference."""
    if wrong.shape != right.shape or right.ndim == 0:
        return []
    place = _first_difference(last, wrong, right, language)["index"]
    row = tuple(int(i) for i in place.split(", "))[:-1]
    stages = exercise.stages(exercise.cases[number])
    lines = []
    for step in exercise.steps:
        value = np.asarray(stages[step.name])
        if step.name == last.name:
            break
        if (
            step.axes
            and value.ndim == len(row) + 1
            and all(i < n for i, n in zip(row, value.shape, strict=False))
        ):
            shown = ", ".join(_number(x) for x in value[row][:MOST_SHOWN])
            more = ", …" if value.shape[-1] > MOST_SHOWN else ""
            lines.append(f"  {step.words.say(language)}: {shown}{more}")
    return [_STAGES.say(language) + "\n" + "\n".join(lines)] if lines else []
