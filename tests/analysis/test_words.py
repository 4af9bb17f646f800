"""Words out of tokens, links out of weights."""

import numpy as np
import pytest

from regard.analysis import alignment_links, diagonal_links, merge_tokens, word_spans, words_of_tokens
from regard.errors import ArgumentError


def words(text: str) -> list[str]:
    return [text[start:end] for start, end in word_spans(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The cat sits on the mat.", ["The", "cat", "sits", "on", "the", "mat", "."]),
        ("L'homme n'aime pas l'eau.", ["L'", "homme", "n'", "aime", "pas", "l'", "eau", "."]),
        ("Qu'est-ce que c'est ?", ["Qu'", "est", "-", "ce", "que", "c'", "est", "?"]),
        ("I don't. It's Tom's; we'll go.", ["I", "don't", ".", "It's", "Tom's", ";", "we'll", "go", "."]),
        ("aujourd’hui j’ai", ["aujourd’hui", "j’", "ai"]),
        ("猫坐在垫子上。", list("猫坐在垫子上。")),
        ("  ", []),
        ("a_b", ["a", "_", "b"]),
        ("cafe\u0301 noir", ["cafe\u0301", "noir"]),
        ("'chat' qu' l' ami", ["'", "chat", "'", "qu'", "l'", "ami"]),
        ("3.14 or 1,000.", ["3.14", "or", "1,000", "."]),
        ("人々", ["人", "々"]),
    ],
)
def test_words_are_split_at_spaces_and_punctuation(text, expected):
    assert words(text) == expected


def test_a_token_belongs_to_the_words_whose_characters_it_has():
    shares = words_of_tokens([(0, 4), (4, 5), (5, 9)], [(0, 3), (5, 9)])
    assert shares.tolist() == [[1, 0, 0], [0, 0, 1]]
    assert words_of_tokens([(0, 4)], [(0, 1), (1, 4)]).tolist() == [[0.25], [0.75]]
    assert words_of_tokens([(0, 2)], []).shape == (0, 1)
    assert words_of_tokens([], [(0, 2)]).shape == (1, 0)


def test_merging_sums_over_keys_and_averages_over_queries():
    weights = np.array([[0.1, 0.2, 0.3, 0.4], [0.5, 0.1, 0.1, 0.3], [0.25, 0.25, 0.25, 0.25]])
    rows, columns = np.array([[1, 1, 0], [0, 0, 1.0]]), np.array([[1, 1, 0, 0], [0, 0, 1, 0.0]])
    np.testing.assert_allclose(merge_tokens(weights, rows, columns), [[0.45, 0.2], [0.5, 0.25]])


def test_words_of_one_token_share_its_weights():
    weights = np.array([[0.2, 0.8], [0.6, 0.4]])
    halves = words_of_tokens([(0, 2), (2, 3)], [(0, 1), (1, 2), (2, 3)])  # the first token is two words
    np.testing.assert_allclose(merge_tokens(weights, halves, np.eye(2)), [[0.2, 0.8], [0.2, 0.8], [0.6, 0.4]])
    np.testing.assert_allclose(merge_tokens(weights, np.eye(2), halves), [[0.1, 0.1, 0.8], [0.3, 0.3, 0.4]])


def test_a_word_without_tokens_has_zero_weights():
    assert merge_tokens(np.ones((1, 1)), np.zeros((1, 1)), np.ones((1, 1))).tolist() == [[0.0]]


def test_merging_checks_its_sizes():
    with pytest.raises(ArgumentError, match=r"weights: expected \(1, 2\), got \(2, 2\)"):
        merge_tokens(np.ones((2, 2)), np.ones((1, 1)), np.eye(2))


def test_links_take_the_largest_weight_of_each_target_word():
    weights = np.array([[0.2, 0.7, 0.1], [0.0, 0.0, 0.0], [0.1, 0.1, 0.8]])
    assert alignment_links(weights) == {(1, 0), (2, 2)}  # a word that looked nowhere has no link
    assert alignment_links(np.zeros((2, 0))) == set()


def test_diagonal_links_are_those_computed_by_hand():
    assert diagonal_links(3, 3) == {(0, 0), (1, 1), (2, 2)}
    assert diagonal_links(4, 2) == {(1, 0), (3, 1)}
    assert diagonal_links(0, 2) == diagonal_links(2, 0) == set()
