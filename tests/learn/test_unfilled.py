"""Tests of what is said of files in which nothing, or not everything, is filled in yet."""

import pytest

from regard.learn.bank import EXERCISES
from regard.learn.files import text_to_fill_in
from regard.learn.unfilled import empty_functions
from support.exercise_files import BY_NAME, check, in_both_languages, write

FIRST = ["softmax", "worked_example", "padding_mask", "beam_step"]


@pytest.mark.parametrize("name", FIRST)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_an_untouched_file_is_told_that_nothing_is_filled_in(name, language, tmp_path):
    number = list(BY_NAME).index(name) + 1
    path = write(tmp_path, text_to_fill_in(number, BY_NAME[name], language, "my.py"))
    verdict = check(name, path, language=language)
    assert not verdict.right
    assert verdict.mistakes == []
    starts = {"en": "Nothing is filled in yet: ", "zh": "还没有填写："}
    assert verdict.text.startswith(starts[language])
    assert verdict.text.endswith(f"regard learn {name} --hint")


def test_the_function_of_every_template_without_numbers_is_empty():
    for number, exercise in enumerate(EXERCISES, start=1):
        empty = empty_functions(text_to_fill_in(number, exercise, "en", "my.py"))
        assert empty == ([] if exercise.start else [exercise.function])


@pytest.mark.parametrize(
    "body", ["pass", "return", "return None", '"""Softmax."""', "raise NotImplementedError", "return ..."]
)
def test_a_function_without_code_is_not_filled_in(body, tmp_path):
    text = check("softmax", write(tmp_path, f"def softmax(x):\n    {body}\n")).text
    assert text.startswith("Nothing is filled in yet: softmax has no code.")


def test_a_function_that_computes_and_returns_nothing_is_filled_in(tmp_path):
    text = check("softmax", write(tmp_path, "def softmax(x):\n    weights = x / x.sum()\n")).text
    assert text.startswith("Not yet.\nYour function returned None")


def test_only_the_numbers_that_are_missing_are_told(tmp_path):
    source = (
        "def worked_example():\n    weights = [0.4, 0.2, 0.4]\n    output = []\n    return weights, output\n"
    )
    _, english, chinese = in_both_languages("worked_example", write(tmp_path, source))
    assert english.startswith("output is not filled in yet.")
    assert chinese.startswith("output 还没有填写。")


def test_a_helper_without_code_is_told_beside_the_error(tmp_path):
    source = """
    def soft(x):
        ...
    def simple_attention(Q, K, V):
        return soft(Q @ K.T / Q.shape[-1] ** 0.5) @ V
    """
    _, english, chinese = in_both_languages("simple_attention", write(tmp_path, source))
    assert "your function raised ValueError" in english
    assert "One note: soft has no code yet." in english
    assert "提示：soft 里还没有代码。" in chinese


def test_a_function_that_is_defined_again_counts_as_its_last_definition(tmp_path):
    source = (
        "def softmax(x):\n    ...\n\nimport numpy as np\nsoftmax = lambda x: np.exp(x) / np.exp(x).sum()\n"
    )
    assert "exp overflows" in check("softmax", write(tmp_path, source)).text
    assert empty_functions("def f():\n    ...\ndef f():\n    return 1\n") == []
    assert empty_functions("def f(:") == []
