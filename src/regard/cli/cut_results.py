"""The report of results that were cut off at the largest length."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from regard.cli.environment import say

__all__ = ["CutResults"]


class CutResults:
    """Counts results that were cut off at the largest length, and reports their number.

    ``noun`` names one result, such as "caption", and ``plural`` several, by default with an "s".
    """

    def __init__(self, noun: str, plural: str = ""):
        self.noun, self.plural = noun, plural or f"{noun}s"
        self.results, self.cut, self.limit = 0, 0, ""

    def count(self, predictions: list[Any], ended: Iterable[bool], limit: str) -> list[Any]:
        """Count predictions that have not ``ended``, and return all.

        ``ended`` has a truth value for each prediction. ``limit`` names the largest length, as in "--max-length 3".
        """
        self.results, self.limit = self.results + len(predictions), limit
        self.cut += sum(not one for one in ended)
        return predictions

    def report(self) -> None:
        """Print how many results were cut off, on standard error."""
        if not self.cut:
            return
        several = f"{self.cut:,} of {self.results:,} {self.plural} {'was' if self.cut == 1 else 'were'}"
        say(f"{f'the {self.noun} was' if self.results == 1 else several} cut off at {self.limit}")
