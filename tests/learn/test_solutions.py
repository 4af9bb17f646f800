"""Tests that right solutions of any style are accepted, and that edited ones are diagnosed."""

import numpy as np
import pytest

from regard.learn.bank import EXERCISES
from regard.learn.child.__main__ import call
from regard.learn.child.results import outcome_of
from regard.learn.diagnosis import Outcome, explanations
from regard.learn.exercise import Exercise, Failure
from support.exercise_files import BY_NAME, check, write
from support.exercise_solutions import EDITS, HEAD, SOLUTIONS

SOURCES = [(name, number) for name, sources in SOLUTIONS.items() for number in range(len(sources))]


def function_of(exercise: Exercise, source: str):
    """Execute a solution in this process and return its function."""
    names: dict = {}
    exec(HEAD + source, names)
    return names[exercise.function]


def results(exercise: Exercise, function, dtype=np.float64) -> list[Outcome]:
    """The outcomes of all cases, as the checker reads them. ``dtype`` is that of the arguments with a point."""
    found: list[Outcome] = []
    for case in exercise.cases:
        arguments = case.copies()
        for name, value in arguments.items():
            if isinstance(value, np.ndarray) and value.dtype == np.float64:
                arguments[name] = value.astype(dtype)
        try:
            with np.errstate(all="ignore"):
                report, arrays = outcome_of(call(function, arguments), len(exercise.returns))
            found.append(tuple(arrays) if report["kind"] == "arrays" else Failure())
        except Exception:
            found.append(Failure())
    return found


def test_an_array_of_two_rows_counts_as_two_results():
    exercise = BY_NAME["beam_step"]

    def as_array(scores, log_probs, width):
        best = np.argsort(-(scores[:, None] + log_probs).ravel())[:width]
        return np.array(np.unravel_index(best, log_probs.shape))

    assert explanations(exercise, results(exercise, as_array)) == [frozenset()]
    # An array of two numbers is one result, and so is one of three rows.
    assert outcome_of(np.zeros(2), 2)[0] == {"kind": "parts", "type": "ndarray", "given": 1}
    assert outcome_of(np.zeros((3, 2)), 2)[0]["kind"] == "parts"


def test_every_exercise_has_solutions_in_two_styles_and_edits():
    assert set(SOLUTIONS) == set(BY_NAME)
    assert all(len(sources) >= 2 for sources in SOLUTIONS.values())
    assert {name for name, *_ in EDITS} == set(BY_NAME)
    assert len(EXERCISES) >= 20


@pytest.mark.parametrize(("name", "number"), SOURCES)
def test_unusual_styles_are_right(name, number):
    exercise = BY_NAME[name]
    function = function_of(exercise, SOLUTIONS[name][number])
    assert explanations(exercise, results(exercise, function)) == [frozenset()]


def as_lists(value):
    return [as_lists(part) for part in value] if isinstance(value, tuple) else np.asarray(value).tolist()


@pytest.mark.parametrize("name", SOLUTIONS)
def test_lists_float32_and_other_layouts_are_right(name):
    exercise = BY_NAME[name]
    function = function_of(exercise, SOLUTIONS[name][0])
    right = [frozenset()]
    assert explanations(exercise, results(exercise, lambda *args: as_lists(function(*args)))) == right
    assert explanations(exercise, results(exercise, function, np.float32)) == right
    parts = len(exercise.returns) > 1
    by_columns = lambda *args: function(*args) if parts else np.asarray(function(*args), order="F")  # noqa: E731
    assert explanations(exercise, results(exercise, by_columns)) == right


@pytest.mark.parametrize("name", SOLUTIONS)
def test_tensors_are_right(name):
    torch = pytest.importorskip("torch")
    exercise = BY_NAME[name]
    function = function_of(exercise, SOLUTIONS[name][0])

    def in_torch(*arguments):
        given = function(*arguments)
        tensors = (
            [torch.tensor(np.asarray(part), requires_grad=False) for part in given]
            if isinstance(given, tuple)
            else []
        )
        return tuple(tensors) or torch.tensor(np.asarray(given)).float().requires_grad_()

    assert explanations(exercise, results(exercise, in_torch)) == [frozenset()]


@pytest.mark.parametrize(("name", "old", "new", "mistakes"), EDITS)
def test_an_edited_solution_is_diagnosed(name, old, new, mistakes):
    exercise = BY_NAME[name]
    source = SOLUTIONS[name][0]
    assert source.count(old) == 1
    found = explanations(exercise, results(exercise, function_of(exercise, source.replace(old, new))))
    assert found == [frozenset(mistakes)]


@pytest.mark.slow
@pytest.mark.parametrize("name", SOLUTIONS)
def test_solutions_are_right_in_a_process_of_their_own(name, tmp_path):
    path = write(tmp_path, HEAD + SOLUTIONS[name][-1])
    verdict = check(name, path, language="zh")
    assert verdict.right, verdict.text
    assert BY_NAME[name].done.zh in verdict.text


TORCH = """
import torch
import torch.nn.functional as F

def multi_head_attention(x, W_q, W_k, W_v, W_o, num_heads):
    x, W_q, W_k, W_v, W_o = (torch.from_numpy(a).float() for a in (x, W_q, W_k, W_v, W_o))
    q, k, v = (F.linear(x, W).unflatten(-1, (num_heads, -1)).transpose(1, 2) for W in (W_q, W_k, W_v))
    return F.linear(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2), W_o)
"""


def test_a_file_in_torch_is_right_and_a_wrong_one_is_diagnosed(tmp_path):
    assert check("multi_head_attention", write(tmp_path, TORCH)).right
    wrong = TORCH.replace("F.linear(F.scaled", "(F.scaled").replace("flatten(-2), W_o)", "flatten(-2))")
    assert check("multi_head_attention", write(tmp_path, wrong)).mistakes == [frozenset({"no_output_matrix"})]


FORMS = {
    "generator": ("scores", "def scores(q, k):\n    return (q @ key / len(q) ** 0.5 for key in k)"),
    "yield": ("scores", "def scores(q, k):\n    for key in k:\n        yield q @ key / len(q) ** 0.5"),
    "map": ("scores", "def scores(q, k):\n    return map(lambda key: q @ key / len(q) ** 0.5, k)"),
    "fractions": (
        "scores",
        "from fractions import Fraction\n"
        "def scores(q, k):\n    return [Fraction(float(key @ q)) / Fraction(len(q) ** 0.5) for key in k]",
    ),
    "objects": ("scores", "def scores(q, k):\n    return (k @ q / len(q) ** 0.5).astype(object)"),
    "zip": (
        "beam_step",
        "def beam_step(scores, log_probs, width):\n"
        "    best = np.argsort(-(scores[:, None] + log_probs).ravel())[:width]\n"
        "    return zip(*(divmod(int(place), log_probs.shape[1]) for place in best))",
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_iterators_and_objects_of_right_numbers_are_right(form):
    name, source = FORMS[form]
    exercise = BY_NAME[name]
    assert explanations(exercise, results(exercise, function_of(exercise, source))) == [frozenset()]


def test_a_generator_without_end_is_told(tmp_path):
    source = "def scores(q, k):\n    while True:\n        yield 1.0\n"
    assert "more than a million numbers" in check("scores", write(tmp_path, source)).text
