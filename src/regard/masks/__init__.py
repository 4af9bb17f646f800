"""Masks: boolean values that compose, and stay symbolic until a kernel needs a tensor.

True means *may be attended*, everywhere. A mask knows a rule, not a matrix:

>>> from regard.shapes import Grid
>>> mask = causal() & padding([3, 2])
>>> mask.dense(Grid(b=2, h=1, q=3, k=3))[1, 0].int()
tensor([[1, 0, 0],
        [1, 1, 0],
        [1, 1, 0]], dtype=torch.int32)

``causal`` and ``window`` are aligned to the END of the keys when the lengths differ, so that a query which
continues a cache sees what it should. Numbers other than 0 and -inf are not a mask but a bias.
"""

from regard.masks.base import Mask
from regard.masks.rules import blocks, causal, global_tokens, window
from regard.masks.stored import as_mask, padding, split_additive

__all__ = ["Mask", "as_mask", "blocks", "causal", "global_tokens", "padding", "split_additive", "window"]
