"""Tests of `explain`, the numbers of every step, the alignment of its tables, and escaped HTML."""

import dataclasses
import html.parser
import unicodedata

import numpy as np
import pytest

import regard.reference as ref

Q = [[1.0, 0.0]]
K = [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
V = [[10.0, 0.0], [0.0, 20.0], [30.0, 0.0]]


def columns(text):
    """Terminal columns, counted without the code under test."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def tables(text):
    """Return the tables of a printed explanation, each as a list of lines."""
    blocks = [block.splitlines()[1:] for block in text.split("\n\n")[1:]]
    return [block for block in blocks if block]


def test_every_step_holds_its_numbers():
    seen = ref.explain(Q, K, V, mask=[[True, True, False]])
    np.testing.assert_array_equal(seen.scores, [[1, 0, 1]])
    np.testing.assert_allclose(seen.scaled, [[0.5**0.5, 0, 0.5**0.5]])
    np.testing.assert_allclose(seen.masked, [[0.5**0.5, 0, -np.inf]])
    np.testing.assert_allclose(seen.weights.sum(), 1)
    output, weights = ref.scaled_dot_product_attention(Q, K, V, [[True, True, False]])
    np.testing.assert_array_equal(seen.weights, weights)
    np.testing.assert_array_equal(seen.output, output)
    np.testing.assert_array_equal(seen.k, K)


def test_print_shows_the_worked_example():
    text = str(ref.explain(Q, K, V))
    assert "0.4011  0.1978  0.4011" in text
    assert "16.0445  3.9555" in text
    assert "0.7071  0.0000  0.7071" in text
    assert repr(ref.explain(Q, K, V)) == text
    assert [line[:2] for line in text.splitlines() if line[:1].isdigit()] == ["1.", "2.", "3.", "4.", "5."]


@pytest.mark.parametrize(
    ("score", "params", "function"),
    [
        ("dot", {}, ref.dot_scores),
        ("bilinear", {"W": [[1.0, 2.0], [3.0, 4.0]]}, ref.bilinear_scores),
        ("additive", {"W_q": np.eye(2), "W_k": np.ones((2, 2)), "v": [1.0, 2.0]}, ref.additive_scores),
        ("additive", {"W_q": None, "W_k": np.eye(2), "v": [1.0, 2.0], "b": [0.1, 0.2]}, ref.additive_scores),
    ],
)
def test_explain_computes_each_score(score, params, function):
    seen = ref.explain(Q, K, V, score=score, params=params)
    np.testing.assert_array_equal(seen.scores, function(Q, K, **params))
    np.testing.assert_array_equal(seen.scaled, seen.scores)
    assert f"{score} attention" in str(seen)


def test_a_score_of_your_own_is_never_scaled_whatever_its_name():
    def scaled_dot(q, k):
        return 7 * ref.dot_scores(q, k)

    seen = ref.explain(Q, K, V, score=scaled_dot)
    np.testing.assert_array_equal(seen.scaled, [[7, 0, 7]])


def test_scale_is_taken_and_shown():
    seen = ref.explain(Q, K, V, scale=0.25)
    np.testing.assert_array_equal(seen.scaled, [[0.25, 0, 0.25]])
    assert "scaled = scores * 0.25" in str(seen)


def test_chinese_labels_line_up():
    seen = ref.explain(Q, K, V, query_tokens=["他"], key_tokens=["小明", "商店a", "x"])
    found = tables(str(seen))
    # Scores, scaled, weights, output; nothing was masked.
    assert len(found) == 4
    for block in found:
        assert len({columns(line) for line in block}) == 1, block
    # the end of every label is above the end of its number
    header, row = found[0]
    assert header.index("小明") + 2 + 2 == columns("他  1.0000")
    assert columns(header[: header.index("商店a") + 3]) == columns(row[: row.index("0.0000") + 6])


def test_combining_marks_take_no_column_and_line_breaks_are_escaped():
    seen = ref.explain(Q, K, V, query_tokens=["cafe\u0301"], key_tokens=["a\nb", "c\td", "\x1b[31m"])
    header, row = tables(str(seen))[0]
    assert "a\\nb" in header
    assert "c\\td" in header
    assert "\x1b" not in str(seen)
    # The accent counts for `columns`, not on the screen.
    assert columns(row) - 1 == columns(header)


def test_print_shows_minus_infinity_and_no_negative_zero():
    text = str(ref.explain([[-1e-9]], [[1.0], [0.0]], [[1.0], [2.0]], mask=[[True, False]], score="dot"))
    assert "-inf" in text
    assert "-0.0000" not in text


def test_batches_and_heads_have_a_table_each_and_many_are_cut():
    rng = np.random.default_rng(0)
    q, k = rng.normal(size=(2, 3, 5, 4)), rng.normal(size=(2, 3, 7, 4))
    text = str(ref.explain(q, k, k))
    assert text.count("\n[1, 2]\n") == 4
    assert "leading axes (2, 3)" in text
    many = str(ref.explain(np.ones((20, 1, 1)), np.ones((20, 1, 1)), np.ones((20, 1, 1))))
    assert "… and 12 more" in many


def test_a_long_table_is_cut_in_the_middle():
    x = np.eye(40)
    seen = ref.explain(x, x, x)
    lines = tables(str(seen))[0]
    assert len(lines) == 1 + 17
    assert len({columns(line) for line in lines}) == 1
    assert "q39" in lines[-1]
    assert "k20" not in lines[0]
    assert seen.weights.shape == (40, 40)  # the numbers themselves are all there


class Reader(html.parser.HTMLParser):
    """Collects the tags and the text of a page."""

    def __init__(self):
        super().__init__()
        self.tags, self.texts = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.texts.append(data)


def test_html_shows_the_same_numbers_and_escapes_labels():
    evil = "<script>alert('x')</script>"
    page = ref.explain(Q, K, V, query_tokens=[evil], key_tokens=["a&b", '"', evil])._repr_html_()
    reader = Reader()
    reader.feed(page)
    assert "script" not in reader.tags
    assert evil in reader.texts
    assert "a&b" in reader.texts
    assert {"0.4011", "0.1978", "16.0445", "3.9555"} <= set(reader.texts)
    assert reader.tags.count("table") == 4


def test_html_escapes_the_name_of_a_score_function():
    def score(q, k):
        return ref.dot_scores(q, k)

    score.__name__ = "<b>bold</b>"
    assert "<b>bold" not in ref.explain(Q, K, V, score=score)._repr_html_()


def test_an_explanation_is_a_frozen_value_apart_from_its_inputs():
    q = np.array(Q)
    seen = ref.explain(q, K, V)
    with pytest.raises(dataclasses.FrozenInstanceError):
        seen.scores = 0
    with pytest.raises(ValueError, match="read-only"):
        seen.weights[0, 0] = 1
    q[0, 0] = 99
    assert seen.q[0, 0] == 1
    assert q.flags.writeable


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"key_tokens": ["a", "b"]}, "key_tokens: 2 given, 3 in k"),
        ({"query_tokens": ["a", "b"]}, "query_tokens: 2 given, 1 in q"),
        ({"score": "cosine"}, "score: expected one of scaled_dot, dot, additive, bilinear or a function"),
        ({"score": "bilinear"}, "params: score 'bilinear' needs 'W'"),
        ({"score": "dot", "params": {"W": 1}}, "params: score 'dot' takes no 'W'"),
        ({"score": "dot", "scale": 2.0}, "scale: only score='scaled_dot' takes a scale"),
        ({"score": ref.dot_scores, "params": {"W": 1}}, "params: a function as score takes only q and k"),
    ],
)
def test_errors_name_the_argument(arguments, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011  the message is compared below
        ref.explain(Q, K, V, **arguments)
    assert str(caught.value).startswith(message)


def test_an_old_argument_name_is_answered_with_the_new_one():
    with pytest.raises(TypeError, match="'key_labels': use key_tokens="):
        ref.explain(Q, K, V, key_labels=["a", "b", "c"])
    with pytest.raises(TypeError, match="'colour'$"):
        ref.explain(Q, K, V, colour=1)
