"""The settings of decoding."""

from __future__ import annotations

import math
from dataclasses import dataclass

from regard.errors import ArgumentError, DtypeError, option
from regard.shapes import whole_number

__all__ = ["REPEAT_SIZE", "DecodingOptions"]

# The number of tokens of a sequence that is not repeated by default.
REPEAT_SIZE = 8


@dataclass(frozen=True, kw_only=True)
class DecodingOptions:
    """The settings of beam search, greedy decoding and sampling.

    - ``beams`` is the number of hypotheses kept at each step. 1 means greedy decoding.
    - ``length_penalty`` divides the log-probability of a hypothesis of ``n`` tokens (with the end of sentence) by
      ``n ** length_penalty``. 0 ranks by probability alone, which prefers short sequences.
    - ``coverage_penalty`` lowers the score of a hypothesis by which some source tokens received little attention (beta
      in Wu et al. 2016). 0 means no penalty.
    - ``no_repeat`` is a number of tokens n. A hypothesis contains no sequence of n tokens more often than the most
      frequent sequence of n tokens in its source, or than once. 0 allows every repetition. The default is
      REPEAT_SIZE if the source is known, and else 0.
    - ``n_best`` is the number of hypotheses to return, at most ``beams`` in a search.
    - ``sample`` draws ``n_best`` sequences at random instead of searching. Tokens are drawn at a ``temperature``, from
      the ``top_k`` most likely (0 means all) and among those from the smallest set with probability ``top_p``. Of
      these, tokens with less than ``min_p`` times the probability of the most likely one are left out. Sampling
      ignores ``beams`` and ``coverage_penalty``. Searching ignores ``temperature``, ``top_k``, ``top_p``, ``min_p``
      and ``seed``.
    - ``seed`` makes the draws reproducible.
    - ``early_stopping`` ends a beam search as soon as ``beams`` hypotheses are finished. Without it, the search goes on
      while an open hypothesis has a better score at its present length than the worst of the best ``beams`` finished
      ones.
    - ``ended_first`` ranks hypotheses that ended before those that are cut off at ``max_length``, unless one of these
      is more than 1000 times as probable. Without it, all are ranked by their scores, as in Transformers.
    - ``min_length`` is the least number of tokens, without the end of sentence.
    - ``max_length`` is the largest number of tokens, with the end of sentence. The default is 1.5 times the source
      length plus 10, or more if ``min_length`` needs it.

    >>> DecodingOptions(beams=2, n_best=3)
    Traceback (most recent call last):
        ...
    regard.errors.ArgumentError: n_best: expected at most 2, the number of beams, got 3: raise beams=
    """

    beams: int = 5
    length_penalty: float = 1.0
    coverage_penalty: float = 0.0
    no_repeat: int | None = None
    n_best: int = 1
    early_stopping: bool = True
    ended_first: bool = True
    min_length: int = 0
    max_length: int | None = None
    sample: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0

    def __post_init__(self):
        for name in ("beams", "n_best"):
            whole_number(name, getattr(self, name), least=1)
        for name in ("min_length", "top_k", "seed"):
            whole_number(name, getattr(self, name), least=0)
        for name in ("length_penalty", "coverage_penalty", "temperature", "top_p", "min_p"):
            _check_number(name, getattr(self, name))
        if self.no_repeat is not None:
            whole_number("no_repeat", self.no_repeat, least=0)
        for name in ("early_stopping", "ended_first"):
            if not isinstance(getattr(self, name), bool):
                raise DtypeError(name, f"expected True or False, got {getattr(self, name)!r}")
        if self.max_length is not None:
            whole_number("max_length", self.max_length, least=1)
            if self.max_length < self.min_length:
                raise ArgumentError(
                    "min_length", f"{self.min_length} is above {option('max_length', self.max_length)}"
                )
        if not self.sample and self.n_best > self.beams:
            raise ArgumentError(
                "n_best",
                f"expected at most {self.beams}, the number of beams, got {self.n_best}",
                f"raise {option('beams')}",
            )
        if not 0 < self.top_p <= 1:
            raise ArgumentError("top_p", f"expected a share above 0 and up to 1, got {self.top_p}")
        if self.min_p > 1:
            raise ArgumentError("min_p", f"expected a share from 0 to 1, got {self.min_p}")
        if not self.temperature > 0:
            raise ArgumentError("temperature", f"expected a number above 0, got {self.temperature}")

    def repeat_size(self, *, has_sources: bool) -> int:
        """Return the number of tokens of the sequences that are not repeated, or 0 to allow every repetition.

        >>> DecodingOptions().repeat_size(has_sources=False), DecodingOptions(no_repeat=3).repeat_size(has_sources=True)
        (0, 3)
        """
        if self.no_repeat is not None:
            return self.no_repeat
        return REPEAT_SIZE if has_sources else 0

    def limit(self, source_length: int) -> int:
        """Return the largest number of tokens to generate for a source of ``source_length`` tokens.

        The end of sentence counts.

        >>> DecodingOptions().limit(6), DecodingOptions(min_length=40).limit(6)
        (19, 41)
        """
        return self.max_length or max(source_length * 3 // 2 + 10, self.min_length + 1)


def _check_number(name: str, value: object) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise DtypeError(name, f"expected a number, got {value!r}")
    if not (value >= 0 and math.isfinite(value)):
        raise ArgumentError(name, f"expected 0 or more, got {value}")
