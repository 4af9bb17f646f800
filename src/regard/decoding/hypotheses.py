"""The results of a search."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

__all__ = ["FinishedHypotheses", "Hypothesis"]


@dataclass(frozen=True)
class Hypothesis:
    """A generated sequence with its log-probability and score.

    ``tokens`` are ids, without the prompt or beginning-of-sentence token and without the end-of-sentence token.
    Hypotheses are ranked by ``score``, which includes the penalties. ``ended`` is False if the sequence was cut off at
    the maximum length, or because no further token is allowed.
    """

    tokens: list[int]
    log_probability: float
    score: float
    ended: bool = True


@dataclass
class FinishedHypotheses:
    """The finished hypotheses of one sentence, and the number to return (``wanted``).

    Hypotheses that ended rank before those that were cut off, whatever their scores, unless ``ended_first`` is False.

    >>> cut, ended = Hypothesis([5], -1.0, -1.0, ended=False), Hypothesis([6], -2.0, -2.0)
    >>> finished = FinishedHypotheses(wanted=2, all=[cut, ended])
    >>> [hypothesis.tokens for hypothesis in finished.best()]
    [[6], [5]]
    """

    wanted: int
    all: list[Hypothesis] = field(default_factory=list)
    ended_first: bool = True

    def to_beat(self) -> float:
        """Return the score that a new hypothesis must exceed to be among the ``wanted`` best.

        It is -inf while there are fewer than ``wanted``.
        """
        return self.score_of(self.wanted)

    def score_of(self, rank: int) -> float:
        """Return the score of the hypothesis with this rank by score, counted from 1, or -inf if there are fewer."""
        if len(self.all) < rank:
            return -math.inf
        return sorted(hypothesis.score for hypothesis in self.all)[-rank]

    def best(self) -> list[Hypothesis]:
        """Return at most ``wanted`` hypotheses, best first."""
        return sorted(self.all, key=lambda x: (self.ended_first and not x.ended, -x.score))[: self.wanted]
