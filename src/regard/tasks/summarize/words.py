"""The words of texts, and those that are common in the training data."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from regard.text import WordVocabulary
from regard.text.words_and_characters import HAN_RANGES

__all__ = ["RARE_BELOW", "common_words", "words_of"]

# A word is rare if fewer rows of the training data have it.
RARE_BELOW = 5
_WORD = re.compile(rf"[{HAN_RANGES}]|[^\W_{HAN_RANGES}]+")


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, which are runs of letters and digits, and single Han characters.

    >>> words_of("GPT-2 is naïve. 模型")
    ['gpt', '2', 'is', 'naïve', '模', '型']
    """
    return _WORD.findall(text.lower())


def common_words(rows: Iterable[tuple[str, str]]) -> WordVocabulary:
    """Return the words that at least five rows have, the most frequent first.

    >>> words = common_words([("A cat.", "Cat")] * 5 + [("A dog", "Dog")] * 4)
    >>> [word for word in ("cat", "dog") if words.unk not in words.encode(word)]
    ['cat']
    """
    counts: Counter[str] = Counter()
    for row in rows:
        counts.update({word for text in row for word in words_of(text)})
    common = sorted(
        (word for word, count in counts.items() if count >= RARE_BELOW),
        key=lambda word: (-counts[word], word),
    )
    return WordVocabulary([f" {word}" for word in common], lowercase=True)
