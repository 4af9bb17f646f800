"""Tests of the generated sentences with names, numbers, prices and addresses."""

import re
from random import Random

import pytest

from regard.corpus.particulars import elided, generate_particulars, names, numbers
from regard.errors import ArgumentError, UnknownNameError

TRAIN = list(generate_particulars(6000, seed=1))
TEST = list(generate_particulars(1000, split="test", seed=1))
KNOWN_PATTERNS = list(generate_particulars(1000, split="test", seed=1, new_patterns=False))


@pytest.mark.parametrize("sentences", [TRAIN, TEST, KNOWN_PATTERNS])
def test_every_particular_stands_in_all_three_languages(sentences):
    for sentence in sentences:
        assert sentence.particulars
        for one in sentence.particulars:
            assert all(one.text in text for text in sentence.texts), sentence
        assert not any("{" in text for text in sentence.texts)


def test_training_and_test_share_no_particular():
    trained = {one.text for sentence in TRAIN for one in sentence.particulars}
    for sentence in (*TEST, *KNOWN_PATTERNS):
        assert not trained & {one.text for one in sentence.particulars}


def test_training_never_uses_the_patterns_of_the_test():
    trained, tested = ({one.pattern for one in several} for several in (TRAIN, TEST))
    assert not trained & tested
    assert len(trained) >= 120
    assert len(tested) >= 20
    assert {one.pattern for one in KNOWN_PATTERNS} <= trained


def test_the_seed_decides_the_sentences():
    assert list(generate_particulars(6000, seed=1)) == TRAIN
    assert list(generate_particulars(50, seed=2)) != TRAIN[:50]


def test_names_are_varied_in_origin_and_form():
    found = {one.text for sentence in TRAIN for one in sentence.particulars if one.kind == "name"}
    assert len(found) > 1000
    for sign in "'-. é":
        assert any(sign in name for name in found), sign


def test_french_elision():
    for sentence in TRAIN:
        assert not re.search(r"\b(de|que) [AEIOUÉÈÅÖÜ]", sentence.text("fr")), sentence.text("fr")
    assert (elided("de", "Émile"), elided("de", "Hans")) == ("d'", "de ")


def test_values_of_every_kind_belong_to_their_split():
    random = Random(3)
    for kind in numbers.KINDS:
        for split in ("train", "test"):
            assert names.in_split(numbers.value(random, kind, split), split)


def test_wrong_arguments():
    with pytest.raises(UnknownNameError, match=r"split.*train, test"):
        generate_particulars(1, split="valid")
    with pytest.raises(ArgumentError, match="count"):
        generate_particulars(-1)
    with pytest.raises(UnknownNameError, match="language"):
        TRAIN[0].text("de")


def test_a_sentence_ends_with_one_full_stop():
    texts = [one.text("en") for one in generate_particulars(3000)]
    assert any(text.endswith(".m.") for text in texts)
    assert not [text for text in texts if text.endswith("..")]
