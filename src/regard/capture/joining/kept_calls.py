"""The kept tensors of one attention call, without the keys, which its chain holds."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from regard.biases import Bias
from regard.capture.joining.doubts import Doubt
from regard.capture.reading.picture_inputs import PictureInputs
from regard.capture.reading.token_ids import TokenIds
from regard.masks import Mask
from regard.shapes import Grid

__all__ = ["KeptCall"]


@dataclass(slots=True)
class KeptCall:
    """The queries of one call, its mask and its token ids. The keys belong to its chain."""

    # The number of the call among all attention calls, and the forward pass in which it was made.
    order: int
    step: int
    grid: Grid
    # The index of its first key among the keys of the chain.
    first: int = 0
    q: Tensor | None = None  # (b,h,q,d)
    lse: Tensor | None = None  # (b,h,q)
    mask: Mask | None = None
    bias: Bias | None = None
    # (b,h,q,k) if the weights cannot be computed from q and k
    weights: Tensor | None = None
    # Whether the model changed the weights between the softmax and the product with the values.
    changed: bool = False
    # Why the record may not be all that multiplies the values.
    doubt: Doubt | None = None
    # Whether no query attends to a later key. Fully masked rows do not count.
    causal: bool = False
    # The (start, stop) of the keys that this call added to the chain.
    added: tuple[int, int] = (0, 0)
    # A copy of these keys, if a beam search has reordered the chain.
    new: Tensor | None = None
    # The number of hidden keys at the end that were left out, where no cache shows that they are free places.
    left_out: int = 0
    # The number of queries that were removed again as rejected drafts.
    rejected: int = 0
    # Whether its keys continue those of the call before.
    grew: bool = False
    # The token ids given to the modules around the call, innermost first.
    inputs: list[TokenIds] = field(default_factory=list)
    # Whether token ids of outer modules label the call. They do not inside a module that was given an image or a sound.
    worded: bool = True
    # The grids of image patches seen before the call, latest first.
    patches: list[tuple[int, int]] = field(default_factory=list)
    # The pictures among the token ids of the call.
    pictures: PictureInputs | None = None

    @property
    def nbytes(self) -> int:
        """The bytes of the tensors that are kept of the call."""
        held = (self.q, self.lse, self.weights, self.new)
        return sum(x.nbytes for x in held if x is not None)
