"""Exercises, whose formula is a chain of steps and whose wrong solutions replace single steps.

A step computes one stage of the formula, such as the scores, from the arguments and the stages before it. A choice is a
step for one detail of a stage, such as the axis of a sum. A mistake has another computation for one or more steps. The
output of a wrong solution follows from its mistakes, so pairs of mistakes need no code of their own. Two mistakes
exclude each other if they are two answers to the same choice.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np

from regard.learn.words import Words

__all__ = ["Case", "Exercise", "Failure", "Mistake", "Step"]

Compute = Callable[[Any], Any]
# The errors that a wrong computation may raise, such as a product of matrices that do not fit.
ERRORS = (ValueError, IndexError, TypeError, ZeroDivisionError, OverflowError)

# How far a right number may be from the exact one, as a share of the largest number of the result or of 1. It is larger
# than the rounding of float32 and than a rounding to four digits after the point.
TOLERANCE = 2e-4


class Failure:
    """The outcome of a computation that raised an error."""

    def __repr__(self) -> str:
        return "Failure()"


@dataclass(frozen=True, eq=False)
class Mistake:
    """A named mistake.

    ``replaces`` has the wrong computation of each step that it changes, by the name of the step. ``words`` says what
    was done and how to think of it instead.
    """

    name: str
    words: Words
    replaces: Mapping[str, Compute]

    def excludes(self, other: Mistake) -> bool:
        """Return whether both mistakes change the same step or choice, so that they cannot be made together."""
        return bool(self.replaces.keys() & other.replaces.keys())


@dataclass(frozen=True, eq=False)
class Step:
    """One stage of a formula with its right computation.

    ``compute`` gets an object with the arguments and the earlier stages as attributes. ``words`` names the stage, and
    ``axes`` are the names of its axes, for the place of a number in it. A step with ``choice`` is a detail of the next
    stage, which learners are told nothing of. Its value may be anything, such as an axis or a function.
    """

    name: str
    words: Words
    compute: Compute
    axes: tuple[Words, ...] = ()
    choice: bool = False


@dataclass(frozen=True, eq=False)
class Case:
    """The arguments of one call, in order."""

    arguments: Mapping[str, Any]

    def copies(self) -> dict[str, Any]:
        """Return the arguments, with copies of the arrays."""
        return {name: np.copy(v) if isinstance(v, np.ndarray) else v for name, v in self.arguments.items()}


class _Watched(SimpleNamespace):
    """Arguments and stages that remember which of them were read."""

    def __init__(self, **values: Any):
        super().__init__(**values)
        self.read: set[str] = set()

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("__") and name != "read":
            self.read.add(name)
        return super().__getattribute__(name)


@dataclass(frozen=True, eq=False)
class Exercise:
    """A function to write, with its formula, its mistakes, its hidden cases and its texts.

    ``returns`` are the stages that the function returns, usually the last one. ``oracle`` computes the same from the
    arguments in another way, such as with `regard.reference`, and gives the expected results. ``tolerances`` has one
    entry for each returned stage. With ``any_shape``, axes of size 1 do not count, for results worked out by hand.
    ``alike`` replaces numbers of a learner's result that stand for the same thought by one of them, before the result
    is compared with mistakes. ``styles`` are other right computations of some steps, by their names. They give the same
    result, unless another step has a mistake.
    """

    name: str
    title: Words
    task: Words
    hint: Words
    done: Words
    function: str
    arguments: tuple[str, ...]
    steps: tuple[Step, ...]
    mistakes: tuple[Mistake, ...]
    make_cases: Callable[[np.random.Generator], list[Case]]
    returns: tuple[str, ...]
    oracle: Callable[..., Any] | None = None
    tolerances: tuple[float, ...] = ()
    any_shape: bool = False
    alike: Callable[[np.ndarray], np.ndarray] | None = None
    styles: tuple[Mapping[str, Compute], ...] = ()
    start: str = field(default="", repr=False)

    @cached_property
    def told_steps(self) -> tuple[Step, ...]:
        """The steps without the choices, which are those that a learner is told of."""
        return tuple(step for step in self.steps if not step.choice)

    @cached_property
    def cases(self) -> list[Case]:
        """The hidden cases, the same in every process."""
        return self.make_cases(np.random.default_rng([16, *self.name.encode()]))

    @cached_property
    def expected(self) -> list[tuple[np.ndarray, ...]]:
        """The right results of the cases."""
        if self.oracle is None:
            return [self._returned(self.stages(case)) for case in self.cases]
        results = [self.oracle(**case.copies()) for case in self.cases]
        return [
            tuple(np.asarray(part) for part in (result if len(self.returns) > 1 else (result,)))
            for result in results
        ]

    def tolerance(self, part: int) -> float:
        """Return the tolerance of one of the returned stages."""
        return self.tolerances[part] if self.tolerances else TOLERANCE

    def stages(
        self, case: Case, mistakes: frozenset[str] = frozenset(), style: Mapping[str, Compute] | None = None
    ) -> dict[str, Any]:
        """Return the stages of a case by name, computed with some mistakes. Errors of wrong steps are raised."""
        replaced: dict[str, Compute] = dict(style or {})
        for name in mistakes:
            replaced |= self._by_name[name].replaces
        values = SimpleNamespace(**case.copies())
        stages: dict[str, Any] = {}
        with np.errstate(all="ignore"):
            for step in self.steps:
                stages[step.name] = replaced.get(step.name, step.compute)(values)
                setattr(values, step.name, stages[step.name])
        return stages

    def told_stages(self, case: Case, mistakes: frozenset[str] = frozenset()) -> dict[str, Any]:
        """Return the stages without the choices."""
        stages = self.stages(case, mistakes)
        return {step.name: stages[step.name] for step in self.told_steps}

    @cached_property
    def sources(self) -> dict[str, set[str]]:
        """The stages that each stage is computed from, directly or through others."""
        values = _Watched(**self.cases[0].copies())
        found: dict[str, set[str]] = {}
        with np.errstate(all="ignore"):
            for step in self.steps:
                values.read.clear()
                result = step.compute(values)
                direct = values.read & found.keys()
                found[step.name] = direct.union(*(found[name] for name in direct))
                setattr(values, step.name, result)
        return found

    def outcome(
        self, case: int, mistakes: frozenset[str], style: int | None = None
    ) -> tuple[np.ndarray, ...] | Failure:
        """Return the results of a wrong solution in the case of a number, or a failure if it would raise an error.

        ``style`` is the number of another style.
        """
        key = (case, mistakes, style)
        if key not in self._outcomes:
            other = None if style is None else self.styles[style]
            try:
                self._outcomes[key] = self._returned(self.stages(self.cases[case], mistakes, other))
            except ERRORS:
                self._outcomes[key] = Failure()
        return self._outcomes[key]

    @cached_property
    def _outcomes(self) -> dict[tuple[int, frozenset[str], int | None], tuple[np.ndarray, ...] | Failure]:
        return {}

    def combinations(self, size: int) -> Iterator[frozenset[str]]:
        """Return the sets of mistakes of one size that can be made together."""
        for chosen in itertools.combinations(self.mistakes, size):
            if not any(a.excludes(b) for a, b in itertools.combinations(chosen, 2)):
                yield frozenset(mistake.name for mistake in chosen)

    def mistake(self, name: str) -> Mistake:
        """Return a mistake by its name."""
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, Mistake]:
        return {mistake.name: mistake for mistake in self.mistakes}

    def _returned(self, stages: Mapping[str, Any]) -> tuple[np.ndarray, ...]:
        return tuple(np.asarray(stages[name]) for name in self.returns)
