"""Tests of what is said of results that no known mistake explains."""

import numpy as np
import pytest

from regard.learn.exercise import Case
from regard.learn.relations import find_relation
from support.exercise_files import BY_NAME, check, in_both_languages, write

ATTENTION = """
import numpy as np

def simple_attention(Q, K, V):
    s = Q @ K.T
    s = s / np.sqrt(K.shape[-1])
    e = np.exp(s)
    w = e / e.sum(-1, keepdims=True)
    out = w @ V
    return out
"""


@pytest.mark.parametrize(
    ("old", "new", "english", "chinese"),
    [
        (
            "e / e.sum(-1, keepdims=True)",
            "np.round(e / e.sum(-1, keepdims=True), 1)",
            [
                "the first number that differs is output[0, 0] (query 0, feature 0): yours is",
                "The scores q @ k.T: right, your `s` of line 5.",
                "The scores divided by √d: right, your `s` of line 6.",
                "The weights: in none of your variables.",
                "Your `w` of line 8 comes nearest. It has 0.1 at [0, 0] (query 0, key 0), where 0.14",
            ],
            [
                "分数 q @ k.T：正确，即第 5 行的 `s`。",
                "权重：不在你的任何变量中。",
                "最接近的是第 8 行的 `w`",
            ],
        ),
        (
            "    out = w @ V",
            "    w = w.round(1)\n    out = w @ V",
            [
                "The weights: right, your `w` of line 8.\nThen line 9 changes `w`.\nThe output weights @ v: in none"
            ],
            ["之后第 9 行又改变了 `w`。"],
        ),
        (
            "    return out",
            "    return out * np.arange(1, 1 + out.shape[1])",
            ["Your `out` of line 9 is the right result, but something else is returned."],
            ["第 9 行的 `out` 就是正确的结果，但返回的是别的东西。"],
        ),
        (
            "out = w @ V",
            "out = 2 * (w @ V) + w[:, :1] * 0 + 1e-9",
            ["Every number is 2 times the right one", "The weights: right, your `w` of line 8."],
            ["每个数都是正确值的 2 倍"],
        ),
        (
            "/ np.sqrt(K.shape[-1])\n    e = np.exp(s)\n    w = e / e.sum(-1, keepdims=True)\n    out = w @ V",
            "\n    e = np.exp(s)\n    w = e / e.sum(-1, keepdims=True)\n    out = np.tanh(w @ V)",
            ["Your `w` of line 8 shows a known mistake: The scaling is missing."],
            ["第 8 行的 `w` 显示出一个已知的错误：缺少缩放。"],
        ),
        (
            "    w = e / e.sum(-1, keepdims=True)\n    out = w @ V",
            "    out = 3 * (e @ V)",
            ["Each row is a multiple of the right one, by", "The weights: in none of your variables."],
            ["每一行都是正确行的倍数"],
        ),
    ],
    ids=["rounded", "overwritten", "not returned", "doubled", "mistake and another", "rows"],
)
def test_the_place_in_the_formula_is_told(old, new, english, chinese, tmp_path):
    assert old in ATTENTION
    _, in_english, in_chinese = in_both_languages(
        "simple_attention", write(tmp_path, ATTENTION.replace(old, new))
    )
    assert "No known mistake explains all your numbers." in in_english
    for text, parts in ((in_english, english), (in_chinese, chinese)):
        for part in parts:
            assert part in text


@pytest.mark.parametrize(
    ("name", "source", "english", "chinese"),
    [
        (
            "simple_attention",
            ATTENTION.replace("return out", "return w"),
            "Your function returns an earlier stage of the formula: the weights. The exercise asks for the output "
            "weights @ v.",
            "你的函数返回的是公式中较早的一步：权重。本题要的是：输出 weights @ v。",
        ),
        (
            "masked_attention",
            """
            import numpy as np
            def masked_attention(q, k, v, mask):
                s = q @ k.T / np.sqrt(q.shape[0])
                e = np.exp(s) * mask
                return e / (e.sum(-1, keepdims=True) + 1e-9) @ v
            """,
            "Your `s` of line 4 is 0.57735 times the scores q @ k.T, which is 1/√3, and 3 is the size of an axis of "
            "q.\nThe scores divided by √d: in none of your variables.",
            "第 4 行的 `s` 等于 0.57735 倍的分数 q @ k.T（即 1/√3，3 是 q 的一个轴的大小）。",
        ),
        (
            "bilinear_scores",
            "def bilinear_scores(q, k, W):\n    return q @ W @ k.T / len(k) ** 0.5\n",
            # In the first case all sizes are 3. Only the number of keys fits in all cases.
            "Every number is 0.57735 times the right one, which is 1/√3, and 3 is the size of an axis of k.",
            "每个数都是正确值的 0.57735 倍（即 1/√3，3 是 k 的一个轴的大小）。",
        ),
    ],
    ids=["earlier stage", "wrong scale", "factor of all cases"],
)
def test_a_stage_or_its_multiple_is_told(name, source, english, chinese, tmp_path):
    _, in_english, in_chinese = in_both_languages(name, write(tmp_path, source))
    assert english in in_english
    assert chinese in in_chinese


def test_places_that_coincide_accuse_of_nothing(tmp_path):
    # The sorted places are those of another known mistake in the first case.
    source = """
    import numpy as np
    def beam_step(scores, log_probs, width):
        totals = (scores[:, None] + log_probs).ravel()
        best = np.argsort(-totals)[:width]
        best = np.sort(best)
        return best // log_probs.shape[1], best % log_probs.shape[1]
    """
    text = check("beam_step", write(tmp_path, source)).text
    assert "The numbers are right, but in another order." in text
    assert "Then line 6 changes `best`." in text
    assert "known mistake:" not in text


def test_a_mistake_that_a_variable_shows_in_one_case_only_is_not_named(tmp_path):
    # With a width of 4, as in the first case, a division by 2 is another one by the root of the width.
    source = ATTENTION.replace("s / np.sqrt(K.shape[-1])", "s / np.sqrt(K.shape[-1]) / 2")
    text = check("simple_attention", write(tmp_path, source)).text
    assert "The scores q @ k.T: right, your `s` of line 5." in text
    assert "known mistake:" not in text


def test_a_result_with_one_axis_too_many_is_told_by_its_shape(tmp_path):
    source = """
    import numpy as np
    def create_causal_mask(size):
        return np.triu(np.full((size, size), -np.inf), k=1)[None]
    """
    _, english, chinese = in_both_languages("causal_mask", write(tmp_path, source))
    assert "the shape of your mask is (1, 4, 4). The right shape is (4, 4) (query, key)." in english
    assert "The numbers are right, only the shape differs." in english
    assert "something else is returned" not in english
    assert "数值是对的，只是形状不同。" in chinese


def test_what_is_returned_is_not_compared_with_an_earlier_stage(tmp_path):
    # The weights are no variable, and the output has their shape in the first case.
    lines = ATTENTION[ATTENTION.index("    e = ") :]
    source = ATTENTION.replace(lines, "    return (np.exp(s) + 1) @ V\n")
    text = check("simple_attention", write(tmp_path, source)).text
    assert "The weights: in none of your variables." in text
    assert "returned value" not in text


def test_weights_are_never_compared_with_scores(tmp_path):
    source = """
    import numpy as np
    def self_attention(x, W_q, W_k, W_v):
        q, k, v = x @ W_q.T, x @ W_k.T, x @ W_v.T
        e = np.exp(np.sin(q @ k.T))
        w = e / e.sum(-1, keepdims=True)
        return w @ v
    """
    _, english, chinese = in_both_languages("self_attention", write(tmp_path, source))
    assert "The scores q @ k.T: in none of your variables." in english
    assert "comes nearest" not in english
    assert "最接近" not in chinese


def test_without_variables_the_right_numbers_on_the_way_are_shown(tmp_path):
    source = """
    import numpy as np
    def simple_attention(Q, K, V):
        return np.tanh(np.exp(Q @ K.T / Q.shape[1] ** 0.5) @ V)
    """
    text = check("simple_attention", write(tmp_path, source)).text
    exercise = BY_NAME["simple_attention"]
    stages = exercise.stages(exercise.cases[0])
    assert "The right numbers on the way to it:" in text
    for name, words in (("scores", "the scores q @ k.T"), ("weights", "the weights")):
        assert f"  {words}: " + ", ".join(f"{number:.5g}" for number in stages[name][0]) in text


def test_a_number_by_hand_is_told_without_an_index(tmp_path):
    source = "def weights_by_hand():\n    return [0.2312, 0.6285, 0.1402], 14.0\n"
    assert "Your output is 14, right is 15.584." in check("weights_by_hand", write(tmp_path, source)).text


def test_changed_arguments_are_mentioned(tmp_path):
    source = "import numpy as np\ndef scores(q, k):\n    q /= np.sqrt(len(q))\n    return k @ q\n"
    _, english, chinese = in_both_languages("scores", write(tmp_path, source))
    assert english.startswith("Right.")
    assert "your function changes its argument q in place" in english
    assert "原地修改了参数 q" in chinese


@pytest.mark.parametrize("returned", ["out, w", "w, out"])
def test_several_results_in_place_of_one_are_told(returned, tmp_path):
    source = ATTENTION.replace("return out", f"return {returned}")
    _, english, chinese = in_both_languages("simple_attention", write(tmp_path, source))
    assert "Your function returned 2 things. Return only the output weights @ v." in english
    assert "你的函数返回了 2 个结果。请只返回输出 weights @ v。" in chinese


def test_a_mistake_is_named_although_the_function_fails_in_another_case(tmp_path):
    source = """
    import numpy as np
    def sinusoidal_positions(length, width):
        table = np.zeros((length, width))
        angle = np.arange(1, length + 1)[:, None] / 10000 ** (np.arange(0, width, 2) / width)
        table[:, 0::2] = np.sin(angle)
        table[:, 1::2] = np.cos(angle)
        return table
    """
    _, english, chinese = in_both_languages("sinusoidal_positions", write(tmp_path, source))
    assert "The positions start at 1." in english
    assert "With length = 5, width = 7 your function raised ValueError in line 7" in english
    assert "Of an odd width, the columns 1::2 are one fewer than the columns 0::2." in english
    assert "宽度为奇数时，列 1::2 比列 0::2 少一列。" in chinese
    assert "位置从 1 开始了。" in chinese
    assert "你的函数发生了 ValueError（第 7 行" in chinese


RIGHT = np.array([[1.0, 2.0, 4.0], [-3.0, 5.0, 0.5]])


@pytest.mark.parametrize(
    ("wrong", "part"),
    [
        (-RIGHT, "wrong sign"),
        (RIGHT * np.sqrt(7), "2.6458 times the right one, which is √7, and 7 is the size of an axis of k"),
        (RIGHT + 0.25, "0.25 more"),
        (RIGHT[:, ::-1], "in another order"),
        ((RIGHT / 3).round(2) * 1.0, "rounded to 2 digits"),
        (np.trunc(RIGHT / 3 * 100) / 100, "cut off after 2 digits"),
        (RIGHT.T, "the axes are in the order (1, 0)"),
        (RIGHT.ravel(), "only the shape differs"),
        (RIGHT * [[2.0], [3.0]], "Each row is a multiple of the right one, by 2, 3."),
        (
            np.where(RIGHT > 4, np.nan, RIGHT),
            "contains NaN, which comes from 0 / 0, inf / inf, inf - inf or 0 * inf.",
        ),
    ],
)
def test_simple_relations_are_told(wrong, part):
    right = RIGHT / 3 if "digits" in part else RIGHT
    relation = find_relation(wrong, right)
    assert relation is not None
    assert part in relation.say(Case({"q": np.zeros((2, 3)), "k": np.zeros((7, 3))}), "en")


def test_no_relation_is_invented():
    assert find_relation(RIGHT**2, RIGHT) is None


def test_a_wrong_number_of_two_digits_is_not_called_rounded(tmp_path):
    source = "def weights_by_hand():\n    return [0.24, 0.62, 0.14], 15.58\n"
    _, english, chinese = in_both_languages("weights_by_hand", write(tmp_path, source))
    assert "yours is 0.24, right is 0.23122" in english
    assert "digits" not in english
    assert "小数点" not in chinese


def test_digits_that_are_cut_off_are_told_at_the_number_that_is_not_accepted(tmp_path):
    source = "def weights_by_hand():\n    return [0.23, 0.62, 0.14], 15.58\n"
    _, english, chinese = in_both_languages("weights_by_hand", write(tmp_path, source))
    assert "The first number that differs is weights[1]" in english
    assert "The numbers are right, but cut off after 2 digits after the point. Round them instead." in english
    assert "小数点后 2 位之后被直接截断了" in chinese


def test_percentages_are_a_hundred_times_the_right_numbers(tmp_path):
    source = "def worked_example():\n    return [40.11, 19.78, 40.11], [1604.4, 395.6]\n"
    text = check("worked_example", write(tmp_path, source)).text
    assert "Every number is 100 times the right one." in text


def test_a_relation_of_one_case_alone_is_not_told(tmp_path):
    # With 2 sequences, positions, heads and features, the numbers are right in another order of axes.
    source = """
    def split_heads(x, num_heads):
        b, n, m = x.shape
        return x.reshape(b, num_heads, m // num_heads, n).transpose(0, 1, 3, 2)
    """
    text = check("split_heads", write(tmp_path, source)).text
    assert "the first number that differs is heads[0, 0, 0, 1]" in text
    assert "axes are in the order" not in text
