"""The layer, the head and the step whose attention aligns words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from regard.copying import COPY_ATTENTION
from regard.errors import ArgumentError
from regard.maps import Record
from regard.shapes import whole_number

__all__ = ["AlignmentHead", "alignment_head_of", "checked_alignment_head", "keep_alignment_head"]


@dataclass(frozen=True)
class AlignmentHead:
    """A layer of the cross-attention, one head or the mean of all heads, and a step.

    The ``layer`` is None for the copy attention of a Transformer, which has one head. With ``after`` the attention is
    that of the step after a word is written, else of the step that writes it (Chen et al. 2020).
    """

    layer: int | None
    head: int | None = None
    after: bool = False

    def __str__(self) -> str:
        head = "all heads" if self.head is None else f"head {self.head}"
        place = "copy attention" if self.layer is None else f"layer {self.layer}, {head}"
        return f"{place}, {'after' if self.after else 'before'} the word is written"

    def weights(self, records: Sequence[Record], b: int, rows: int, columns: int) -> np.ndarray:
        """Return the weights of sentence ``b``, ``(target tokens, source tokens)``.

        The first row of the model belongs to the token that starts a sentence.
        """
        crosses = [one for one in records if one.kind == "cross"]
        if not crosses:
            raise ArgumentError("model", "it has no attention to the source", "train one with attention")
        if self.layer is None:
            (record,) = (one for one in crosses if one.name == COPY_ATTENTION)
        else:
            record = crosses[self.layer]
        weights = record.map.select(batch=b).weights()[0]  # (h,t,s)
        one = weights.mean(dim=0) if self.head is None else weights[self.head]  # (t,s)
        first = 1 if self.after else 0
        return one[first : first + rows, :columns].double().cpu().numpy()


def alignment_head_of(translator: Any) -> AlignmentHead:
    """Return the one that is saved with the model, or the mean of the last layer but one."""
    config = translator.model.config
    kept = checked_alignment_head(translator.extra.get("alignment"), config)
    if kept is not None:
        return kept
    return AlignmentHead(max(0, config.decoder_layers - 2) if config.kind == "transformer" else 0)


def checked_alignment_head(kept: Any, config: Any) -> AlignmentHead | None:
    """Return the saved value, or raise ArgumentError if the model has no such layer or head."""
    if kept is None:
        return None
    if not isinstance(kept, dict) or "layer" not in kept or not kept.keys() <= {"layer", "head", "after"}:
        raise ArgumentError("alignment", f"expected layer, head and after, got {kept!r}")
    transformer = config.kind == "transformer"
    if kept["layer"] is None and transformer and config.copy and kept.get("head") is None:
        return _checked_step(kept)
    layers, heads = (config.decoder_layers, config.heads) if transformer else (1, 1)
    for name, most in (("layer", layers), ("head", heads)):
        value = kept.get(name)
        if value is None and name == "head":
            continue
        if whole_number(f"alignment.{name}", value, least=0) >= most:
            raise ArgumentError(f"alignment.{name}", f"expected a number below {most}, got {value}")
    return _checked_step(kept)


def _checked_step(kept: dict[str, Any]) -> AlignmentHead:
    if not isinstance(kept.get("after", False), bool):
        raise ArgumentError("alignment.after", f"expected true or false, got {kept['after']!r}")
    return AlignmentHead(**kept)


def keep_alignment_head(translator: Any, head: AlignmentHead) -> None:
    """Set the attention that the translator aligns words with, which is saved with the model."""
    translator.extra = {**translator.extra, "alignment": asdict(head)}
