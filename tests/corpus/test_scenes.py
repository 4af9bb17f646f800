"""Tests of the generated descriptions of pictures."""

import re

import pytest

from regard.corpus.scenes import generate_scenes
from regard.corpus.scenes.inflection import french_verb, present
from regard.corpus.scenes.words import words
from regard.errors import ArgumentError

SCENES = list(generate_scenes(5000, seed=1))


def test_scenes_differ_and_follow_from_the_seed():
    assert len({english for english, _, _ in SCENES}) == 5000
    assert list(generate_scenes(5000, seed=1)) == SCENES
    assert next(generate_scenes(1, seed=2)) != SCENES[0]
    with pytest.raises(ArgumentError, match="count"):
        generate_scenes(-1)


def test_the_vocabulary_is_wide():
    found = {word.lower() for english, _, _ in SCENES for word in re.findall(r"[A-Za-z-]+", english)}
    assert len(found) > 800


@pytest.mark.parametrize(
    "wrong",
    [
        *(r"\bun (femme|fille|dame|personne)\b", r"\bune (homme|garçon|enfant|chien)\b", r"\bde homme"),
        *(r"\bvieux homme\b", r"\bpendant que un", r"\bdeux (homme|femme|garçon|fille|enfant)\b"),
        *(r"\bfilles? (est|sont) assis\b", r"[{}=~|/]", r"  "),
        r"\b(deux|plusieurs|des) [^.]*\b(joue|porte|tient|fait)\b(?! par)",
    ],
)
def test_french_agreement(wrong):
    for _, french, _ in SCENES:
        # A clause that follows "pendant que" or "avec" has its own subject.
        clause = re.split(r" pendant qu| avec | portant ", french)[0].lower()
        assert not re.search(wrong, clause), french


def test_plural_subjects_have_plural_verbs_in_english():
    for english, _, _ in SCENES:
        assert not re.match(r"(Two|Three|Several|Some) \w+ is\b", english)
        assert not re.match(r"An? (man|woman|boy|girl) are\b", english)
        assert not re.search(r"\ba [aeo]\w+\b", english.lower()), english


@pytest.mark.parametrize(
    ("phrase", "one", "many"),
    [
        ("dancing", "dances", "dance"),
        ("sitting", "sits", "sit"),
        ("catching a ball", "catches a ball", "catch a ball"),
        ("carrying a child", "carries a child", "carry a child"),
        ("playing", "plays", "play"),
        ("doing yoga", "does yoga", "do yoga"),
        ("lying", "lies", "lie"),
        ("ice skating", "ice skates", "ice skate"),
    ],
)
def test_english_present(phrase, one, many):
    assert (present(phrase, plural=False), present(phrase, plural=True)) == (one, many)


@pytest.mark.parametrize(
    ("text", "many", "participle"),
    [
        ("nettoie une fenêtre", "nettoient une fenêtre", "nettoyant une fenêtre"),
        ("promène un chien", "promènent un chien", "promenant un chien"),
        ("lance une balle", "lancent une balle", "lançant une balle"),
        ("nage", "nagent", "nageant"),
        ("s'étire", "s'étirent", "s'étirant"),
    ],
)
def test_french_verbs(text, many, participle):
    assert french_verb(text, plural=True, participle=False) == many
    assert french_verb(text, plural=False, participle=True) == participle


def test_every_english_verb_has_a_present():
    actions = (*words().actions, *words().animal_actions)
    verbs = {present(one.english, plural=True).split(" ")[0] for one in actions}
    # Words of which the form in -ing does not show whether the verb ends in -e.
    odd = {word for word in verbs if re.search(r"(?<![aeiou])[aiou](d|v|k|s|z|c|g)$", word)}
    assert odd == {"hug", "dig", "jog", "kayak"}


def test_children_neither_smoke_nor_drink_beer():
    clauses = [clause for texts in generate_scenes(20_000) for clause in texts[0].lower().split(" while ")]
    smoking = [clause.split() for clause in clauses if " smok" in clause]
    assert len(smoking) > 20
    assert not [words for words in smoking if {"boy", "boys", "girl", "child", "kid", "baby"} & set(words)]
