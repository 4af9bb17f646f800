"""ROUGE and its stemmer against stored numbers of ``rouge-score`` and values worked out by hand."""

import json
from pathlib import Path

import pytest

from regard.errors import ArgumentError
from regard.metrics import mean_rouge, rouge, rouge_words
from regard.metrics.porter import stem

STORED = json.loads(Path(__file__).with_name("rouge_score.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("stemmer", [False, True], ids=["plain", "stemmed"])
def test_scores_are_those_of_rouge_score(stemmer):
    assert len(STORED["cases"]) == 60
    for case in STORED["cases"]:
        found = rouge(case["output"], case["reference"], stemmer=stemmer)
        for name, numbers in case["stemmed" if stemmer else "plain"].items():
            score = found[name]
            assert [score.precision, score.recall, score.f1] == pytest.approx(numbers, abs=1e-9), case


def test_stems_are_those_of_nltk():
    assert len(STORED["stems"]) > 300
    assert {word: stem(word) for word in STORED["stems"]} == STORED["stems"]


def test_scores_are_those_computed_by_hand():
    # Common words: the, cat, sat, the. Common pairs: the cat, cat sat. Subsequence: the cat sat the.
    found = rouge("the cat sat the", "the cat sat on the mat")
    assert (found["rouge1"].precision, found["rouge1"].recall) == (4 / 4, 4 / 6)
    assert (found["rouge2"].precision, found["rouge2"].recall) == (2 / 3, 2 / 5)
    assert (found["rougeL"].precision, found["rougeL"].recall) == (4 / 4, 4 / 6)
    assert rouge("c b a", "a b c")["rougeL"].f1 == pytest.approx(1 / 3)


def test_words_are_letters_and_digits_in_lower_case():
    assert rouge_words("BERT-based (U.S.) naïve 猫 don't") == [
        "bert",
        "based",
        "u",
        "s",
        "na",
        "ve",
        "don",
        "t",
    ]
    # Words of three letters are not stemmed.
    assert rouge_words("uses was gases gas", stemmer=True) == ["use", "was", "gase", "gas"]


def test_the_mean_is_that_of_the_single_scores_in_percent():
    outputs, references = ["cats", "no"], ["cat", "yes"]
    assert mean_rouge(outputs, references) == {"rouge1": 50.0, "rouge2": 0.0, "rougeL": 50.0}
    assert mean_rouge(outputs, references, stemmer=False)["rouge1"] == 0.0


def test_texts_without_words_score_0():
    assert mean_rouge([""], ["a cat"])["rouge1"] == 0.0
    assert mean_rouge(["猫"], ["猫"])["rouge1"] == 0.0


@pytest.mark.parametrize(("outputs", "references"), [([], []), (["a"], ["a", "b"])])
def test_one_reference_for_each_output_is_needed(outputs, references):
    with pytest.raises(ArgumentError, match="references: expected one for each of"):
        mean_rouge(outputs, references)
