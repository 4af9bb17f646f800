"""Removes draft tokens that a model has rejected from kept calls.

Assisted and prompt-lookup decoding of Hugging Face run the model over several proposed tokens at once, and then crop
its cache to those that it accepts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from regard.biases import Bias, StoredBias, dense_bias
from regard.capture.reading.masks import is_causal_mask, recognise
from regard.masks import Mask
from regard.masks.base import And
from regard.masks.rules import Causal, Window
from regard.masks.stored import Padding
from regard.shapes import Grid

if TYPE_CHECKING:
    from regard.capture.joining.kept_calls import KeptCall

__all__ = ["without_last_rows"]


@torch.no_grad()
def without_last_rows(kept: KeptCall, count: int, *, keys: bool) -> bool:
    """Remove the last ``count`` queries of a call, and with ``keys`` as many keys.

    Returns False, and removes nothing, if other queries attend to these keys.
    """
    old = kept.grid
    new = old._replace(q=old.q - count, k=old.k - count if keys else old.k)
    if keys and not _unseen_by_others(kept, new):
        return False
    if kept.mask is not None:
        kept.mask = _cut_mask(kept.mask, old, new)
    if kept.bias is not None:
        kept.bias = _cut_bias(kept.bias, old, new)
    if kept.weights is not None:
        kept.weights = kept.weights[:, :, : new.q, : new.k].clone()
    kept.q = None if kept.q is None else kept.q[:, :, : new.q].clone()
    kept.lse = None if kept.lse is None else kept.lse[:, :, : new.q].clone()
    kept.grid, kept.rejected = new, kept.rejected + count
    if keys:
        kept.added = (kept.added[0], kept.added[1] - count)
    return True


def _unseen_by_others(kept: KeptCall, new: Grid) -> bool:
    """Return whether the remaining queries have no weight on the removed keys."""
    if kept.weights is not None:
        return not bool(kept.weights[:, :, : new.q, new.k :].any())
    return kept.causal or is_causal_mask(kept.mask, kept.grid)


def _cut_mask(mask: Mask, old: Grid, new: Grid) -> Mask | None:
    if isinstance(mask, And):
        parts = [cut for side in (mask.left, mask.right) if (cut := _cut_mask(side, old, new)) is not None]
        return And(*parts) if len(parts) == 2 else parts[0] if parts else None
    # Removing as many queries as keys leaves these rules as they are.
    if isinstance(mask, Causal | Window) and new.shift == old.shift:
        return mask
    if isinstance(mask, Padding):
        lengths = mask.keep.ndim == 1
        return Padding(mask.keep.clamp(max=new.k) if lengths else mask.keep[:, : new.k])
    return recognise(mask.dense(old)[:, :, : new.q, : new.k], new)


def _cut_bias(bias: Bias, old: Grid, new: Grid) -> Bias:
    values = bias.values if isinstance(bias, StoredBias) else dense_bias(bias, old, torch.device("cpu"))
    return StoredBias(values[:, :, : new.q, : new.k])
