"""The words of texts, and those that are common in the training data."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.errors import ArgumentError
from regard.shapes import whole_number
from regard.text import Vocabulary, WordVocabulary
from regard.text.sentences import sentence_spans
from regard.text.words_and_characters import HAN_RANGES

__all__ = ["RARE_BELOW", "Field", "common_words", "listed_words", "words_of"]

# A word is rare if fewer rows of the training data have it.
RARE_BELOW = 5
# The frequent words of a field make up this share of its texts.
_FREQUENT = 0.9
# This share of the texts of a field may be taken for texts of another. A limit is at least so many standard deviations.
_FALSE_ALARMS, _LEAST_LIMIT = 0.01, 3.0
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


def listed_words(common: Vocabulary) -> list[str]:
    """Return the common words of a training, the most frequent first."""
    return [common.decode([number]) for number in range(len(common.specials), len(common))]


@dataclass(frozen=True)
class Field:
    """The field of the texts that a model was trained on, by the share of words that are not frequent in it.

    The ``frequent`` words are the first ones of the common words. ``share`` is the mean share of other words in a text
    of the field, ``deviation`` the standard deviation of that share between long texts, and ``limit`` the largest
    number of standard deviations above the mean for a text of the field.
    """

    frequent: int
    share: float
    deviation: float
    limit: float

    @classmethod
    def of(cls, texts: Sequence[str], ranks: Mapping[str, int]) -> Field | None:
        """Return the field of some texts that were not trained on, or None if they have no words.

        ``ranks`` are the places of the common words, which are sorted by frequency. The limit is chosen so that one of
        a hundred texts, or of their first sentences, is above it.

        >>> ranks = {word: rank for rank, word in enumerate("the cat sees a dog".split())}
        >>> field = Field.of(["the cat sees the dog", "a cat", "the dog sees a mouse"] * 9, ranks)
        >>> field.is_far("the cat sees a dog", ranks), field.is_far("stocks fell again on monday", ranks)
        (False, True)
        """
        words = [found for text in texts if (found := words_of(text))]
        if not words:
            return None
        counts = Counter(ranks.get(word, len(ranks)) for some in words for word in some)
        total, frequent, covered = sum(counts.values()), 0, 0
        while frequent < len(ranks) and covered < _FREQUENT * total:
            covered += counts[frequent]
            frequent += 1
        shares = np.array([_share(some, ranks, frequent) for some in words])  # (n,)
        mean = float(shares.mean())
        # What the number of words of a text adds to the variance.
        counted = float(np.mean([mean * (1 - mean) / len(some) for some in words]))
        field = cls(frequent, mean, math.sqrt(max(0.0, float(shares.var()) - counted)), _LEAST_LIMIT)
        beginnings = [text[:end] for text in texts for _, end in sentence_spans(text, "")[:3]]
        distances = [field.distance(text, ranks) for text in [*texts, *beginnings]]
        limit = float(np.quantile(distances, 1 - _FALSE_ALARMS))
        return cls(field.frequent, mean, field.deviation, max(_LEAST_LIMIT, limit))

    def distance(self, text: str, ranks: Mapping[str, int]) -> float:
        """Return the number of standard deviations by which the share of other words is above the mean."""
        words = words_of(text)
        if not words:
            return 0.0
        variance = self.deviation**2 + self.share * (1 - self.share) / len(words)
        return (_share(words, ranks, self.frequent) - self.share) / math.sqrt(max(variance, 1e-9))

    def is_far(self, text: str, ranks: Mapping[str, int]) -> bool:
        """Return whether a text is unlike those of the field."""
        return self.distance(text, ranks) > self.limit

    @classmethod
    def checked(cls, values: Any) -> Field:
        """Return the saved values, or raise ArgumentError if they are not those of a field."""
        names = ("share", "deviation", "limit")
        if not isinstance(values, dict) or values.keys() != {"frequent", *names}:
            raise ArgumentError("field", f"expected frequent, {', '.join(names)}, got {values!r}")
        whole_number("field.frequent", values["frequent"], least=0)
        for name in names:
            value = values[name]
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise ArgumentError(f"field.{name}", f"expected a number of 0 or more, got {value!r}")
        return cls(**values)


def _share(words: Sequence[str], ranks: Mapping[str, int], frequent: int) -> float:
    return sum(ranks.get(word, frequent) >= frequent for word in words) / len(words)
