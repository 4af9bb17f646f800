"""The results of an encoder of sentences, its vectors and the texts that are nearest to a query."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["SentenceVector", "SimilarText", "WordAttention"]


@dataclass(frozen=True)
class SentenceVector:
    """The vector of a text.

    >>> SentenceVector("hi", (0.6, 0.8), [7]).vector
    array([0.6, 0.8], dtype=float32)
    """

    source: str
    values: tuple[float, ...]
    token_ids: list[int]  # without special tokens
    # Whether the model read the beginning of a long text only.
    cut_off: bool = False

    @property
    def vector(self) -> np.ndarray:
        """The vector as an array (m,) of float32."""
        return np.array(self.values, dtype=np.float32)

    def lines(self, *, scores: bool = False) -> list[str]:
        """Return the text and its vector as one line of JSON."""
        return [json.dumps(self.to_json(), ensure_ascii=False)]

    def to_json(self, attention: Sequence[WordAttention] | None = None) -> dict[str, Any]:
        """Return the text and its vector as a JSON object."""
        values: dict[str, Any] = {"source": self.source, "vector": [round(x, 7) for x in self.values]}
        values["cut_off"] = self.cut_off
        return values if not attention else values | attention[0].to_json()


@dataclass(frozen=True)
class SimilarText:
    """A text with its cosine similarity to a query, from -1 to 1.

    ``place`` is the index of the text, from 0.
    """

    text: str
    similarity: float
    place: int

    def lines(self, *, scores: bool = False) -> list[str]:
        """Return the similarity and the text."""
        return [f"{self.similarity:.3f}\t{self.text}"]

    def to_json(self, attention: None = None) -> dict[str, Any]:
        """Return the line number, the similarity and the text as a JSON object."""
        return {"line": self.place + 1, "similarity": round(self.similarity, 6), "text": self.text}


@dataclass(frozen=True)
class WordAttention:
    """The attention between the words of a text in the last layer, averaged over its heads."""

    row_words: list[str]
    column_words: list[str]
    weights: np.ndarray  # (words, words)

    def to_json(self) -> dict[str, Any]:
        """Return the words and the weights as a JSON object."""
        rows = [[round(float(weight), 4) for weight in row] for row in self.weights]
        return {"words": self.column_words, "attention": rows}
