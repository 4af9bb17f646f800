"""The settings of the search of a model that is measured, without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from regard.settings import Settings, setting

__all__ = ["BeamSearchSettings"]


@dataclass(frozen=True, kw_only=True)
class BeamSearchSettings(Settings):
    """How a model that is measured searches for the text to write. The decoding defines the defaults."""

    title: ClassVar[str] = "Search"

    beams: int | None = setting(None, "Hypotheses in the beam search, 1 for greedy search; by default 5.")
    length_penalty: float | None = setting(None, "Above 1 prefers long results; by default 1.")
    coverage_penalty: float | None = setting(
        None, "Penalty for source words without attention; by default 0."
    )
