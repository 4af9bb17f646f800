"""Weights that multiply the values and differ from the result of the softmax."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.capture.joining.call_chains import RecordedCall
from regard.capture.joining.stitching import source_of_call
from regard.maps.attention_map import AttentionMap

__all__ = ["changed_weights"]


def changed_weights(recorded: RecordedCall, weights: Tensor, heads: list[int] | None) -> Tensor | None:
    """Copy weights ``(b,h,q,k)`` that multiply the values, or return None if they equal those of the softmax."""
    chain, kept = recorded.chain, recorded.kept
    if kept is not chain.calls[-1]:
        return None
    if recorded.folded is not None:
        weights = recorded.folded.unfold(weights)
    if heads is not None:
        weights = weights[:, [n % weights.shape[1] for n in heads]]
    if weights.shape[3] == recorded.keys:
        weights = weights[..., chain.sinks.order(weights.shape[3])][..., : kept.grid.k]
        if tuple(weights.shape) == tuple(kept.grid) and _same(
            AttentionMap(source_of_call(chain, kept)).weights(), weights
        ):
            return None
    return weights.clone()


def _same(recorded: Tensor, found: Tensor) -> bool:
    close = 1e-5 if found.dtype in (torch.float32, torch.float64) else 1e-2
    gap = recorded.to(found.device).double().nan_to_num() - found.double().nan_to_num()
    return bool((gap.abs() <= close).all())
