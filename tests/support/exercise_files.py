"""Checks of exercise files written by a test."""

import functools
from pathlib import Path
from textwrap import dedent
from unittest import mock

import regard.learn.check
from regard.learn.bank import EXERCISES
from regard.learn.check import Verdict, judge
from regard.learn.exercise import Exercise
from regard.learn.runner import Limits, Run, run_file, trace_file

# Short limits, so that a file that never ends is told soon.
QUICK = Limits(cpu=0.5, wall=2.0, total=60.0)
BY_NAME: dict[str, Exercise] = {exercise.name: exercise for exercise in EXERCISES}


def write(folder: Path, source: str) -> Path:
    path = folder / "my.py"
    path.write_text(dedent(source), encoding="utf-8")
    return path


def check(name: str, path: Path, *, limits: Limits | None = None, language: str = "en") -> Verdict:
    """Run a file once and return the verdict."""
    limits = limits or Limits()
    return judge(BY_NAME[name], path, run_file(path, BY_NAME[name], limits), language, limits)


def in_both_languages(name: str, path: Path, limits: Limits | None = None) -> tuple[Run, str, str]:
    """Run a file once and return the run and what is said of it in English and in Chinese."""
    limits = limits or Limits()
    run = run_file(path, BY_NAME[name], limits)
    # The traced run of the first verdict serves the second one too.
    with mock.patch.object(regard.learn.check, "trace_file", functools.cache(trace_file)):
        english, chinese = (
            judge(BY_NAME[name], path, run, language, limits).text for language in ("en", "zh")
        )
    return run, english, chinese
