"""The attention weights that a model records during a forward pass.

If the ``seen`` argument of a model is a list, the model appends one :class:`Seen` for every attention it computes.
Nothing is stored on the modules.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

__all__ = ["Seen"]


@dataclass(frozen=True)
class Seen:
    """The weights of one attention layer.

    ``kind`` is ``"self"`` (the encoder attends to the source), ``"causal"`` (the decoder attends to its own earlier
    tokens) or ``"cross"`` (the decoder attends to the source).
    """

    name: str  # such as "decoder.0.cross"
    kind: str
    layer: int
    weights: Tensor  # (b,h,q,k)
