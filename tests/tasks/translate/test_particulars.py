"""Tests of the share of names and numbers that arrive unchanged."""

from types import SimpleNamespace
from typing import Any

import pytest

from regard.errors import ArgumentError
from regard.tasks.translate.evaluation import evaluate_translators
from regard.tasks.translate.particulars import arrived, measure_particulars, sentences_of_test
from regard.tasks.translate.settings import TranslationEvaluationSettings


class Stub:
    """A translator whose translations a function makes."""

    source_language, target_language = "en", "fr"

    def __init__(self, make):
        self.make = make

    def translate(self, texts, _options=None) -> Any:
        return [SimpleNamespace(source=text, text=self.make(text)) for text in texts]


def test_a_translator_that_copies_has_all_and_one_that_is_silent_has_none():
    assert measure_particulars(Stub(lambda text: text), 100).share == 1
    assert measure_particulars(Stub(lambda _: "Bonjour."), 100).share == 0


def test_the_share_counts_each_particular_once():
    def without_digits(text):
        return "".join(sign for sign in text if not sign.isdigit())

    score = measure_particulars(Stub(without_digits), 300)
    assert score.right["names"] == score.total["names"] > 50
    assert score.right["prices"] == score.right["dates"] == 0
    groups = [group for group in score.total if "patterns" not in group]
    total = sum(score.total[group] for group in groups)
    assert total == score.total["new patterns"] + score.total["known patterns"]
    assert score.share == sum(score.right[group] for group in groups) / total
    assert score.to_json()["unchanged"] == score.share
    assert len(score.wrong) == total - sum(score.right[group] for group in groups)


@pytest.mark.parametrize(
    ("text", "output", "right"),
    [
        ("12", "J'ai 120 ans", False),
        ("12", "à 3:12", True),
        ("$5", "ça coûte $52", False),
        ("Ann", "C'est Anna.", False),
        ("Ann", "我叫Ann。", True),
        ("1", "le 1er mai", True),
        ("AB-12", "AB-12.", True),
    ],
)
def test_a_particular_is_no_part_of_a_longer_one(text, output, right):
    assert arrived(text, output) is right


def test_half_of_the_sentences_have_new_patterns():
    sentences = sentences_of_test(101)
    assert [kind for _, kind in sentences].count("new patterns") == 51
    assert len({one.pattern for one, kind in sentences if kind == "new patterns"}) > 10


def test_report_of_several_models(tmp_path):
    out = tmp_path / "out.txt"
    options = TranslationEvaluationSettings(particulars=20, out=str(out))
    models: Any = {"good": Stub(lambda text: text), "bad": Stub(lambda _: "non")}
    report = evaluate_translators(models, options)
    values = report.to_json()
    assert (values["unchanged"], values["compared"]["bad"]["unchanged"]) == (1, 0)
    assert "never trained on" in str(report)
    assert "unchanged 100.00 %" in str(report)
    assert len(out.read_text(encoding="utf-8").splitlines()) == 20


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"particulars": 1}, "particulars.*2 sentences or more"),
        ({"particulars": 9, "data": "x.tsv"}, "data.*of no use"),
        ({"particulars": 9, "limit": 5}, "limit.*of no use"),
        ({"particulars": 9, "lowercase": True}, "lowercase.*of no use"),
    ],
)
def test_settings_of_no_use(given, message):
    with pytest.raises(ArgumentError, match=message):
        TranslationEvaluationSettings(**given)


def test_other_languages_are_named():
    model: Any = Stub(lambda text: text)
    model.target_language = "de"
    with pytest.raises(ArgumentError, match=r"particulars.*not 'de'"):
        measure_particulars(model, 10)
