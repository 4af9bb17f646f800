"""Tests of how results are matched with mistakes."""

import numpy as np
import pytest

from regard.learn.diagnosis import close, explanations
from regard.learn.exercise import Case, Exercise, Failure, Mistake, Step
from regard.learn.words import Words, choose_language

WORDS = Words("words", "词")


def mistake(name: str, **replaces) -> Mistake:
    return Mistake(name, WORDS, replaces)


def failing(V):
    """A wrong step that fails in the second case only."""
    if len(V.x) == 3:
        raise ValueError
    return V.x.sum()


EXERCISE = Exercise(
    name="share",
    title=WORDS,
    task=WORDS,
    hint=WORDS,
    done=WORDS,
    function="share",
    arguments=("x",),
    steps=(
        Step("total", WORDS, lambda V: V.x.sum()),
        Step("scaled", WORDS, lambda V: V.total * 2),
        Step("moved", WORDS, lambda V: V.scaled + 1),
    ),
    mistakes=(
        mistake("mean", total=lambda V: V.x.mean()),
        mistake("no_scale", scaled=lambda V: V.total),
        mistake("half", scaled=lambda V: V.total),
        mistake("not_moved", moved=lambda V: V.scaled),
        mistake("twice", total=lambda V: V.x.sum() * 2),
        mistake("failing", total=failing),
        mistake("nothing", scaled=lambda V: 0 * V.total),
    ),
    make_cases=lambda rng: [Case({"x": np.arange(1.0, n)}) for n in (3, 4)],
    returns=("moved",),
)


def given(*mistakes: str) -> list:
    return [EXERCISE.outcome(case, frozenset(mistakes)) for case in range(2)]


def test_right_results_have_no_mistake():
    assert explanations(EXERCISE, given()) == [frozenset()]


def test_all_single_mistakes_that_fit_are_named():
    assert explanations(EXERCISE, given("no_scale")) == [frozenset({"no_scale"}), frozenset({"half"})]


def test_a_pair_is_named_if_no_single_mistake_fits():
    assert explanations(EXERCISE, given("mean", "not_moved")) == [frozenset({"mean", "not_moved"})]


def test_fewer_mistakes_are_preferred():
    # The mean in place of the total makes no difference after it.
    assert given("nothing", "mean") == given("nothing")
    assert explanations(EXERCISE, given("nothing")) == [frozenset({"nothing"})]


def test_two_mistakes_that_cancel_are_right():
    # Twice the total without the scaling is the right number.
    assert explanations(EXERCISE, given("twice", "no_scale")) == [frozenset()]


def test_two_mistakes_in_one_step_are_no_pair():
    assert frozenset({"mean", "twice"}) not in list(EXERCISE.combinations(2))
    assert frozenset({"mean", "no_scale"}) in list(EXERCISE.combinations(2))


def test_failures_alone_accuse_of_nothing():
    right = EXERCISE.expected[0]
    assert isinstance(EXERCISE.outcome(1, frozenset({"failing"})), Failure)
    assert explanations(EXERCISE, [right, Failure()]) == []
    assert explanations(EXERCISE, [Failure(), Failure()]) == []


def test_a_failure_counts_together_with_a_wrong_number():
    assert explanations(EXERCISE, given("failing", "not_moved")) == [frozenset({"failing", "not_moved"})]


def test_unknown_numbers_have_no_explanation():
    assert explanations(EXERCISE, [(np.array(17.0),), (np.array(18.0),)]) == []


def test_the_sources_of_a_stage_are_known():
    assert EXERCISE.sources == {"total": set(), "scaled": {"total"}, "moved": {"total", "scaled"}}


@pytest.mark.parametrize(
    ("given", "right", "options", "expected"),
    [
        ([1.0, 2.0], [1.0001, 2.0], {}, True),
        ([1.0, 2.0], [1.01, 2.0], {}, False),
        ([100.0], [100.01], {}, True),
        ([np.nan, -np.inf], [np.nan, -np.inf], {}, True),
        ([np.nan, 0.0], [0.0, np.nan], {}, False),
        ([np.inf], [-np.inf], {}, False),
        ([-1e9], [-np.inf], {}, False),
        ([[1.0, 2.0]], [1.0, 2.0], {}, False),
        ([[1.0, 2.0]], [1.0, 2.0], {"any_shape": True}, True),
        ([[3.0]], 3.0, {}, True),
        ([True, False], [1.0, 0.0], {}, True),
    ],
)
def test_numbers_are_close(given, right, options, expected):
    assert close(np.array(given), np.array(right), 2e-4, **options) is expected


def test_half_precision_may_differ_more():
    right = np.linspace(0, 1, 7)
    assert close(right.astype(np.float16), right, 2e-4)
    assert not close((right + 0.05).astype(np.float16), right, 2e-4)


@pytest.mark.parametrize(
    ("environment", "language"),
    [
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_TW"}, "zh"),
        ({"LC_ALL": "C", "LANG": "zh_CN.UTF-8"}, "en"),
        ({"LANGUAGE": "zh_CN:en", "LANG": "en_US.UTF-8"}, "zh"),
        ({"LC_ALL": "", "LC_MESSAGES": "zh_CN", "LANG": "C"}, "zh"),
        ({}, "en"),
    ],
)
def test_the_language_is_that_of_the_locale(environment, language):
    assert choose_language(None, environment) == language
    assert choose_language("zh", environment) == "zh"
