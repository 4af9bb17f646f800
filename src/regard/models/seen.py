"""The weights a model has looked with, each under the name of its attention.

A model that is given a list puts one :class:`Seen` into it for every attention it computes. Nothing is kept on
the modules.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

__all__ = ["Seen"]


@dataclass(frozen=True)
class Seen:
    """The weights of one attention layer.

    ``kind`` tells document 004's three attentions apart: ``"self"`` (the encoder over the source), ``"causal"``
    (the decoder over what it has written) and ``"cross"`` (the decoder over the source).
    """

    name: str  # "decoder.0.cross"
    kind: str
    layer: int
    weights: Tensor  # (b,h,q,k)
