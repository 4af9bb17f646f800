"""Where alignments are read in a model's attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from regard.errors import ArgumentError
from regard.maps import Record
from regard.shapes import whole_number

__all__ = ["Reading", "checked_reading", "keep_reading", "reading_of"]


@dataclass(frozen=True)
class Reading:
    """A layer of the cross attention, one head or the mean of all, and at which step."""

    layer: int
    head: int | None = None
    after: bool = False  # at the step that has read the word, instead of the one that writes it

    def __str__(self) -> str:
        head = "all heads" if self.head is None else f"head {self.head}"
        return f"layer {self.layer}, {head}, {'after' if self.after else 'before'} the word is written"

    def weights(self, records: Sequence[Record], b: int, rows: int, columns: int) -> np.ndarray:
        """The weights of one sentence, ``(target tokens, source tokens)``; the model's first row is that of bos."""
        crosses = [one for one in records if one.kind == "cross"]
        if not crosses:
            raise ArgumentError("model", "it has no attention to the source", "train one with attention")
        weights = crosses[self.layer].map.select(batch=b).weights()[0]  # (h,t,s)
        one = weights.mean(dim=0) if self.head is None else weights[self.head]  # (t,s)
        first = 1 if self.after else 0
        return one[first : first + rows, :columns].double().cpu().numpy()


def reading_of(translator: Any) -> Reading:
    """The reading kept with the model; without one, the mean of the last layer but one."""
    config = translator.model.config
    kept = checked_reading(translator.extra.get("alignment"), config)
    if kept is not None:
        return kept
    return Reading(max(0, config.decoder_layers - 2) if config.kind == "transformer" else 0)


def checked_reading(kept: Any, config: Any) -> Reading | None:
    """The reading of alignments that a model keeps, if it is one that the model can be read by."""
    if kept is None:
        return None
    if not isinstance(kept, dict) or "layer" not in kept or not kept.keys() <= {"layer", "head", "after"}:
        raise ArgumentError("alignment", f"expected layer, head and after, got {kept!r}")
    transformer = config.kind == "transformer"
    layers, heads = (config.decoder_layers, config.heads) if transformer else (1, 1)
    for name, most in (("layer", layers), ("head", heads)):
        value = kept.get(name)
        if value is None and name == "head":
            continue
        if whole_number(f"alignment.{name}", value, least=0) >= most:
            raise ArgumentError(f"alignment.{name}", f"expected a number below {most}, got {value}")
    if not isinstance(kept.get("after", False), bool):
        raise ArgumentError("alignment.after", f"expected true or false, got {kept['after']!r}")
    return Reading(**kept)


def keep_reading(translator: Any, reading: Reading) -> None:
    """Let the translator remember its reading; it is saved with the model."""
    translator.extra = {**translator.extra, "alignment": asdict(reading)}
