"""Weights that multiply the values, where those are not the softmax's."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.capture.joining.stitching import single
from regard.capture.watching.followed_softmax import Use
from regard.maps.attention_map import AttentionMap

__all__ = ["corrected"]


def corrected(use: Use, weights: Tensor, heads: list[int] | None) -> Tensor | None:
    """A copy of the weights, ``(b,h,q,k)``, as a record keeps them; None where they are those of the softmax."""
    strand, piece = use.strand, use.piece
    if piece is not strand.pieces[-1]:
        return None
    if heads is not None:
        weights = weights[:, [n % weights.shape[1] for n in heads]]
    if weights.shape[3] == use.call.grid.k:
        weights = weights[..., strand.sinks.order(weights.shape[3])][..., : piece.grid.k]
        if tuple(weights.shape) == tuple(piece.grid) and _same(
            AttentionMap(single(strand, piece)).weights(), weights
        ):
            return None
    return weights.clone()


def _same(recorded: Tensor, found: Tensor) -> bool:
    close = 1e-5 if found.dtype in (torch.float32, torch.float64) else 1e-2
    gap = recorded.to(found.device).double().nan_to_num() - found.double().nan_to_num()
    return bool((gap.abs() <= close).all())
