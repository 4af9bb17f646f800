"""The key-value cache of an attention layer for step-by-step decoding."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.errors import ShapeError
from regard.shapes import axes

__all__ = ["KeyValueCache"]


class KeyValueCache:
    """The keys and values that one layer has computed in earlier calls, ``(b,h,k,d)``.

    Each call of the layer appends its keys and values. With ``static=True`` the first call fills the cache and later
    calls only read it. This is for cross-attention, whose keys do not change between steps.

    >>> cache = KeyValueCache()
    >>> k, v = cache.append(torch.ones(2, 3, 5, 4), torch.ones(2, 3, 5, 4))
    >>> k, v = cache.append(torch.ones(2, 3, 1, 4), torch.ones(2, 3, 1, 4))
    >>> cache.length, k.shape
    (6, torch.Size([2, 3, 6, 4]))
    """

    def __init__(self, *, static: bool = False):
        self.static = static
        self.keys: Tensor | None = None
        self.values: Tensor | None = None

    @property
    def length(self) -> int:
        """The number of keys in the cache."""
        return 0 if self.keys is None else self.keys.shape[-2]

    @property
    def filled(self) -> bool:
        """True if this is a static cache that holds keys, so that the layer computes none."""
        return self.static and self.keys is not None

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Append the keys and values of new positions, and return all keys and values, the earliest first.

        A batch, number of heads or width other than those in the cache raises ShapeError.
        """
        if self.keys is None or self.values is None:
            self.keys, self.values = k, v
        else:
            _check_like("k", k, self.keys)
            _check_like("v", v, self.values)
            # A concatenation can be differentiated, unlike writing into a buffer. A step reads all keys anyway.
            self.keys = torch.cat([self.keys, k], dim=-2)
            self.values = torch.cat([self.values, v], dim=-2)
        return self.keys, self.values

    def reorder(self, rows: Tensor) -> None:
        """Replace entry ``i`` of the batch by the old entry ``rows[i]``, as beam search does between steps.

        The new batch has ``len(rows)`` entries.
        """
        if self.keys is not None and self.values is not None:
            self.keys, self.values = self.keys[rows], self.values[rows]

    def reset(self) -> None:
        """Empty the cache, for the next sequence."""
        self.keys = self.values = None

    def __repr__(self) -> str:
        held = "empty" if self.keys is None else f"keys {axes(self.keys.shape)}"
        return f"KeyValueCache({held}, static={self.static})"


def _check_like(name: str, new: Tensor, held: Tensor) -> None:
    if new.shape[:-2] != held.shape[:-2] or new.shape[-1] != held.shape[-1]:
        raise ShapeError(
            "cache",
            f"{name} of {axes(new.shape)} does not continue {axes(held.shape)}",
            "use cache.reset() for a new batch, and one cache for each layer",
        )
