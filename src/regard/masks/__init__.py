"""Boolean attention masks that combine with ``&``, ``|`` and ``~``.

True always means *may be attended*. A mask holds a rule about query and key indices and becomes a tensor only
when a kernel needs one.

>>> from regard.shapes import Grid
>>> mask = causal() & padding([3, 2])
>>> mask.dense(Grid(b=2, h=1, q=3, k=3))[1, 0].int()
tensor([[1, 0, 0],
        [1, 1, 0],
        [1, 1, 0]], dtype=torch.int32)

``causal`` and ``window`` are aligned to the END of the keys when there are more keys than queries, as with a
key-value cache. Numbers other than 0 and -inf are a bias, not a mask.
"""

from regard.masks.base import Mask
from regard.masks.rules import blocks, causal, global_tokens, window
from regard.masks.stored import as_mask, padding, split_additive

__all__ = ["Mask", "as_mask", "blocks", "causal", "global_tokens", "padding", "split_additive", "window"]
