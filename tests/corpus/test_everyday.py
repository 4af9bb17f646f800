"""Tests of everyday phrases, and of the sentences that are made from frames."""

import re

import pytest

from regard.corpus import everyday
from regard.corpus.everyday import everyday_phrases, generate_everyday, written_sentences
from regard.errors import ArgumentError

SENTENCES = list(generate_everyday(5000, seed=1))


def test_the_same_arguments_give_the_same_sentences():
    assert list(generate_everyday(50, seed=1)) == SENTENCES[:50]
    assert list(generate_everyday(50, seed=2)) != SENTENCES[:50]
    assert list(generate_everyday(0)) == []
    with pytest.raises(ArgumentError, match="count.*0 or more"):
        generate_everyday(-1)


def test_every_slot_of_a_frame_has_fillers_and_stands_in_all_languages():
    for frame in everyday._frames():
        slots = [sorted(everyday._SLOT.findall(text)) for text in frame]
        assert slots[0] == slots[1] == slots[2], frame
        assert slots[0], frame
        assert all(slot in everyday._fillers() for slot in slots[0]), frame


def test_every_slot_with_fillers_is_used():
    used = {slot for frame in everyday._frames() for slot in everyday._SLOT.findall(frame[0])}
    assert used == set(everyday._fillers())


def test_no_slot_is_left_and_each_text_begins_with_a_capital():
    for english, french, chinese in SENTENCES:
        assert not re.search(r"[{}|]", english + french + chinese)
        assert english[0].isupper()
        assert french[0].isupper()
        assert re.search(r"[\u4e00-\u9fff]", chinese)
        assert not re.search(r"[A-Za-z]", chinese.replace("Wi-Fi", ""))


def test_french_prepositions_are_contracted_and_words_elided():
    for _, french, _ in SENTENCES:
        assert not re.search(r"\b(de|à) les? ", french), french
    for _, french, _ in (*SENTENCES, *everyday_phrases(), *written_sentences()):
        assert not re.search(
            r"(?<![-\w])(?i:je|ne|me|te|se|que|de|le|la) (?!oui|onze|un à)[aeiouéêèàâœ]", french
        ), french


def test_french_marks_have_a_space_before_them():
    for _, french, _ in (*SENTENCES, *everyday_phrases(), *written_sentences()):
        assert not re.search(r"\S[?!;]", french), french


def test_no_english_phrase_has_two_meanings():
    meanings: dict[str, set[str]] = {}
    for english, french, _ in (*everyday_phrases(), *written_sentences()):
        meanings.setdefault(english, set()).add(french)
    assert [english for english, several in meanings.items() if len(several) > 1] == []
