"""Tests of two mistakes that are made together."""

import itertools

import pytest

from regard.learn.bank import EXERCISES
from regard.learn.diagnosis import explanations, same
from regard.learn.exercise import Exercise, Failure
from support.exercise_files import check, write

EVERY = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.name)

# Files with two mistakes in one line or in one stage of the formula.
FILES = {
    "next_token_loss": (
        """
        import numpy as np
        def next_token_loss(logits, tokens):
            p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
            return sum(np.log(p[i, tokens[i + 1]]) for i in range(len(tokens) - 1))
        """,
        {"summed", "sign"},
    ),
    "rotary_positions": (
        """
        import numpy as np
        def rotary(x):
            n, d = x.shape
            t = -np.arange(1, n + 1)[:, None] / 10000 ** (np.arange(0, d, 2) / d)
            out = np.empty_like(x)
            out[:, 0::2] = x[:, 0::2] * np.cos(t) - x[:, 1::2] * np.sin(t)
            out[:, 1::2] = x[:, 0::2] * np.sin(t) + x[:, 1::2] * np.cos(t)
            return out
        """,
        {"from_one", "backwards"},
    ),
    "simple_attention": (
        """
        import numpy as np
        def simple_attention(Q, K, V):
            s = Q @ K.T / np.sqrt(K.shape[-1])
            w = 2.0**s / (2.0**s).sum(0)
            return w @ V
        """,
        {"base_two", "over_queries"},
    ),
    "layer_norm": (
        """
        def layer_norm(x, gain, bias, eps):
            return (x - x.mean(-1, keepdims=True)) / (x.var(-1, keepdims=True) + eps) ** 0.5
        """,
        {"no_gain", "no_bias"},
    ),
}


def outcomes(exercise: Exercise, *mistakes: str) -> list:
    return [exercise.outcome(case, frozenset(mistakes)) for case in range(len(exercise.cases))]


@pytest.mark.parametrize("name", FILES)
def test_two_mistakes_in_one_stage_are_both_named(name, tmp_path):
    source, mistakes = FILES[name]
    assert check(name, write(tmp_path, source)).mistakes == [frozenset(mistakes)]


def pairs(exercise: Exercise) -> list[tuple[str, str]]:
    return list(itertools.combinations([mistake.name for mistake in exercise.mistakes], 2))


@EVERY
def test_every_pair_of_mistakes_is_diagnosed(exercise):
    """The pair is named, perhaps beside others with the same results, or a single mistake with the same results."""
    for pair in exercise.combinations(2):
        given = outcomes(exercise, *pair)
        found = explanations(exercise, given)
        compared = list(zip(given, exercise.expected, strict=True))
        if all(isinstance(one, Failure) or same(exercise, one, right) for one, right in compared):
            # The mistakes cancel, or every call fails.
            assert found in ([], [frozenset()]), pair
            continue
        assert pair in found or (found and len(found[0]) == 1), pair
        for names in found:
            assert all(map(same, [exercise] * len(given), given, outcomes(exercise, *names)))


@EVERY
def test_most_pairs_are_told_apart_from_all_others(exercise):
    """Pairs with the results of a single mistake do not count, since one of them hides the other."""
    found = [explanations(exercise, outcomes(exercise, *pair)) for pair in exercise.combinations(2)]
    named = [sets for sets in found if sets and len(sets[0]) == 2]
    assert sum(len(sets) == 1 for sets in named) >= 0.6 * len(named)
