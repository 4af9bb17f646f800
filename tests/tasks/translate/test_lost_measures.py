"""Tests of dates and numbers with units that a translation lost, with a model that answers from a table."""

import pytest

from regard.tasks.translate import Translation
from regard.tasks.translate.lost_measures import lost_measures
from regard.tasks.translate.normalized import translate_normalized
from regard.text.traced import TracedText
from support.table_translator import Table, translated


@pytest.mark.parametrize(
    ("text", "written", "target", "missing"),
    [
        ("The fair is on June 2.", "公平月2日。", "zh", ["June 2"]),
        ("The fair is on June 2.", "展会在6月2日。", "zh", []),
        ("The fair is on June 2.", "展会在六月二日。", "zh", []),
        ("The fair is on June 2.", "展会在16月2日。", "zh", ["June 2"]),
        ("The fair is on December 1.", "La foire est le 10 décembre.", "fr", ["December 1"]),
        ("The fair is on December 1.", "La foire est le 1er décembre.", "fr", []),
        ("I ran 10 km in 50 minutes.", "我用50分钟跑了10分钟。", "zh", ["10 km"]),
        ("I ran 10 km in 50 minutes.", "我用50分钟跑了10公里。", "zh", []),
        ("I ran 10 km.", "我跑了十公里。", "zh", []),
        ("The wind is 40 km/h.", "风40/h。", "zh", ["40 km/h"]),
        ("The wind is 40 km/h.", "风速每小时40公里。", "zh", ["40 km/h"]),
        ("It grew by 5%.", "增长了百分之5。", "zh", []),
        ("It grew by 5%.", "Ça a augmenté de 5 pour cent.", "fr", []),
        ("It weighs 1,200 kg.", "Ça pèse 1 200 kg.", "fr", []),
        ("It weighs 2.5 kg.", "Ça pèse 2,5 kilos.", "fr", []),
        ("It weighs 2.5 kg.", "Ça pèse 2,5 grammes.", "fr", ["2.5 kg"]),
        ("It has 16 GB.", "Ça a 16 euros.", "fr", ["16 GB"]),
        # no units
        ("I have 5 m'sieurs and 3 gs.", "J'en ai 3.", "fr", []),
        ("I ran 10 km.", "Ich lief.", "de", []),
    ],
)
def test_the_dates_and_measures_that_a_translation_lost(text, written, target, missing):
    assert lost_measures(TracedText(text), TracedText(text), written, target) == missing


def test_a_date_that_stands_for_another_is_not_the_users():
    source, read = TracedText("It is on the 22nd."), TracedText("It is on March 22.")
    assert lost_measures(source, read, "C'est le 22.", "fr") == []


def test_a_lost_measure_is_searched_in_both_forms_of_the_sentence():
    texts = {"The wind is 40 km.": "风40。", "The wind is 40 km/h.": "风40/h。"}
    table, hypotheses = Table(texts, "zh"), {"The wind is 40 km.": ["风3公里。", "风速40公里。"]}

    def search(sentences, numbers):
        found = [hypotheses.get(one, [texts[one]]) for one in sentences]
        return [
            [Translation(one, words, -1.0, [], []) for words in several]
            for one, several in zip(sentences, found, strict=True)
        ]

    (done,) = translate_normalized(table, ["The wind is 40 km/h."], 0, table.translate, search)
    assert done.text == "风速40km/h。"


@pytest.mark.parametrize(
    ("read", "text", "expected"),
    [
        ("See you on March 3.", "三月3日见。", "3月3日见。"),
        ("See you on March 31.", "三月31号见。", "3月31号见。"),
        ("See you on March 3.", "3月3日见。", "3月3日见。"),
        ("See you in March.", "三月见。", "三月见。"),
    ],
)
def test_a_chinese_month_before_a_day_in_digits_is_in_digits(read, text, expected):
    assert translated(read, {read: text}, "zh")[0] == expected
