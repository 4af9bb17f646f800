"""Says where a result that no known mistake explains leaves the formula."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from regard.learn.diagnosis import Outcome, close, same
from regard.learn.exercise import Case, Exercise, Failure, Step
from regard.learn.failure_messages import shapes_of
from regard.learn.relations import Relation, common_forms, find_relation, show_number
from regard.learn.variables import Trace, first_difference, tell_variables
from regard.learn.words import Words

__all__ = ["tell_difference"]

Array = np.ndarray
# Numbers of a stage that are shown at most.
MOST_SHOWN = 8

_UNKNOWN = Words("No known mistake explains all your numbers.", "没有一种已知的错误能解释你的全部结果。")
_WITH = Words("With {arguments}, ", "参数为 {arguments} 时，")
_PLACE = Words(
    "{when}the first number that differs is {name}[{index}]{axes}: yours is {given}, right is {right}.",
    "{when}第一个不同的数是 {name}[{index}]{axes}：你的是 {given}，正确的是 {right}。",
)
_ONE_NUMBER = Words(
    "{when}your {name} is {given}, right is {right}.", "{when}你的 {name} 是 {given}，正确的是 {right}。"
)
_SHAPE = Words(
    "{when}the shape of your {name} is {given}. The right shape is {right}{axes}.",
    "{when}你的 {name} 的形状是 {given}。正确的形状是 {right}{axes}。",
)
_EARLIER = Words(
    "Your function returns an earlier stage of the formula: {stage}. The exercise asks for {asked}.",
    "你的函数返回的是公式中较早的一步：{stage}。本题要的是：{asked}。",
)
_ORDER = Words(
    "Your results are right, but in another order. Return {names}.",
    "你的结果是对的，但顺序不对。请返回 {names}。",
)
_STAGES = Words("The right numbers on the way to it:", "得到它的过程中，正确的数是：")


def tell_difference(
    exercise: Exercise,
    number: int,
    outcomes: Sequence[Outcome],
    trace_of: Callable[[int], Trace],
    language: str,
) -> list[str]:
    """Return what is said of a wrong result in the case of a number, as sentences.

    ``outcomes`` are those of all cases. ``trace_of`` returns the variables of the learner's function in a case.
    """
    earlier = _returned_stage(exercise, outcomes)
    if earlier:
        asked = exercise.told_steps[-1].words.say(language)
        return [_EARLIER.say(language, stage=earlier.words.say(language), asked=asked)]
    if _in_another_order(exercise, outcomes):
        return [_ORDER.say(language, names=", ".join(exercise.returns))]
    case, expected, given = exercise.cases[number], exercise.expected[number], outcomes[number]
    assert not isinstance(given, Failure)
    part = next(i for i, right in enumerate(expected) if not _is_right(exercise, given[i], right, i))
    step = next(one for one in exercise.told_steps if one.name == exercise.returns[part])
    wrong, right, share = np.asarray(given[part]), expected[part], exercise.tolerance(part)
    if exercise.any_shape:
        wrong, right = wrong.squeeze(), right.squeeze()
    arguments = shapes_of(case)
    when = _WITH.say(language, arguments=arguments) if arguments else ""
    said = [_UNKNOWN.say(language), _capital(_place(step, wrong, right, when, language, share))]
    relation = _relation(exercise, outcomes, part)
    said += [relation.say(case, language)] if relation else []
    others = [n for n in _wrong_cases(exercise, outcomes) if n != number]
    followed = tell_variables(exercise, [number, *others], trace_of, language)
    return said + (followed or _stages_there(exercise, number, step, wrong, right, language))


def _in_another_order(exercise: Exercise, outcomes: Sequence[Outcome]) -> bool:
    """Return whether the results of all cases are right in another order of the returned parts."""
    if len(exercise.returns) < 2:
        return False
    return any(
        all(
            not isinstance(given, Failure) and same(exercise, tuple(given[i] for i in order), right)
            for given, right in zip(outcomes, exercise.expected, strict=True)
        )
        for order in itertools.permutations(range(len(exercise.returns)))
    )


def _wrong_cases(exercise: Exercise, outcomes: Sequence[Outcome]) -> list[int]:
    """Return the numbers of the cases with a wrong result, without those in which the function failed."""
    pairs = enumerate(zip(outcomes, exercise.expected, strict=True))
    return [
        number
        for number, (given, right) in pairs
        if not isinstance(given, Failure) and not same(exercise, given, right)
    ]


def _returned_stage(exercise: Exercise, outcomes: Sequence[Outcome]) -> Step | None:
    """Return the earlier stage whose right numbers the function returns in every case, if there is one."""
    if len(exercise.returns) > 1 or any(isinstance(given, Failure) for given in outcomes):
        return None
    stages = [exercise.told_stages(case) for case in exercise.cases]
    for step in exercise.told_steps[-2::-1]:
        pairs = zip(outcomes, stages, strict=True)
        if step.axes and all(
            close(given[0], np.asarray(right[step.name]), exercise.tolerance(0))
            for given, right in pairs
            if not isinstance(given, Failure)
        ):
            return step
    return None


def _relation(exercise: Exercise, outcomes: Sequence[Outcome], part: int) -> Relation | None:
    """Return the relation of the results to the right ones, if all wrong cases have one of the same kind.

    In a case whose axes have equal sizes, a relation may be a coincidence.
    """
    found: list[Relation | None] = []
    cases: list[Case] = []
    for case, given, expected in zip(exercise.cases, outcomes, exercise.expected, strict=True):
        if not isinstance(given, Failure) and not _is_right(exercise, given[part], expected[part], part):
            wrong, right = np.asarray(given[part]), expected[part]
            if exercise.any_shape:
                wrong, right = wrong.squeeze(), right.squeeze()
            found.append(find_relation(wrong, right, exercise.tolerance(part)))
            cases.append(case)
    kinds = {one.kind for one in found if one}
    # The factors of the rows are one factor in a case of one row.
    if kinds == {"factor", "row_factors"}:
        kinds = {"row_factors"}
    if len(kinds) != 1 or None in found:
        return None
    if kinds == {"factor"}:
        factors = [one.values["factor"] for one in found if one]
        return Relation("factor", {"factor": factors[0], "forms": common_forms(factors, cases)})
    return next(one for one in found if one and one.kind in kinds)


def _is_right(exercise: Exercise, given: Array, right: Array, part: int) -> bool:
    return close(given, right, exercise.tolerance(part), any_shape=exercise.any_shape)


def _capital(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]


def _place(step: Step, wrong: Array, right: Array, when: str, language: str, share: float) -> str:
    """Return where two results differ first, or that their shapes differ."""
    if wrong.shape != right.shape:
        axes = ", ".join(axis.say(language) for axis in step.axes) if len(step.axes) == right.ndim else ""
        shapes = {"given": wrong.shape, "right": right.shape, "axes": f" ({axes})" if axes else ""}
        return _SHAPE.say(language, when=when, name=step.name, **shapes)
    words = _PLACE if right.ndim else _ONE_NUMBER
    difference = first_difference(step, wrong, right, language, share)
    return words.say(language, when=when, name=step.name, **difference)


def _stages_there(
    exercise: Exercise, number: int, last: Step, wrong: Array, right: Array, language: str
) -> list[str]:
    """Return the right numbers of the earlier stages in the row of the first difference."""
    if wrong.shape != right.shape:
        return []
    share = exercise.tolerance(exercise.returns.index(last.name))
    place = first_difference(last, wrong, right, language, share)["index"]
    row = tuple(int(i) for i in place.split(", ") if i)[:-1]
    stages = exercise.told_stages(exercise.cases[number])
    lines = []
    for step in exercise.told_steps:
        value = np.asarray(stages[step.name])
        if step.name == last.name:
            break
        if (
            step.axes
            and value.ndim == len(row) + 1
            and all(i < n for i, n in zip(row, value.shape, strict=False))
        ):
            shown = ", ".join(show_number(x) for x in value[row][:MOST_SHOWN])
            more = ", …" if value.shape[-1] > MOST_SHOWN else ""
            lines.append(f"  {step.words.say(language)}: {shown}{more}")
    return [_STAGES.say(language) + "\n" + "\n".join(lines)] if lines else []
