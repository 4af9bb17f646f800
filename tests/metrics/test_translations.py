"""BLEU, chrF, BLEU by length and the alignment error rate, against values worked out by hand."""

import math
import sys

import pytest

from regard.errors import ArgumentError, MissingExtraError
from regard.metrics import alignment_error_rate, bleu, by_length, chrf


def test_bleu_is_that_computed_by_hand():
    # 1-grams 4/4, 2-grams 2/3, 3-grams 1/2, 4-grams 0/1, which sacrebleu smooths to 1/2 of one.
    found = bleu(["a b c e"], [["a b c d e"]])
    brevity = math.exp(1 - 5 / 4)
    assert found.score == pytest.approx(100 * brevity * (1 * 2 / 3 * 1 / 2 * 1 / 2) ** 0.25, abs=1e-6)
    assert "tok:13a" in found.signature
    assert "case:mixed" in found.signature


def test_bleu_takes_the_best_of_several_references():
    outputs = ["the cat sat on the mat", "no"]
    assert bleu(outputs, [["something else entirely here", "no"]]).score < 50
    assert (
        bleu(outputs, [["something else entirely here", "no"], ["the cat sat on the mat", None]]).score > 99.9
    )


def test_bleu_counts_chinese_by_characters():
    found = bleu(["猫坐在垫子上。"], [["猫坐在垫子上。"]], language="zh")
    assert found.score == pytest.approx(100)
    assert "tok:zh" in found.signature


def test_lowercase_ignores_case():
    assert bleu(["The Cat Sat Down"], [["the cat sat down"]]).score < 1
    assert bleu(["The Cat Sat Down"], [["the cat sat down"]], lowercase=True).score == pytest.approx(100)


def test_chrf_differs_from_bleu_and_is_whole_where_texts_agree():
    assert chrf(["chat"], [["chats"]]).score > 50
    assert chrf(["chat"], [["chat"]]).score == 100


def test_by_length_puts_each_sentence_in_one_row():
    outputs = ["a b c d", "w", "e f g h i", "x"]
    rows = by_length(outputs, [["a b c d", "z", "e f g h i", "x"]], [4, 1, 5, 9], [2, 5])
    assert [(name, count) for name, count, _ in rows] == [("1-2", 1), ("3-5", 2), ("6-", 1)]
    assert rows[1][2] == pytest.approx(100)


def test_the_alignment_error_rate_is_that_computed_by_hand():
    sure = [{(0, 0), (1, 1)}, {(0, 1)}]
    possible = [{(0, 0), (1, 1), (2, 2)}, {(0, 1), (1, 0)}]
    assert alignment_error_rate(sure, sure, possible) == 0
    # found 4 links: 2 sure right, 1 more possible right, 1 wrong; 3 sure links exist.
    found = [{(0, 0), (2, 2), (2, 0)}, {(0, 1)}]
    assert alignment_error_rate(found, sure, possible) == pytest.approx(1 - (2 + 3) / (4 + 3))
    assert alignment_error_rate([set(), set()], sure, possible) == 1


def test_wrong_input_is_refused():
    with pytest.raises(ArgumentError, match="references: 1 references for 2 outputs"):
        bleu(["a", "b"], [["a"]])
    with pytest.raises(ArgumentError, match="outputs: expected at least one sentence"):
        bleu([], [[]])
    with pytest.raises(ArgumentError, match="no links"):
        alignment_error_rate([set()], [set()], [set()])


def test_a_missing_sacrebleu_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(MissingExtraError, match=r"BLEU and chrF needs sacrebleu: .*\[text\]'"):
        bleu(["a"], [["a"]])
