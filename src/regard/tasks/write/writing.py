"""The results of a writer, which are texts and the scores of texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["TextScore", "WordAttention", "Writing"]


@dataclass(frozen=True)
class Writing:
    """The text that a writer wrote after a prompt.

    ``ended`` is "end" if the model ended the text, "stop" at a stop text, "length" at the largest number of tokens, and
    "full" if the context was full. ``cut_off`` says that the beginning of the prompt was not read, because the prompt
    was longer than the context. ``slid`` says that the model forgot the oldest tokens while it wrote.

    >>> Writing("To be", " or not", [7, 8], [9, 10], -3.0, "length").perplexity
    4.4816890703380645
    """

    source: str
    text: str
    token_ids: list[int]  # of the prompt
    written_ids: list[int]
    # Of the written tokens, in nats. Its last digits depend on the place of the weights in memory.
    log_probability: float = field(compare=False)
    ended: str
    cut_off: bool = False
    slid: bool = False
    # Whether lines() has the prompt before the text.
    whole: bool = True

    @property
    def perplexity(self) -> float:
        """The perplexity of the written tokens and of the end, if the model ended the text, at temperature 1."""
        return math.exp(-self.log_probability / max(1, len(self.written_ids) + (self.ended == "end")))

    def lines(self, *, scores: bool = False) -> list[str]:
        """Return the prompt and the text as lines, after their perplexity if ``scores``."""
        lines = ((self.source if self.whole else "") + self.text).split("\n")
        return [f"perplexity {self.perplexity:.2f}", *lines] if scores else lines

    def to_json(self, attention: Sequence[WordAttention] | None = None) -> dict[str, Any]:
        """Return the prompt, the text and its numbers as a JSON object."""
        values: dict[str, Any] = {"prompt": self.source, "text": self.text, "ended": self.ended}
        values |= {"tokens": len(self.written_ids), "perplexity": round(self.perplexity, 4)}
        values |= {"cut_off": self.cut_off, "slid": self.slid}
        return values if not attention else values | attention[0].to_json()


@dataclass(frozen=True)
class TextScore:
    """The loss of a model on a text, in which every token is predicted once.

    ``nats`` is the sum over the tokens. ``unknown`` is the number of tokens that the vocabulary does not have.

    >>> score = TextScore(nats=6.0, tokens=4, characters=8)
    >>> score.loss, round(score.perplexity, 2), round(score.bits_per_character, 3)
    (1.5, 4.48, 1.082)
    """

    nats: float
    tokens: int
    characters: int
    unknown: int = 0

    @property
    def loss(self) -> float:
        """The mean loss in nats per token."""
        return self.nats / max(1, self.tokens)

    @property
    def perplexity(self) -> float:
        """The exponential of the loss."""
        return math.exp(min(self.loss, 700.0))

    @property
    def bits_per_character(self) -> float:
        """The loss in bits per character, which can be compared between vocabularies."""
        return self.nats / math.log(2) / max(1, self.characters)

    def to_json(self) -> dict[str, float]:
        """Return the three measures by name."""
        return {
            "loss": self.loss,
            "perplexity": self.perplexity,
            "bits_per_character": self.bits_per_character,
        }


@dataclass(frozen=True)
class WordAttention:
    """The attention with which words were written, in the last layer, averaged over its heads.

    A row is a written word. Its weights are those of the steps that chose its tokens, on the words before it and on its
    own tokens. Rows sum to 1.
    """

    row_words: list[str]
    column_words: list[str]
    weights: np.ndarray  # (rows, columns)

    @property
    def axes(self) -> tuple[str, str]:
        """The names of the axes of a heat map."""
        return "Words that were read", "Words that were written"

    def to_json(self) -> dict[str, Any]:
        """Return the words and the weights as a JSON object."""
        rows = [[round(float(weight), 4) for weight in row] for row in self.weights]
        return {"words": self.column_words, "written": self.row_words, "attention": rows}
