"""What a search has found."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

__all__ = ["Found", "Hypothesis"]


@dataclass(frozen=True)
class Hypothesis:
    """A sequence that was written: its tokens without what it began with and without its end.

    ``ended`` is False where the longest allowed length cut it off.
    """

    tokens: list[int]
    log_probability: float
    score: float  # what it is ranked by
    ended: bool = True


@dataclass
class Found:
    """The hypotheses of one sentence, and how many are wanted.

    Those that have ended come first, whatever their score: half a sentence is no rival to a whole one.

    >>> found = Found(wanted=2, all=[Hypothesis([5], -1.0, -1.0, ended=False), Hypothesis([6], -2.0, -2.0)])
    >>> [one.tokens for one in found.best()]
    [[6], [5]]
    """

    wanted: int
    all: list[Hypothesis] = field(default_factory=list)

    def to_beat(self) -> float:
        """The score that another hypothesis has to beat to be given back."""
        if len(self.all) < self.wanted:
            return -math.inf
        return sorted(one.score for one in self.all)[-self.wanted]

    def best(self) -> list[Hypothesis]:
        """As many as are wanted, or as there are, best first."""
        return sorted(self.all, key=lambda one: (not one.ended, -one.score))[: self.wanted]
