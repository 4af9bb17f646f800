"""Follows the variables of a learner's function through the stages of the formula."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from regard.learn.diagnosis import close
from regard.learn.exercise import ERRORS, TOLERANCE, Case, Exercise, Mistake, Step
from regard.learn.relations import find_factor, forms_of, show_number, tell_form
from regard.learn.words import Words

__all__ = ["Trace", "first_difference", "tell_variables"]

Array = np.ndarray
Record = tuple[dict[str, Any], Array]
# The variables of a learner's function in order, each with its name, its line and its numbers.
Trace = Sequence[Record]

_REACHED = Words(
    "{stage}: right, your {variable} of line {line}.", "{stage}：正确，即第 {line} 行的 {variable}。"
)
_NOT_RETURNED = Words(
    "Your {variable} of line {line} is the right result, but something else is returned.",
    "第 {line} 行的 {variable} 就是正确的结果，但返回的是别的东西。",
)
_NEXT = Words("{stage}: in none of your variables.", "{stage}：不在你的任何变量中。")
_OTHER = Words(
    "Your {variable} of line {line} comes nearest. It has {given} at [{index}]{axes}, where {right} is right.",
    "最接近的是第 {line} 行的 {variable}，它在 [{index}]{axes} 处是 {given}，正确的是 {right}。",
)
_NAMED = Words(
    "Your {variable} of line {line} shows a known mistake: {mistake} After it there is another difference.",
    "第 {line} 行的 {variable} 显示出一个已知的错误：{mistake}在它之后还有另一处不同。",
)
_MULTIPLE = Words(
    "Your {variable} of line {line} is {factor} times {stage}{form}.",
    "第 {line} 行的 {variable} 等于 {factor} 倍的{stage}{form}。",
)
_OVERWRITTEN = Words("Then line {line} changes {variable}.", "之后第 {line} 行又改变了 {variable}。")
# First words of stages that are no names in code.
_FIRST_WORDS = {"the", "their", "its", "divided", "where", "distances", "both", "each", "sines"}
_RETURNED = Words("returned value", "返回值")


def first_difference(
    step: Step, wrong: Array, right: Array, language: str, share: float = TOLERANCE
) -> dict[str, str]:
    """Return the index of the first number that differs, the names of its axes, and both numbers.

    ``share`` is the tolerance of the numbers, as in `close`.
    """
    wrong, right = wrong.astype(float), right.astype(float)
    largest = max(1.0, np.abs(right[np.isfinite(right)]).max(initial=0.0))
    with np.errstate(invalid="ignore"):
        near = np.abs(wrong - right) <= share * largest
    same = near | (wrong == right) | (np.isnan(wrong) & np.isnan(right))
    places = np.argwhere(~same)
    index = tuple(int(i) for i in places[0]) if len(places) else (0,) * right.ndim
    named = zip(step.axes, index, strict=True) if len(step.axes) == len(index) else ()
    axes = ", ".join(f"{axis.say(language)} {i}" for axis, i in named)
    return {
        "index": ", ".join(map(str, index)),
        "axes": f" ({axes})" if axes else "",
        "given": show_number(wrong[index]),
        "right": show_number(right[index]),
    }


def tell_variables(
    exercise: Exercise, numbers: Sequence[int], trace_of: Callable[[int], Trace], language: str
) -> list[str]:
    """Return which stages of the formula the variables hold, and what is said of the first one that is missing.

    ``numbers`` are those of the cases with wrong results. The first is told, and another one confirms a known mistake.
    """
    case, trace = exercise.cases[numbers[0]], trace_of(numbers[0])
    right = exercise.told_stages(case)
    reached = {
        step.name: record
        for step in exercise.told_steps
        if (record := _matching(trace, right[step.name], case))
    }
    last = exercise.told_steps[-1]
    if last.name in reached:
        # A returned value of another shape is told with its shape.
        own_return = reached[last.name] is trace[-1] and trace[-1][0]["name"] == "return"
        return [] if own_return else [_tell(_NOT_RETURNED, reached[last.name], language)]
    known = _known_mistake(exercise, numbers, trace_of, language)
    if not reached and known:
        return known
    own = [record for record in trace if not _is_argument(record[1], case)]
    # A stage before a right one need not be a variable.
    covered = set(reached).union(*(exercise.sources[name] for name in reached))
    missing = next(
        step
        for step in exercise.told_steps
        if step.name not in covered and not _is_argument(right[step.name], case)
    )
    said = [
        _tell(_REACHED, reached[step.name], language, stage=_start(step, language))
        for step in exercise.told_steps
        if step.name in reached
    ]
    if known:
        return said + known
    later = _after(own, reached)
    multiple = _multiple(later, missing, case, right, language)
    if not reached:
        following = exercise.told_steps[exercise.told_steps.index(missing) + 1 :][:1] if multiple else ()
        return multiple + [_NEXT.say(language, stage=_start(step, language)) for step in following]
    said += _overwritten(trace, reached, right, language)
    said.append(_NEXT.say(language, stage=_start(missing, language)))
    # What the function returns is compared with the last stage only.
    returned = later[:-1] if later and later[-1] is trace[-1] and missing is not last else later
    return said + (multiple or _nearest(returned, missing, right, language))


def _after(trace: Trace, reached: dict[str, Record]) -> Trace:
    """Return the variables after the last one that holds a right stage."""
    last = max(
        (i for i, one in enumerate(trace) if any(one is other for other in reached.values())), default=-1
    )
    return trace[last + 1 :]


def _multiple(trace: Trace, step: Step, case: Case, right: dict[str, Any], language: str) -> list[str]:
    """Return that a variable is a multiple of a stage, if there is such a variable of several rows."""
    value = np.asarray(right[step.name]).astype(float)
    if value.ndim < 2 or min(value.shape) < 2:
        return []
    for record in trace:
        if record[1].shape == value.shape and np.isfinite(record[1]).all() and np.isfinite(value).all():
            factor = find_factor(record[1].astype(float), value)
            if factor is not None:
                form = tell_form(forms_of(factor, case, only_roots=True), case, language)
                values = {"factor": show_number(factor), "stage": step.words.say(language), "form": form}
                return [_tell(_MULTIPLE, record, language, **values)]
    return []


def _overwritten(trace: Trace, reached: dict[str, Record], right: dict[str, Any], language: str) -> list[str]:
    """Return that the variable of the last right stage got numbers of no stage afterwards, if it did."""
    last = list(reached.values())[-1]
    place = next(i for i, record in enumerate(trace) if record is last)
    for record in trace[place + 1 :]:
        if record[0]["name"] == last[0]["name"] != "return":
            known = any(
                close(record[1], np.asarray(stage), TOLERANCE, any_shape=True) for stage in right.values()
            )
            return [] if known else [_tell(_OVERWRITTEN, record, language)]
    return []


def _start(step: Step, language: str) -> str:
    """Return the name of a stage as the start of a sentence."""
    words = step.words.say(language)
    return words[0].upper() + words[1:] if words.split(" ")[0] in _FIRST_WORDS else words


def _matching(trace: Trace, value: Any, case: Case) -> Record | None:
    """Return the first variable that holds the numbers of a stage, and is not an argument."""
    value = np.asarray(value)
    if value.size < 2 or np.ptp(np.nan_to_num(value.astype(float), posinf=1e9, neginf=-1e9)) == 0:
        return None
    if _is_argument(value, case):
        return None
    return next((record for record in trace if close(record[1], value, TOLERANCE, any_shape=True)), None)


def _is_argument(value: Any, case: Case) -> bool:
    """Return whether a stage or a variable holds the numbers of an argument."""
    arguments = (one for one in case.arguments.values() if isinstance(one, np.ndarray))
    return any(close(one, value, TOLERANCE) for one in arguments)


def _tell(words: Words, record: Record, language: str, **values: Any) -> str:
    """Return a sentence on a variable, or on the returned value, and its line."""
    name, line = record[0]["name"], record[0]["line"]
    returned = _RETURNED.say(language)
    said = words.say(language, **values, line=line, variable=returned if name == "return" else f"`{name}`")
    # Chinese has a space around code, but not around words.
    return (
        said.replace(f" {returned} ", returned).replace(f" {returned}", returned)
        if language == "zh"
        else said
    )


def _nearest(trace: Trace, step: Step, right: dict[str, Any], language: str) -> list[str]:
    """Return what differs in the variable that comes nearest to a missing stage, if one is near to it."""
    value = np.asarray(right[step.name]).astype(float)
    stages = [one for one in (np.asarray(stage) for stage in right.values()) if one.shape == value.shape]
    best: tuple[float, Record] | None = None
    for record in trace:
        if record[1].shape != value.shape or value.size < 2 or not _is_near(record[1], value):
            continue
        distance = _distance(record[1], value)
        # A variable that is nearer to another stage is that stage.
        another = any(_distance(record[1], stage) < distance for stage in stages)
        if not another and (best is None or distance < best[0]):
            best = (distance, record)
    if best is None:
        return []
    difference = first_difference(step, best[1][1], value, language)
    return [_tell(_OTHER, best[1], language, **difference)]


def _distance(found: Array, value: Array) -> float:
    """Return the mean difference of two arrays of one shape, in which a difference to infinity counts as 1e9."""
    found, value = found.astype(float), value.astype(float)
    with np.errstate(invalid="ignore"):
        apart = np.where(found == value, 0.0, np.abs(found - value))
    return float(np.nan_to_num(apart, nan=1e9, posinf=1e9).mean())


def _is_near(found: Array, value: Array) -> bool:
    """Return whether half of the numbers are right, or all are nearer to the right ones than those are to their mean.

    A softmax is never near to a stage whose rows do not sum to 1, such as the scores.
    """
    if _sums_to_one(found) and not _sums_to_one(value):
        return False
    with np.errstate(invalid="ignore"):
        same = (found == value) | (np.abs(found - value) <= TOLERANCE)
    finite = value[np.isfinite(value)]
    spread = np.abs(finite - finite.mean()).mean() if finite.size else 0.0
    return bool(same.mean() >= 0.5) or _distance(found, value) < spread / 2


def _sums_to_one(value: Array) -> bool:
    return value.ndim > 0 and bool(np.all(value >= 0)) and bool(np.allclose(value.sum(-1), 1.0))


def _known_mistake(
    exercise: Exercise, numbers: Sequence[int], trace_of: Callable[[int], Trace], language: str
) -> list[str]:
    """Return the known mistake that a variable shows, in two cases if there are two with wrong results.

    In a single case it may be a coincidence, such as a division by 2 where 2 is the root of the width.
    """
    for mistake in exercise.mistakes:
        record = _shown_by(exercise, mistake, numbers[0], trace_of)
        if record and (len(numbers) < 2 or _shown_by(exercise, mistake, numbers[-1], trace_of)):
            return [_tell(_NAMED, record, language, mistake=mistake.words.say(language))]
    return []


def _shown_by(
    exercise: Exercise, mistake: Mistake, number: int, trace_of: Callable[[int], Trace]
) -> Record | None:
    """Return the variable that shows a mistake in the case of a number, if there is one.

    The variable has to hold a stage that follows from the mistake. The wrong stage itself is no evidence, since it may
    be an intermediate result of a right computation, such as the exponentials before they are divided by their sum.
    Places, token ids and masks are no evidence either, since few numbers may coincide.
    """
    case = exercise.cases[number]
    right = exercise.told_stages(case)
    try:
        stages = exercise.told_stages(case, frozenset([mistake.name]))
    except ERRORS:
        return None
    for step in _later_steps(exercise, mistake):
        wrong = stages[step.name]
        # A wrong stage may have the numbers of another stage that is right.
        other = not any(close(wrong, np.asarray(stage), TOLERANCE) for stage in right.values())
        if other and _is_distinctive(wrong) and not _is_part_of_argument(wrong, case):
            record = _matching(trace_of(number), wrong, case)
            if record:
                return record
    return None


def _later_steps(exercise: Exercise, mistake: Mistake) -> list[Step]:
    """Return the told steps that follow from a mistake, without those that it changes itself or through a choice."""
    wrong = mistake.replaces.keys()
    affected = [one for one in exercise.told_steps if wrong & (exercise.sources[one.name] | {one.name})]
    earlier = {one.name for one in affected}
    return [one for one in affected if one.name not in wrong and earlier & exercise.sources[one.name]]


def _is_part_of_argument(value: Any, case: Case) -> bool:
    """Return whether a stage holds only numbers of one argument, such as its first rows."""
    arguments = (one for one in case.arguments.values() if isinstance(one, np.ndarray))
    return any(bool(np.isin(value, one).all()) for one in arguments)


def _is_distinctive(value: Any) -> bool:
    """Return whether a stage has several numbers that no other computation gives by chance, such as whole ones."""
    numbers = np.asarray(value).astype(float).ravel()
    numbers = numbers[np.isfinite(numbers)]
    return len(np.unique(numbers[np.abs(numbers - numbers.round()) > TOLERANCE])) > 1
