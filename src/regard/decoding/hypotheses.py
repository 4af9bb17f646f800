"""The results of a search."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

__all__ = ["FinishedHypotheses", "Hypothesis"]

# A hypothesis that ended is unlikely if one that is open at the limit is more than 1000 times as probable. Such a
# hypothesis is the start of a longer text, or empty, and is found only because the limit is below the length that the
# model needs.
_UNLIKELY = math.log(1000)


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

    Hypotheses that ended rank before those that were cut off, whatever their scores, unless they are unlikely or
    ``ended_first`` is False. ``best_open`` is the log-probability of the best hypothesis that is open at the limit, or
    -inf if the search ended before it. A hypothesis that ended is unlikely if it is 1000 times less probable than that.

    >>> cut, ended = Hypothesis([5], -1.0, -1.0, ended=False), Hypothesis([6], -2.0, -2.0)
    >>> finished = FinishedHypotheses(wanted=2, all=[cut, ended])
    >>> [hypothesis.tokens for hypothesis in finished.best()]
    [[6], [5]]
    >>> unlikely = Hypothesis([], -9.0, -9.0)
    >>> finished = FinishedHypotheses(wanted=1, all=[cut, unlikely], best_open=-1.0)
    >>> [hypothesis.tokens for hypothesis in finished.best()]
    [[5]]
    """

    wanted: int
    all: list[Hypothesis] = field(default_factory=list)
    ended_first: bool = True
    best_open: float = -math.inf

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

    def likely(self) -> list[Hypothesis]:
        """Return the hypotheses that ended and are not unlikely."""
        return [one for one in self.all if self._is_likely(one)]

    def best(self) -> list[Hypothesis]:
        """Return at most ``wanted`` hypotheses, best first."""

        def rank(one: Hypothesis) -> tuple[bool, float]:
            return self.ended_first and not self._is_likely(one), -one.score

        return sorted(self.all, key=rank)[: self.wanted]

    def _is_likely(self, one: Hypothesis) -> bool:
        return one.ended and one.log_probability >= self.best_open - _UNLIKELY
