"""The axes of a tensor of scores, read as sequences, heads, queries and keys.

Scores come as ``(b,h,q,k)``, but also as ``(b,q,h,k)``, ``(h*b,q,k)`` or with windows on an axis of their own. Where
the product was followed, its queries and keys are known; which of the other axes are heads is told by their number,
which most modules have as an attribute. A user may say it by hand, with a letter for each axis: ``"bqhk"``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from regard.errors import ArgumentError, CaptureError, DtypeError
from regard.shapes import Grid, axes

__all__ = [
    "AxisLetters",
    "LeadingAxes",
    "SoftmaxContext",
    "moved",
    "query_axis",
    "read_leading_axes",
    "strides_of",
]

_GROUP = re.compile(r"\(([bh]{2,})\)|([bhqk])")


class LeadingAxes(NamedTuple):
    """How the axes in front of queries and keys are read as sequences and heads."""

    sizes: tuple[int, ...]  # of the axes, a folded one taken apart
    b: tuple[int, ...]  # which of them count sequences
    h: tuple[int, ...]  # which of them count heads
    guessed: bool = False  # whether they could be meant in another way

    def grid(self, q: int, k: int) -> Grid:
        b, h = (math.prod(self.sizes[axis] for axis in group) for group in (self.b, self.h))
        return Grid(b, h, q, k)

    def arrange(self, x: Tensor) -> Tensor:
        """Reshape ``(*leading,m,n)``, whose leading axes may be folded, to ``(b,h,m,n)``."""
        m, n = x.shape[-2:]
        if self.b == (0,) and self.h == (1,):  # as they are
            return x.reshape(*self.sizes, m, n)
        x = x.reshape(*self.sizes, m, n).permute(*self.b, *self.h, -2, -1)
        return x.reshape(self.grid(m, n))

    def fit(self, part: Tensor, leading: Sequence[int]) -> Tensor:
        """Reshape a tensor that broadcasts along some of the axes to ``(b or 1,h or 1,m,n)``."""
        *_, m, n = part.shape
        if part.numel() == m * n:
            return part.reshape(1, 1, m, n)
        if len(leading) != len(self.sizes):  # a folded axis
            return self.arrange(part.expand(*leading, m, n))
        part = part.permute(*self.b, *self.h, -2, -1)
        whole = [self.sizes[axis] for axis in (*self.b, *self.h)]
        groups = (range(len(self.b)), range(len(self.b), len(whole)))
        for group in groups:
            if all(part.shape[axis] == 1 for axis in group):
                for axis in group:
                    whole[axis] = 1
        b, h = (math.prod(whole[axis] for axis in group) for group in groups)
        return part.expand(*whole, m, n).reshape(b, h, m, n)


def read_leading_axes(
    sizes: Sequence[int],
    heads: int | None,
    batches: Collection[int] = (),
    *,
    strides: Sequence[int] = (),
    heads_first: bool | None = None,
) -> LeadingAxes:
    """Which of the axes in front of queries and keys are heads.

    ``heads`` is what the module says of itself, ``batches`` are sizes of batches that it was given, ``strides`` those
    of the same axes in the queries, where they are known, and ``heads_first`` tells how one folded axis was made.

    >>> read_leading_axes((3, 2), 3)
    LeadingAxes(sizes=(3, 2), b=(1,), h=(0,), guessed=False)
    """
    sizes, count = tuple(sizes), len(sizes)
    if count == 0:
        return LeadingAxes((1, 1), (0,), (1,))
    if count == 1:
        if not heads or sizes[0] % heads or sizes[0] in batches:
            return LeadingAxes((*sizes, 1), (0,), (1,))
        if heads_first:
            return LeadingAxes((heads, sizes[0] // heads), (1,), (0,))
        guessed = heads_first is None and 1 < heads < sizes[0]
        return LeadingAxes((sizes[0] // heads, heads), (0,), (1,), guessed)
    if count == 3 and heads and heads == sizes[1] * sizes[2]:  # groups of heads that share their keys
        return LeadingAxes(sizes, (0,), (1, 2))
    found = [axis for axis, size in enumerate(sizes) if size == heads]
    found = found[1:] if len(found) > 1 and found[0] == 0 else found  # sequences come first, mostly
    if len(found) > 1 and strides:  # heads lie next to one another in the width of a model, windows do not
        found = [min(found, key=lambda axis: strides[axis])]
    usual = count - 1
    axis = found[0] if len(found) == 1 else 1 if 1 in found else usual
    others = tuple(n for n in range(count) if n != axis)
    return LeadingAxes(sizes, others, (axis,), guessed=count > 2 and len(found) != 1)


def query_axis(
    shape: Sequence[int], key: int, heads: int | None, queries: int | None = None
) -> tuple[int, bool]:
    """Which axis of a softmax over ``key`` counts the queries, and whether that is a guess.

    ``queries`` is how many the product had that the scores were made of, where that is known.

    >>> query_axis((2, 7, 3, 5), 3, heads=3)
    (1, False)
    """
    others = [axis for axis in range(len(shape)) if axis != key]
    usual = others[-1]
    queries = queries if queries in [shape[axis] for axis in others] else None
    if len(others) < 3:
        return usual, False
    possible = [
        axis
        for axis in others[1:]
        if (queries is None or shape[axis] == queries)
        and (heads is None or any(shape[n] == heads for n in others if n != axis))
    ]
    found = usual if usual in possible or not possible else possible[-1]
    return found, len(possible) != 1


class AxisLetters(NamedTuple):
    """The axes of scores as a user names them, such as ``"bqhk"``, or ``"(hb)qk"`` for heads folded into the batch."""

    text: str
    groups: tuple[str, ...]

    @classmethod
    def read(cls, text: object) -> AxisLetters:
        """Read the letters that were given for a module. Others than b, h, q and k are an error."""
        if not isinstance(text, str):
            raise DtypeError("modules", f"expected the axes as letters, got {text!r}", 'for example "bqhk"')
        plain = text.replace(" ", "")
        groups = tuple(a or b for a, b in _GROUP.findall(plain))
        if _GROUP.sub("", plain) or any(sum(letter in g for g in groups) != 1 for letter in "qk"):
            raise ArgumentError(
                "modules",
                f"the axes {text!r} cannot be read",
                "one letter for each axis: b (sequences) and h (heads) as often as needed, q and k once, "
                'as in "bqhk"; "(hb)qk" for heads folded into the batch',
            )
        return cls(text, groups)

    def place(self, name: str, shape: Sequence[int], heads: int | None) -> tuple[int, int, LeadingAxes]:
        """The axes of queries and keys of a tensor, and how the others are read."""
        if len(self.groups) != len(shape):
            told = f"{name}: the axes {self.text!r} were given, but its scores are {axes(tuple(shape))}"
            raise CaptureError(f"{told}: give a letter for each axis in modules=")
        leading = [(group, n) for group, n in zip(self.groups, shape, strict=True) if group not in "qk"]
        sizes: list[int] = []
        letters = ""
        for group, n in leading:
            sizes += self._parts(name, group, n, heads) if len(group) > 1 else [n]
            letters += group
        found = {letter: tuple(a for a, x in enumerate(letters) if x == letter) for letter in "bh"}
        for letter in "bh":  # an axis that is not there has one entry
            if not found[letter]:
                found[letter] = (len(sizes),)
                sizes.append(1)
        return (
            self.groups.index("q"),
            self.groups.index("k"),
            LeadingAxes(tuple(sizes), found["b"], found["h"]),
        )

    def _parts(self, name: str, group: str, size: int, heads: int | None) -> list[int]:
        if sorted(group) != ["b", "h"] or not heads or size % heads:
            told = f"{name}: an axis of {size} cannot be taken apart as ({group})"
            has = (
                f"its module says {heads} heads" if heads else "its module does not say how many heads it has"
            )
            raise CaptureError(f"{told}, {has}: set module.num_heads, or give the axes of another tensor")
        return [heads if letter == "h" else size // heads for letter in group]


def strides_of(*sides: Tensor) -> tuple[int, ...]:
    """The strides of the axes in front, of the first side that has them as the model made them."""
    made = next((x for x in sides if x.ndim > 4 and not x.is_contiguous()), None)
    return () if made is None else made.stride()[:-2]


def moved(x: Tensor, rows: int, columns: int) -> Tensor:
    """With the axes of queries and keys at the end."""
    if (rows, columns) == (x.ndim - 2, x.ndim - 1):
        return x
    return torch.movedim(x, (rows, columns), (-2, -1))


class SoftmaxContext(NamedTuple):
    """What is known of the module around a softmax."""

    name: str = ""
    heads: int | None = None  # as it says of itself
    batches: Collection[int] = ()  # the first axes of the sequences that it was given
    letters: AxisLetters | None = None  # the axes as the user gave them
    heads_inside: bool = False  # whether it is known to fold heads into the batch as (b*h)
