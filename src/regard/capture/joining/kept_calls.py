"""The queries of one attention call and what belongs to them, as they are kept."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from regard.biases import Bias
from regard.capture.reading.token_ids import TokenIds
from regard.masks import Mask
from regard.shapes import Grid

__all__ = ["KeptCall"]


@dataclass(slots=True)
class KeptCall:
    """The queries of one call, its mask and its token ids. The keys belong to its chain."""

    order: int  # among all calls
    step: int  # which call of the model it was made in
    grid: Grid
    first: int = 0  # the key of the chain that is its first
    q: Tensor | None = None  # (b,h,q,d)
    lse: Tensor | None = None  # (b,h,q)
    mask: Mask | None = None
    bias: Bias | None = None
    weights: Tensor | None = None  # (b,h,q,k) where there are no q and k
    # Whether the model changed the weights between the softmax and the product with the values.
    changed: bool = False
    doubtful: bool = False  # whether the model may have multiplied the values by others
    # Whether no query attends to a later key. Fully masked rows do not count.
    causal: bool = False
    added: tuple[int, int] = (0, 0)  # the keys of the chain that came with it
    new: Tensor | None = None  # these keys themselves, once a beam search has reordered the chain
    rejected: int = 0  # queries that came with it and were taken out again
    grew: bool = False  # whether it went on from the keys of the call before
    inputs: list[TokenIds] = field(default_factory=list)  # innermost first
    # Whether token ids from outside label the call. Inside a module that was given a picture or a sound they do not.
    worded: bool = True
    patches: list[tuple[int, int]] = field(
        default_factory=list
    )  # grids of patches seen before it, latest first

    @property
    def nbytes(self) -> int:
        held = (self.q, self.lse, self.weights, self.new)
        return sum(x.nbytes for x in held if x is not None)
