"""Tests of numbers such as "3 million" in translations."""

import pytest

from support.table_translator import translated


@pytest.mark.parametrize(
    ("source", "read", "written", "language", "text"),
    [
        ("It cost $3 million.", "It cost $46.", "Ça a coûté $46.", "fr", "Ça a coûté 3 millions de dollars."),
        ("It cost $3 million.", "It cost $46.", "Ça a coûté 46 dollars.", "fr", "Ça a coûté 3 millions de dollars."),
        ("It cost $3 million.", "It cost $46.", "它花了$46。", "zh", "它花了300万美元。"),
        ("It cost $3 million.", "It cost $46.", "它花了46美元。", "zh", "它花了300万美元。"),
        ("He has 2.5 billion euros.", "He has 46 euros.", "Il a 46 euros.", "fr", "Il a 2,5 milliards d'euros."),
        ("He has 2.5 billion euros.", "He has 46 dollars.", "他有46美元。", "zh", "他有25亿欧元。"),
        ("It cost €3 million.", "It cost €46.", "Ça a coûté €46.", "fr", "Ça a coûté 3 millions d'euros."),
        ("It cost £3 million.", "It cost £46.", "Ça a coûté £46.", "fr", "Ça a coûté 3 millions de livres."),
        ("It was 65 million years ago.", "It was 46 years ago.", "C'était il y a 46 ans.", "fr",
         "C'était il y a 65 millions d'années."),
        ("There are 1.5 million.", "There are 46.", "Il y en a 46.", "fr", "Il y en a 1,5 million."),
        ("There are 20 thousand people.", "There are 46 people.", "Il y a 46 personnes.", "fr",
         "Il y a 20 000 personnes."),
        ("There are 20 thousand people.", "There are 46 people.", "有46个人。", "zh", "有2万个人。"),
    ],
)  # fmt: skip
def test_an_amount_is_read_as_a_number_and_written_as_in_the_language(source, read, written, language, text):
    found, sentences = translated(source, {read: written}, language)
    assert (found, sentences) == (text, [read])


def test_two_amounts_are_not_mixed_up():
    answers = {"From 46 to 57 people.": "De 46 à 57 personnes."}
    text, _ = translated("From 3 million to 4 million people.", answers)
    assert text == "De 3 millions à 4 millions de personnes."


def test_a_sentence_whose_number_is_lost_is_read_as_it_is():
    answers = {
        "It has 46 people.": "Il y a du monde.",
        "It has 3 million people.": "Il y a 3 millions de personnes.",
    }
    text, read = translated("It has 3 million people.", answers)
    assert (text, read) == ("Il y a 3 millions de personnes.", list(answers))


@pytest.mark.parametrize("text", ["A million people came.", "It has 3 millionaires."])
def test_other_words_are_no_amounts(text):
    assert translated(text, {text: "Il y en a 3." if "3" in text else "Il y en a un million."})[1] == [text]


@pytest.mark.parametrize(
    ("source", "read", "written", "language", "text"),
    [
        ("It costs 25 euros.", "It costs 25 dollars.", "这个要25美元。", "zh", "这个要25欧元。"),
        ("I paid 40 pounds.", "I paid 40 dollars.", "我付了40块钱。", "zh", "我付了40英镑。"),
        ("I lost 40 pounds.", "I lost 40 pounds.", "我瘦了40磅。", "zh", "我瘦了40磅。"),
        ("It costs 25 euros.", "It costs 25 euros.", "Ça coûte 25 euros.", "fr", "Ça coûte 25 euros."),
        ("I had 1 franc.", "I had 1 dollars.", "J'avais 1 dollar.", "fr", "J'avais 1 franc."),
        ("I had 3 million francs.", "I had 46 dollars.", "J'avais 46 dollars.", "fr", "J'avais 3 millions de francs."),
    ],
)  # fmt: skip
def test_dollars_stand_for_a_currency_that_models_do_not_know(source, read, written, language, text):
    found, sentences = translated(source, {read: written}, language)
    assert (found, sentences) == (text, [read])


def test_a_sentence_whose_currency_is_lost_is_read_as_it_is():
    answers = {"It costs 25 dollars.": "这个要25。", "It costs 25 euros.": "这个要25欧元。"}
    assert translated("It costs 25 euros.", answers, "zh")[0] == "这个要25欧元。"


def test_the_same_number_of_two_currencies_is_not_mixed_up():
    answers = {"I have 5 dollars and 5 francs.": "我有5美元和5法郎。"}
    assert translated("I have 5 euros and 5 francs.", answers, "zh")[0] == "我有5欧元和5法郎。"
