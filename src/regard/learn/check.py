"""Checks the file of a learner and says what is right or what went wrong."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regard.errors import FileError
from regard.learn.diagnosis import Outcome, explanations, same
from regard.learn.differences import tell_difference
from regard.learn.exercise import Exercise, Failure
from regard.learn.failure_messages import tell_result, tell_trouble
from regard.learn.runner import Limits, Result, Run, run_file, trace_file
from regard.learn.unfilled import tell_empty_helpers, tell_unfilled
from regard.learn.variables import Trace
from regard.learn.words import Words

__all__ = ["Verdict", "check_file", "judge"]

# Lines of a file's own output that are shown, those of a file that printed without end, and characters of a line.
MOST_LINES, MOST_ENDLESS_LINES, LONGEST_LINE = 12, 2, 100
# Control characters of a file's own output could change the terminal.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

_RIGHT = Words("Right.", "正确。")
_NOT_YET = Words("Not yet.", "还不对。")
_ONE_OF = Words("Your numbers fit each of these mistakes:", "你的结果与下面每一种错误都相符：")
_ALL_OF = Words("Two mistakes together give your numbers:", "下面两个错误合在一起得到你的结果：")
_ARGUMENT = Words("Your function returns its argument {name} unchanged.", "你的函数原样返回了参数 {name}。")
_AND = Words("{first} Together with: {second}", "{first}同时：{second}")
_CHANGED = Words(
    "One note: your function changes its argument {names} in place, so the caller's array is different afterwards.",
    "提示：你的函数原地修改了参数 {names}，调用者的数组也随之改变。",
)
_PRINTED = Words("Your file printed:", "你的文件打印了：")
# Kinds of results that stop the check like a file that cannot be run.
_TROUBLES = ("memory", "missing", "exit", "time")


@dataclass(frozen=True)
class Verdict:
    """The outcome of a check.

    ``mistakes`` has the sets of mistakes that explain the results, of which each is as likely as the others. It is
    empty if nothing known explains them. ``text`` is what the learner is told.
    """

    right: bool
    mistakes: list[frozenset[str]]
    text: str


def check_file(
    exercise: Exercise, path: str | os.PathLike[str], *, language: str = "en", limits: Limits | None = None
) -> Verdict:
    """Run a file against the hidden cases of an exercise, in a process of its own, and return the verdict.

    The file is only read. Raises FileError if it cannot be read.
    """
    path, limits = Path(path), limits or Limits()
    return judge(exercise, path, run_file(path, exercise, limits), language, limits)


def judge(exercise: Exercise, path: Path, run: Run, language: str, limits: Limits) -> Verdict:
    """Return the verdict on a run of a file. If nothing known explains its results, the file is run once more."""
    source = _lines(path)
    trouble = run.trouble or next(
        (one.report for one in run.results if one.report["kind"] in _TROUBLES), None
    )
    if trouble:
        told = tell_trouble(trouble, exercise, source, language, limits)
        return _verdict(False, [], [_NOT_YET.say(language), told], run, language)
    outcomes = [_outcome(one) for one in run.results]
    found = explanations(exercise, outcomes)
    if found == [frozenset()]:
        return _verdict(True, found, [_RIGHT.say(language), *_notes(run, exercise, language)], run, language)
    if unfilled := tell_unfilled(exercise, run, source, language):
        return _verdict(False, [], unfilled, run, language)
    returned = _returned_argument(exercise, outcomes)
    if returned and [len(one) for one in found] != [1]:
        said = [_ARGUMENT.say(language, name=returned)]
    elif found:
        said = _mistakes_in_words(exercise, found, language)
    else:
        said = _unexplained(exercise, path, run, outcomes, source, language, limits)
        said += tell_empty_helpers(exercise, source, language)
    return _verdict(False, found, [_NOT_YET.say(language), *said], run, language)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or error}", argument="check") from error


def _outcome(result: Result) -> Outcome:
    return result.arrays if result.report["kind"] == "arrays" else Failure()


def _verdict(
    right: bool, mistakes: list[frozenset[str]], said: Sequence[str], run: Run, language: str
) -> Verdict:
    """Return a verdict whose text has what is said and what the file printed."""
    lines = run.printed.splitlines()
    most = MOST_ENDLESS_LINES if run.trouble and run.trouble["kind"] == "output" else MOST_LINES
    shown = [_CONTROL.sub("\N{REPLACEMENT CHARACTER}", _cut(line)) for line in lines[:most]]
    shown += ["…"] if len(lines) > most else []
    if any(line.strip() for line in shown):
        said = [*said, "\n".join([_PRINTED.say(language), *(f"  {line}" for line in shown)])]
    return Verdict(right, mistakes, "\n".join(said))


def _cut(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else line[:LONGEST_LINE] + "…"


def _notes(run: Run, exercise: Exercise, language: str) -> list[str]:
    """Return what is said of a right answer."""
    changed = sorted({name for one in run.results for name in one.report["changed"]})
    notes = [_CHANGED.say(language, names=", ".join(changed))] if changed else []
    return [exercise.done.say(language), *notes]


def _mistakes_in_words(exercise: Exercise, found: Sequence[frozenset[str]], language: str) -> list[str]:
    """Return the mistakes that explain the results, in words."""
    order = [mistake.name for mistake in exercise.mistakes]
    sets = [
        [exercise.mistake(name).words.say(language) for name in sorted(one, key=order.index)] for one in found
    ]
    if len(sets) == 1:
        (words,) = sets
        return words if len(words) == 1 else [_ALL_OF.say(language), *(f"- {one}" for one in words)]
    told = [
        one[0] if len(one) == 1 else _AND.say(language, first=f"{one[0]} ", second=one[1]) for one in sets
    ]
    return [_ONE_OF.say(language), *(f"- {one}" for one in told)]


def _returned_argument(exercise: Exercise, outcomes: Sequence[Outcome]) -> str | None:
    """Return the name of the argument that the function returns unchanged in every case, or None."""
    for name, first in exercise.cases[0].arguments.items():
        if np.ndim(first) and all(
            not isinstance(given, Failure)
            and len(given) == 1
            and np.array_equal(given[0], case.arguments[name], equal_nan=True)
            for case, given in zip(exercise.cases, outcomes, strict=True)
        ):
            return name
    return None


def _unexplained(
    exercise: Exercise,
    path: Path,
    run: Run,
    outcomes: Sequence[Outcome],
    source: Sequence[str],
    language: str,
    limits: Limits,
) -> list[str]:
    """Return what is said of results that no known mistake explains."""
    wrong = [
        number
        for number, (given, right) in enumerate(zip(outcomes, exercise.expected, strict=True))
        if not same(exercise, given, right)
    ]
    # A wrong number tells more than an error, unless the first case already fails.
    number = next((n for n in wrong if not isinstance(outcomes[n], Failure)), wrong[0])
    if isinstance(outcomes[wrong[0]], Failure):
        number = wrong[0]
    if told := _too_many_results(exercise, run, source, language):
        return told
    failed = next((n for n in wrong if isinstance(outcomes[n], Failure)), None)
    if failed is not None:
        report = run.results[failed].report
        told = [tell_result(report, exercise.cases[failed], exercise, source, language)]
        # The cases that did not fail may show a mistake.
        found = explanations(exercise, outcomes, leave_failures=True)
        if found:
            return [*_mistakes_in_words(exercise, found, language), *told]
        if failed == number:
            return told
    traces: dict[int, Trace] = {}

    def trace_of(case: int) -> Trace:
        if case not in traces:
            traces[case] = trace_file(path, exercise, case, limits).trace
        return traces[case]

    return tell_difference(exercise, number, outcomes, trace_of, language)


def _too_many_results(exercise: Exercise, run: Run, source: Sequence[str], language: str) -> list[str]:
    """Return that only one result is asked for, if the function returned several, of which one is right."""
    number, report, arrays = next(
        (
            (n, one.report, one.arrays)
            for n, one in enumerate(run.results)
            if one.report.get("type") == "tuple"
        ),
        (0, {}, ()),
    )
    if len(exercise.returns) > 1 or not arrays:
        return []
    parts = arrays if report["kind"] == "tuple" else arrays[0]
    if not any(same(exercise, (np.asarray(part),), exercise.expected[number]) for part in parts):
        return []
    told = {**report, "kind": "tuple", "given": len(parts)}
    return [tell_result(told, exercise.cases[number], exercise, source, language)]
