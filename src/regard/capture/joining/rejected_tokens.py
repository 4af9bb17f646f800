"""Draft tokens that a model has rejected, taken out of the maps again.

Assisted and prompt-lookup decoding of Hugging Face run the model over several proposed tokens at once, and then crop
its cache to those that it accepts.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from regard.biases import Bias, StoredBias, dense_bias
from regard.capture.reading.masks import is_causal_mask, recognise
from regard.capture.watching.patches import put_back
from regard.masks import Mask
from regard.masks.base import And
from regard.masks.rules import Causal, Window
from regard.masks.stored import Padding
from regard.shapes import Grid

if TYPE_CHECKING:
    from regard.capture.joining.call_chains import Piece
    from regard.capture.reading.running_modules import Frame

__all__ = ["cache_given", "crops_told", "without_last_rows"]

_CACHES = "transformers.cache_utils"


def cache_given(frames: Iterable[Frame]) -> Any:
    """The cache of Hugging Face that one of these modules was given; None if there is none."""
    caches = sys.modules.get(_CACHES)
    if caches is None:
        return None
    given = (x for f in frames for x in (*f.kwargs.values(), *f.args))
    return next((x for x in given if isinstance(x, caches.Cache)), None)


@contextmanager
def crops_told(tell: Callable[[Any, int], None]) -> Iterator[None]:
    """Have it told, as a cache and a number of tokens, when ``generate()`` crops a cache."""
    caches = sys.modules.get(_CACHES)
    kinds = [] if caches is None else [caches.Cache, *_subclasses(caches.Cache)]
    own = {kind: vars(kind)["crop"] for kind in kinds if "crop" in vars(kind)}
    on = [True]
    replacements = {kind: _telling(crop, tell, on) for kind, crop in own.items()}
    for kind, replacement in replacements.items():
        kind.crop = replacement
    try:
        yield
    finally:
        on.clear()
        for kind, crop in own.items():
            put_back(kind, "crop", replacements[kind], crop)


def _subclasses(kind: type) -> Iterator[type]:
    for each in kind.__subclasses__():
        yield each
        yield from _subclasses(each)


def _telling(
    crop: Callable[..., Any], tell: Callable[[Any, int], None], on: list[bool]
) -> Callable[..., Any]:
    """Wrap a method that crops a cache; the wrapper passes its calls on once ``on`` is empty."""

    @functools.wraps(crop)
    def told(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not on:
            return crop(self, *args, **kwargs)
        caller = sys._getframe(1).f_globals.get("__name__", "")
        before = self.get_seq_length()
        result = crop(self, *args, **kwargs)
        # A user who crops a cache goes on from it in another way, and both are of interest.
        if caller.startswith("transformers.generation"):
            tell(self, int(before) - int(self.get_seq_length()))
        return result

    return told


@torch.no_grad()
def without_last_rows(piece: Piece, count: int, *, keys: bool) -> bool:
    """Cut the last queries of a piece, and as many keys if asked; False where other queries looked at those keys."""
    old = piece.grid
    new = old._replace(q=old.q - count, k=old.k - count if keys else old.k)
    if keys and not _unseen_by_others(piece, new):
        return False
    if piece.mask is not None:
        piece.mask = _cut_mask(piece.mask, old, new)
    if piece.bias is not None:
        piece.bias = _cut_bias(piece.bias, old, new)
    if piece.weights is not None:
        piece.weights = piece.weights[:, :, : new.q, : new.k].clone()
    piece.q = None if piece.q is None else piece.q[:, :, : new.q].clone()
    piece.lse = None if piece.lse is None else piece.lse[:, :, : new.q].clone()
    piece.grid, piece.rejected = new, piece.rejected + count
    if keys:
        piece.added = (piece.added[0], piece.added[1] - count)
    return True


def _unseen_by_others(piece: Piece, new: Grid) -> bool:
    """Whether the queries that are kept have no weight on the keys that go."""
    if piece.weights is not None:
        return not bool(piece.weights[:, :, : new.q, new.k :].any())
    return piece.causal or is_causal_mask(piece.mask, piece.grid)


def _cut_mask(mask: Mask, old: Grid, new: Grid) -> Mask | None:
    if isinstance(mask, And):
        parts = [cut for one in (mask.left, mask.right) if (cut := _cut_mask(one, old, new)) is not None]
        return And(*parts) if len(parts) == 2 else parts[0] if parts else None
    if isinstance(mask, Causal | Window) and new.shift == old.shift:
        return mask  # counted from the start, or from the end of queries and keys alike
    if isinstance(mask, Padding):
        lengths = mask.keep.ndim == 1
        return Padding(mask.keep.clamp(max=new.k) if lengths else mask.keep[:, : new.k])
    return recognise(mask.dense(old)[:, :, : new.q, : new.k], new)


def _cut_bias(bias: Bias, old: Grid, new: Grid) -> Bias:
    values = bias.values if isinstance(bias, StoredBias) else dense_bias(bias, old, torch.device("cpu"))
    return StoredBias(values[:, :, : new.q, : new.k])
