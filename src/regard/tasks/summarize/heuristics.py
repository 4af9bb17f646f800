"""Two summaries without training, which a summariser is compared with."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from regard.tasks.summarize.words import words_of

__all__ = ["HEURISTICS", "central_sentences", "first_words"]

WORDS = 12  # of a summary, at most
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])")


def first_words(texts: Sequence[str]) -> list[str]:
    """Return the first 12 words of each text.

    >>> first_words(["a b c d e f g h i j k l m n"])
    ['a b c d e f g h i j k l']
    """
    return [" ".join(text.split()[:WORDS]) for text in texts]


def central_sentences(texts: Sequence[str]) -> list[str]:
    """Return the first 12 words of the sentence of each text that is nearest to the centre of its sentences.

    A sentence is the vector of the TF-IDF weights of its words, of length 1. The centre is the mean of the vectors, and
    the nearest sentence has the largest cosine with it. The document frequency of a word is the number of ``texts``
    that have it. Of equally near sentences the first is taken.

    >>> texts = ["Cats sleep. Dogs bark at cats, and cats run. Dogs bark.", "Cats sleep."]
    >>> central_sentences(texts)[0]
    'Dogs bark at cats, and cats run.'
    """
    frequencies: Counter[str] = Counter()
    for text in texts:
        frequencies.update(set(words_of(text)))
    weights = {word: math.log((1 + len(texts)) / (1 + count)) + 1 for word, count in frequencies.items()}
    return first_words([_central(text, weights) for text in texts])


def _central(text: str, weights: dict[str, float]) -> str:
    sentences = [sentence for sentence in _SENTENCE_END.split(text) if sentence.strip()]
    vectors = [_vector(words_of(sentence), weights) for sentence in sentences]
    centre: Counter[str] = Counter()
    for vector in vectors:
        centre.update(vector)
    nearness = [sum(share * centre[word] for word, share in vector.items()) for vector in vectors]
    return sentences[nearness.index(max(nearness))] if sentences else ""


def _vector(words: list[str], weights: dict[str, float]) -> dict[str, float]:
    counts = Counter(words)
    vector = {word: count * weights[word] for word, count in counts.items()}
    size = math.sqrt(sum(value * value for value in vector.values()))
    return {word: value / size for word, value in vector.items()} if size else {}


HEURISTICS = {"first 12 words": first_words, "central sentence": central_sentences}
