"""Tests of every exercise: its formula, its mistakes and its texts."""

import ast
import string

import numpy as np
import pytest

from regard.learn.bank import EXERCISES
from regard.learn.diagnosis import close, explanations, is_right
from regard.learn.exercise import Exercise, Failure
from regard.learn.files import text_to_fill_in

EVERY = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.name)
# A mistake has to change a result by this many tolerances, so that rounding hides none.
CLEARLY = 5.0


def outcomes(exercise: Exercise, *mistakes: str) -> list:
    return [exercise.outcome(case, frozenset(mistakes)) for case in range(len(exercise.cases))]


def differs_clearly(exercise: Exercise, given, right) -> bool:
    if isinstance(given, Failure):
        return False
    shares = [CLEARLY * exercise.tolerance(part) for part in range(len(right))]
    return not all(
        close(one, other, share, any_shape=exercise.any_shape)
        for one, other, share in zip(given, right, shares, strict=True)
    )


def test_there_are_enough_exercises_with_names_of_their_own():
    names = [exercise.name for exercise in EXERCISES]
    assert len(names) == len(set(names))
    assert {"worked_example", "weights_by_hand", "simple_attention"} <= set(names)


@EVERY
def test_the_formula_without_mistakes_is_the_oracle(exercise):
    assert is_right(exercise, outcomes(exercise))
    assert len(exercise.cases) >= (3 if exercise.arguments else 1)
    for case in exercise.cases:
        assert tuple(case.arguments) == exercise.arguments


@EVERY
def test_there_are_ten_mistakes_and_each_is_diagnosed_by_name(exercise):
    assert len({mistake.name for mistake in exercise.mistakes}) == len(exercise.mistakes) >= 10
    for mistake in exercise.mistakes:
        given = outcomes(exercise, mistake.name)
        assert explanations(exercise, given) == [frozenset([mistake.name])]
        pairs = zip(given, exercise.expected, strict=True)
        assert any(differs_clearly(exercise, one, right) for one, right in pairs), mistake.name


@EVERY
def test_the_texts_are_there_in_both_languages(exercise):
    steps, mistakes = exercise.steps, exercise.mistakes
    texts = [exercise.title, exercise.task, exercise.hint, exercise.done, *(one.words for one in mistakes)]
    for words in texts:
        assert words.en.isascii() or not any("\u4e00" <= letter <= "\u9fff" for letter in words.en)
        assert any("\u4e00" <= letter <= "\u9fff" for letter in words.zh), words
    # A message is a sentence and mentions no assertion.
    for words in (one.words for one in mistakes):
        assert words.en[-1] in string.punctuation
        assert words.zh[-1] in "。？）"
        assert "assert" not in words.en.lower()
    assert exercise.returns[-1] == steps[-1].name


# Sentences of a text in English and in Chinese that say what holds, and not more.
CLAIMS = [
    ("warmup", "task", "The result is an array of the same shape.", "结果是形状相同的数组"),
    ("softmax", "done", "underflows to 0", "下溢为 0"),
    ("pre_norm_block", "done", "a part of the gradient reaches the first layer", "梯度中有一部分"),
    (
        "masked_attention",
        "mask_added",
        "-inf where it is False, and 0 where it is True",
        "在 False 处加 -inf",
    ),
    ("masked_attention", "empty_rows_uniform", "replaced by one number", "换成同一个数"),
    ("causal_mask", "one_row_late", "row i has the mask of row i + 1", "第 i 行用的是第 i+1 行的掩码"),
]


@pytest.mark.parametrize(("name", "text", "english", "chinese"), CLAIMS)
def test_texts_claim_what_holds(name, text, english, chinese):
    (exercise,) = [one for one in EXERCISES if one.name == name]
    words = getattr(exercise, text) if text in ("task", "done") else exercise.mistake(text).words
    assert english in words.en
    assert chinese in words.zh


def test_an_exercise_on_masks_has_scores_further_apart_than_ten():
    (exercise,) = [one for one in EXERCISES if one.name == "masked_attention"]
    case = exercise.cases[-1]
    scaled, mask = exercise.stages(case)["scaled"], case.arguments["mask"]
    gap = np.where(mask, -np.inf, scaled).max(-1) - np.where(mask, scaled, -np.inf).max(-1)
    # A number such as -100, added to hidden scores, still hides them.
    assert np.all((gap > 10) & (gap < 50))


@EVERY
@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_file_to_fill_in_is_python_without_the_answer(exercise, language):
    text = text_to_fill_in(3, exercise, language, "my.py")
    tree = ast.parse(text)
    (function,) = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert function.name == exercise.function
    assert [argument.arg for argument in function.args.args] == list(exercise.arguments)
    assert exercise.task.say(language).splitlines()[0] in text
    assert "regard learn 3 --check my.py" in text


@EVERY
def test_the_other_styles_of_an_exercise_are_right(exercise):
    for style in range(len(exercise.styles)):
        assert is_right(
            exercise, [exercise.outcome(case, frozenset(), style) for case in range(len(exercise.cases))]
        )
