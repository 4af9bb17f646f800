"""The settings of a search."""

from __future__ import annotations

import math
from dataclasses import dataclass

from regard.errors import ArgumentError, DtypeError
from regard.shapes import whole_number

__all__ = ["DecodingOptions"]


@dataclass(frozen=True, kw_only=True)
class DecodingOptions:
    """How a translation is searched for.

    - ``beams``: hypotheses kept at a time; 1 is greedy;
    - ``length_penalty``: a hypothesis of ``n`` tokens, its end included, is judged by its log-probability over
      ``n ** length_penalty``: 0 judges by probability alone and so prefers short ones;
    - ``coverage_penalty``: what leaving source words unattended costs (Wu et al. 2016, their beta);
    - ``n_best``: how many hypotheses to give back;
    - ``sample``: draw tokens by their probability instead, ``n_best`` times, at a ``temperature``, from the ``top_k``
      likeliest (0: all) or those that make up ``top_p`` of the probability;
    - ``min_length``: tokens at least, the end not counted;
    - ``max_length``: tokens at most, the end counted; by default one and a half times the source and ten more.

    >>> DecodingOptions(beams=2, n_best=3)
    Traceback (most recent call last):
        ...
    regard.errors.ArgumentError: n_best: 3 of 2 beams cannot be given: raise beams
    """

    beams: int = 5
    length_penalty: float = 1.0
    coverage_penalty: float = 0.0
    n_best: int = 1
    min_length: int = 0
    max_length: int | None = None
    sample: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self):
        for name in ("beams", "n_best"):
            whole_number(name, getattr(self, name), least=1)
        for name in ("min_length", "top_k", "seed"):
            whole_number(name, getattr(self, name), least=0)
        for name in ("length_penalty", "coverage_penalty", "temperature", "top_p"):
            _check_number(name, getattr(self, name))
        if self.max_length is not None:
            whole_number("max_length", self.max_length, least=1)
            if self.max_length < self.min_length:
                raise ArgumentError("min_length", f"{self.min_length} is above max_length={self.max_length}")
        if not self.sample and self.n_best > self.beams:
            raise ArgumentError(
                "n_best", f"{self.n_best} of {self.beams} beams cannot be given", "raise beams"
            )
        if not 0 < self.top_p <= 1:
            raise ArgumentError("top_p", f"expected a share above 0 and up to 1, got {self.top_p}")
        if not self.temperature > 0:
            raise ArgumentError("temperature", f"expected a number above 0, got {self.temperature}")

    def limit(self, source_length: int) -> int:
        """The most tokens that may be written for a source of so many.

        >>> DecodingOptions().limit(6), DecodingOptions(min_length=40).limit(6)
        (19, 41)
        """
        return self.max_length or max(source_length * 3 // 2 + 10, self.min_length + 1)


def _check_number(name: str, value: object) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise DtypeError(name, f"expected a number, got {value!r}")
    if not (value >= 0 and math.isfinite(value)):
        raise ArgumentError(name, f"expected 0 or more, got {value}")
