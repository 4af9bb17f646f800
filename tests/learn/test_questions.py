"""Tests of the measurements that answer the three questions of tutorial 003."""

import numpy as np
import pytest

from regard.learn import questions
from regard.learn.questions import (
    HeadAverage,
    answer_questions,
    measure_heads,
    measure_scaling,
    measure_shuffling,
)


def test_scaling_keeps_the_softmax_soft_at_every_width():
    rows = measure_scaling([4, 64, 1024])
    for row in rows:
        assert row.deviation == pytest.approx(row.width**0.5, rel=0.2)
        assert row.largest_scaled == pytest.approx(rows[0].largest_scaled, abs=0.04)
        assert row.slope_scaled == pytest.approx(rows[0].slope_scaled, abs=0.04)
    assert rows[0].largest < rows[1].largest < rows[2].largest
    assert rows[2].largest > 0.9
    assert rows[2].slope < 0.1 < rows[0].slope


def test_shuffling_moves_self_attention_and_leaves_cross_attention():
    shuffled, back, word, target = measure_shuffling()
    assert shuffled.self_attention > 1
    assert shuffled.cross_attention == pytest.approx(0, abs=1e-12)
    assert back.self_attention == pytest.approx(0, abs=1e-12)
    assert min(word.self_attention, word.cross_attention) > 0.1
    assert (target.self_attention, target.cross_attention > 0.1) == (0, True)


def test_the_parts_of_a_row_are_sorted_by_place():
    # Three words and the end of the sentence.
    weights = np.array([[0.1, 0.2, 0.3, 0.4], [0.5, 0.1, 0.2, 0.2], [0.3, 0.4, 0.2, 0.1], [1, 0, 0, 0]])
    before, itself, after, end, elsewhere, rows = questions._parts(weights)
    assert before == pytest.approx(0.5 + 0.4)
    assert itself == pytest.approx(0.1 + 0.1 + 0.2)
    assert after == pytest.approx(0.2 + 0.2)
    assert end == pytest.approx(0.4 + 0.2 + 0.1)
    assert elsewhere == pytest.approx(0.3 + 0.3)
    assert rows == 3


EQUAL = HeadAverage(-1, -1, 0.1, 0.1, 0.1, 0.1, 0.6)
HEADS = [HeadAverage(0, 0, 0.5, 0.1, 0.1, 0.1, 0.2), HeadAverage(0, 1, 0.1, 0.1, 0.31, 0.1, 0.39)]


@pytest.mark.parametrize(
    ("language", "parts"),
    [
        (
            "en",
            [
                "1. Why",
                "2. What",
                "3. What",
                "0.50*",
                "0.31*",
                "1 heads look at the token before, 0 at the token itself",
            ],
        ),
        (
            "zh",
            [
                "1. 为什么",
                "2. 自注意力",
                "3. 多头",
                "0.50*",
                "1 个头看前一个词元，0 个看自身，1 个看后一个词元",
            ],
        ),
    ],
)
def test_the_answers_are_printed_in_both_languages(language, parts, monkeypatch):
    monkeypatch.setattr(questions, "measure_heads", lambda: (EQUAL, HEADS))
    said: list[str] = []
    answer_questions(language, said.append)
    text = "\n".join(said)
    for part in parts:
        assert part in text
    assert text.count("*") == 2


@pytest.mark.slow
def test_some_heads_of_the_translator_look_at_neighbours():
    equal, heads = measure_heads(8)
    assert len(heads) == 16
    for one in (equal, *heads):
        assert sum(one[2:]) == pytest.approx(1, abs=1e-4)
    assert sum(questions.is_clear(one, equal, "before") for one in heads) >= 3
    assert sum(questions.is_clear(one, equal, "after") for one in heads) >= 1
