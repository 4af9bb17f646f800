"""Special tokens around one text or around a pair of texts, as the input of an encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regard.errors import ArgumentError

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Framed", "Framing"]


@dataclass(frozen=True)
class Framed:
    """The input of an encoder for one text or for a pair.

    ``ids`` are the token ids with the special tokens. ``types``, one for each id, are :attr:`Framing.second_type` for
    the second text and the token after it, and 0 otherwise. ``cut`` is True if tokens were left out at the end of a
    text. ``first`` and ``second`` are the positions of the tokens of each text in ``ids``. ``second`` is None if there
    is one text.
    """

    ids: list[int]
    types: list[int]
    cut: bool
    first: range
    second: range | None = None


@dataclass(frozen=True)
class Framing:
    """The special tokens that a model was trained with.

    ``start`` is the id before the first text, or None. ``end`` is the id after the last text, and ``pad`` that of
    padding. ``between`` are the ids between the two texts of a pair, and ``second_type`` is the type of the tokens of
    the second text and of the end.

    >>> bert = Framing(start=101, end=102, pad=0, between=(102,), second_type=1)
    >>> bert.frame([7, 8], [9])
    Framed(ids=[101, 7, 8, 102, 9, 102], types=[0, 0, 0, 0, 1, 1], cut=False, first=range(1, 3), second=range(4, 5))
    """

    start: int | None
    end: int
    pad: int = 0
    between: tuple[int, ...] = ()
    second_type: int = 1

    def added(self, pair: bool = False) -> int:
        """Return the number of special tokens around one text or, with ``pair``, around and between two."""
        return (self.start is not None) + 1 + (len(self.between) if pair else 0)

    def frame(
        self, first: Sequence[int], second: Sequence[int] | None = None, most: int | None = None
    ) -> Framed:
        """Return the ids of a text, or of two texts, with the special tokens.

        ``most`` is the largest number of ids of the result. If there are more, tokens are left out at the end of the
        longer text, until both texts are equally long or all ids fit. Then both are shortened. A ``most`` without room
        for any token raises ArgumentError.

        >>> Framing(start=None, end=2).frame([7, 8, 9], most=3)
        Framed(ids=[7, 8, 2], types=[0, 0, 0], cut=True, first=range(0, 2), second=None)
        """
        one, two = list(first), list(second or ())
        if most is not None:
            added = self.added(second is not None)
            if most <= added:
                raise ArgumentError("most", f"expected more than the {added} special tokens, got {most}")
            kept = _shares(len(one), len(two), most - added)
            one, two = one[: kept[0]], two[: kept[1]]
        before = [] if self.start is None else [self.start]
        places = range(len(before), len(before) + len(one))
        ids, types = [*before, *one], [0] * (len(before) + len(one))
        if second is None:
            return Framed([*ids, self.end], [*types, 0], len(one) < len(first), places)
        ids, types = [*ids, *self.between], [*types, *[0] * len(self.between)]
        others = range(len(ids), len(ids) + len(two))
        cut = len(one) < len(first) or len(two) < len(second)
        types += [self.second_type] * (len(two) + 1)
        return Framed([*ids, *two, self.end], types, cut, places, others)

    def pad_batch(self, framed: Sequence[Framed]) -> tuple[Tensor, Tensor, Tensor]:
        """Return the ids ``(b,n)``, the types ``(b,n)`` and the lengths ``(b,)`` of several inputs, padded at the end.

        >>> tokens, types, lengths = Framing(start=None, end=2).pad_batch([Framed([7, 2], [0, 0], False, range(1))])
        >>> tokens, lengths
        (tensor([[7, 2]]), tensor([2]))
        """
        import numpy as np
        import torch

        from regard.text.cache import TokenStore

        rows = np.arange(len(framed))
        ids, lengths = TokenStore.from_lists([one.ids for one in framed]).padded(rows, pad=self.pad)
        types, _ = TokenStore.from_lists([one.types for one in framed]).padded(rows)
        return torch.from_numpy(ids), torch.from_numpy(types), torch.from_numpy(lengths)


def _shares(one: int, two: int, room: int) -> tuple[int, int]:
    """Return how many of the ``one`` and ``two`` tokens of two texts are kept, so that they fit into ``room``.

    The longer text is shortened first, then both alike.
    """
    if one + two <= room:
        return one, two
    half = room // 2
    if two <= half:
        return room - two, two
    if one <= room - half:
        return one, room - one
    return room - half, half
