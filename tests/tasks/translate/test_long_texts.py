"""Tests of texts with tabs, line separators and very long words."""

import dataclasses

import numpy as np
import pytest

from regard.decoding import DecodingOptions
from regard.tasks.translate import Translator, align, find_translator
from regard.tasks.translate.long_texts import LONGEST_WORD, spaced, split_at_endless_words

GREEDY = DecodingOptions(beams=1)
WORD = "abcdefghij" * 100_000  # a million characters without a space


@pytest.fixture(scope="module")
def translator():
    return Translator.load(find_translator("en-fr"))


def without_scores(translation, **changes):
    parts = tuple(dataclasses.replace(part, score=0.0) for part in translation.parts)
    return dataclasses.replace(translation, score=0.0, parts=parts, **changes)


@pytest.mark.parametrize("between", ["\t", "\n", "\v", "\f", "\r", "\x1c", "\x85", "\u2028", "\u2029"])
def test_a_tab_or_a_line_separator_between_sentences_is_kept(translator, between):
    text = f"I love you.{between}The dog sleeps."
    spoilt, plain = translator.translate([text, spaced(text)], GREEDY)
    assert spoilt.source == text
    assert plain.source == "I love you. The dog sleeps."
    assert spoilt.text == plain.text.replace(". ", f".{between}")
    assert without_scores(spoilt, source=plain.source, text=plain.text) == without_scores(plain)
    # The rows of a batch may differ in the last digit on some processors.
    scores = [[one.score, *(part.score for part in one.parts)] for one in (spoilt, plain)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-6)
    aligned = align(translator, spoilt)
    assert aligned.source_words == align(translator, plain).source_words
    np.testing.assert_allclose(aligned.weights, align(translator, plain).weights, atol=1e-6)


@pytest.mark.parametrize("between", ["\t", "\n", "\r", "\x85", "\u2028"])
def test_without_normalisation_a_tab_or_a_line_separator_is_read_as_a_space(translator, between):
    text = f"I love you.{between}The dog sleeps."
    spoilt, plain = translator.translate([text, spaced(text)], GREEDY, normalize=False)
    # The rows of a batch may differ in the last digit on some processors.
    assert spoilt.score == pytest.approx(plain.score, abs=1e-6)
    assert dataclasses.replace(spoilt, source=plain.source, score=plain.score) == plain
    assert not plain.parts


def test_a_word_of_a_megabyte_is_copied_at_once(translator):
    (done,) = translator.translate([f"I love you. {WORD} The dog sleeps."], GREEDY)
    before, after = translator.translate(["I love you.", "The dog sleeps."], GREEDY)
    assert done.text == f"{before.text} {WORD} {after.text}"
    assert [part.source for part in done.parts] == ["I love you.", WORD, "The dog sleeps."]
    copied = align(translator, done.parts[1])
    # A picture with a label of a megabyte would never be drawn.
    label = "abcdefghij" * 3 + "…"
    assert (copied.source_words, copied.target_words, copied.marks) == ([], [label], ["copied"])
    assert copied.to_json()["attention"] == [None]


def test_a_text_of_one_endless_word_is_translated(translator):
    (done,) = translator.translate([WORD], GREEDY)
    assert (done.source, done.text, done.parts) == (WORD, WORD, ())


def test_texts_are_split_at_the_right_places():
    just, over = "x" * LONGEST_WORD, "x" * (LONGEST_WORD + 1)
    assert list(split_at_endless_words("")) == [""]
    assert list(split_at_endless_words(f"  {just} {just}\n")) == [f"  {just} {just}\n"]  # untouched
    assert list(split_at_endless_words(f"a {over} {over}")) == ["a", over, over]
    assert list(split_at_endless_words("我爱你" * LONGEST_WORD)) == [
        "我爱你" * LONGEST_WORD
    ]  # each Han sign a word
