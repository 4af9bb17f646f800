"""Tests that sentences of the valid and test splits are generated once and are those of the generator."""

import pytest

from regard import corpus
from regard.corpus import generate


@pytest.fixture
def made(monkeypatch):
    """Forget the kept sentences, and count the sentences that are generated."""
    counts = []
    stream = corpus._stream

    def counted(count, split, seed):
        for triple in stream(count, split, seed):
            counts.append(split)
            yield triple

    monkeypatch.setattr(corpus, "_stream", counted)
    corpus._kept_sentences.cache_clear()
    yield counts
    corpus._kept_sentences.cache_clear()


def texts(triples):
    return [triple.english.text for triple in triples]


def test_sentences_to_validate_and_test_on_are_generated_once(made):
    first = texts(generate(5, split="valid", seed=3))
    assert len(made) == 5
    assert texts(generate(5, split="valid", seed=3)) == first
    assert texts(generate(2, split="valid", seed=3)) == first[:2]
    assert len(made) == 5
    assert texts(generate(7, split="valid", seed=3))[:5] == first
    assert len(made) == 12
    assert texts(corpus._stream(7, "valid", 3)) == texts(generate(7, split="valid", seed=3))


def test_splits_and_seeds_are_kept_apart(made):
    found = [
        texts(generate(3, split=split, seed=seed))
        for split, seed in (("valid", 3), ("test", 3), ("valid", 4))
    ]
    assert len({text for part in found for text in part}) == 9
    assert len(made) == 9


def test_training_sentences_are_not_kept(made):
    for _ in range(2):
        assert len(list(generate(4, seed=2))) == 4
    assert made == ["train"] * 8
