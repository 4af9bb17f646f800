"""Tests of benchmarks/translate_phrases.py and of its table of accepted translations. They run no model."""

import importlib

import pytest

from support.paths import ROOT


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("translate_phrases")


def test_the_table_has_a_hundred_different_phrases_with_translations_into_both_languages(script):
    rows = [line.split("\t") for line in script.PHRASES.read_text(encoding="utf-8").splitlines()]
    assert [len(row) for row in rows] == [3] * 100
    assert len({script.plain(row[0], "en") for row in rows}) == 100
    for english, *cells in rows:
        assert english[0].isupper(), english
        assert english[-1] in ".?!", english
        for cell in cells:
            patterns = cell.split(" | ")
            assert len(set(patterns)) == len(patterns), english
            assert all(pattern == pattern.strip() != "" for pattern in patterns), english


def test_every_pattern_is_closed_and_has_no_empty_choice(script):
    for phrase in script.read_phrases():
        for language, texts in phrase.accepted.items():
            assert texts, phrase.english
            assert "" not in texts, phrase.english
            for text in texts:
                assert not set(text) & set("()[]/|"), (phrase.english, text)
                assert text == script.plain(text, language)


def test_a_pattern_stands_for_all_its_choices(script):
    assert script.expanded("a") == ["a"]
    assert script.expanded("(a/b)c[d]") == ["ac", "acd", "bc", "bcd"]
    assert script.accepted("(tu vas/vous allez) [très] bien | ça va", "fr") == {
        "tu vas bien",
        "tu vas très bien",
        "vous allez bien",
        "vous allez très bien",
        "ça va",
    }


@pytest.mark.parametrize(
    ("language", "text", "is_accepted"),
    [
        ("fr", "Comment ça va ?", True),
        ("fr", "  comment  ÇA VA", True),
        ("fr", "Comment c\u0327a va\u00a0?", True),
        ("fr", "Comment ça va bien ?", False),
        ("fr", "Comment va", False),
        ("fr", "Comment ca va ?", False),
        ("zh", "你好吗？", True),
        ("zh", "你 好 吗", True),
        ("zh", "你好马？", False),
    ],
)
def test_case_spaces_and_marks_do_not_count_and_letters_do(script, language, text, is_accepted):
    phrase = next(one for one in script.read_phrases() if one.english == "How are you?")
    (result,) = script.judged([phrase], [text], language)
    assert result == (phrase.english, text, is_accepted)


def test_the_report_has_the_share_and_the_translations_that_are_not_accepted(script):
    phrases = [one for one in script.read_phrases() if one.english in ("Hello.", "I am a vegetarian.")]
    lines = script.report(script.judged(phrases, ["Salut !", "Oui."], "fr"))
    assert lines[0] == "1 of 2 accepted (50 %)"
    assert lines[1] == "1 of the 1 that --phrases trains on"
    assert lines[2:] == ["  I am a vegetarian.  ->  Oui."]
