"""The axes of a tensor of scores, read as sequences, heads, queries and keys.

Most models compute scores ``(b,h,q,k)``. Others compute ``(b,q,h,k)`` or ``(h*b,q,k)``, or have another axis for
windows. The product that the scores come from shows the axes of queries and keys. The axis of the heads is the one
whose size is the number of heads, which most modules have as an attribute. A user can give a letter for each axis,
such as ``"bqhk"``.
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
    "head_strides",
    "moved",
    "query_axis",
    "read_leading_axes",
    "strides_of",
]

_GROUP = re.compile(r"\(([bh]{2,})\)|([bhqk])")


class LeadingAxes(NamedTuple):
    """The axes of sequences and heads among the axes in front of queries and keys."""

    # The sizes of the axes. A folded axis counts as two.
    sizes: tuple[int, ...]
    # The indices of the axes of sequences, and of those of heads.
    b: tuple[int, ...]
    h: tuple[int, ...]
    # Whether another reading is possible.
    guessed: bool = False

    def grid(self, q: int, k: int) -> Grid:
        """Return the grid of scores with these leading axes, ``q`` queries and ``k`` keys."""
        b, h = (math.prod(self.sizes[axis] for axis in group) for group in (self.b, self.h))
        return Grid(b, h, q, k)

    def arrange(self, x: Tensor) -> Tensor:
        """Reshape ``(*leading,m,n)``, whose leading axes may be folded, to ``(b,h,m,n)``."""
        m, n = x.shape[-2:]
        if self.b == (0,) and self.h == (1,):
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
    """Find the axes of the heads among the axes in front of queries and keys.

    ``heads`` is the number of heads of the module and ``batches`` are the batch sizes of its arguments. ``strides`` are
    those of the same axes in the queries, if they are known. ``heads_first`` says whether a folded axis is (h*b).

    >>> read_leading_axes((3, 2), 3, batches=[2])
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
    # Groups of heads that share their keys.
    if count == 3 and heads and heads == sizes[1] * sizes[2]:
        return LeadingAxes(sizes, (0,), (1, 2))
    found = [axis for axis, size in enumerate(sizes) if size == heads]
    if count == 2 and 0 in found:
        return _two_axes(sizes, len(found) == 2, batches, strides)
    # The first axis is nearly always that of the sequences.
    found = found[1:] if len(found) > 1 and found[0] == 0 else found
    # Heads split the model width, so their stride is smaller than that of windows.
    if len(found) > 1 and strides:
        found = [min(found, key=lambda axis: strides[axis])]
    usual = count - 1
    axis = found[0] if len(found) == 1 else 1 if 1 in found else usual
    others = tuple(n for n in range(count) if n != axis)
    return LeadingAxes(sizes, others, (axis,), guessed=count > 2 and len(found) != 1)


def _two_axes(
    sizes: tuple[int, ...], alike: bool, batches: Collection[int], strides: Sequence[int]
) -> LeadingAxes:
    """Choose between (h,b) and (b,h) where the first axis has the size of the module's number of heads.

    Scores may have more or fewer heads than that number, and as many sequences. ``alike`` says that both axes have the
    size. The strides are the strongest evidence, since heads split the model width.
    """
    if strides:
        axis, guessed = int(strides[1] < strides[0]), False
    elif alike:
        axis, guessed = 1, False
    else:
        first, second = (size in batches for size in sizes)
        axis, guessed = int(first), first == second
    return LeadingAxes(sizes, (1 - axis,), (axis,), guessed)


def query_axis(
    shape: Sequence[int], key: int, heads: int | None, queries: int | None = None
) -> tuple[int, bool]:
    """Return the axis of the queries in a softmax over the axis ``key``, and whether it is a guess.

    ``queries`` is the number of queries of the product that the scores come from, if it is known.

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
        """Read the letters that a user gave for a module, or raise an error if they are not b, h, q and k."""
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
            problem = f"{name}: the axes {self.text!r} were given, but its scores are {axes(tuple(shape))}"
            raise CaptureError(f"{problem}: give a letter for each axis in modules=")
        leading = [(group, n) for group, n in zip(self.groups, shape, strict=True) if group not in "qk"]
        sizes: list[int] = []
        letters = ""
        for group, n in leading:
            sizes += self._parts(name, group, n, heads) if len(group) > 1 else [n]
            letters += group
        found = {letter: tuple(a for a, x in enumerate(letters) if x == letter) for letter in "bh"}
        # A missing axis has size 1.
        for letter in "bh":
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
            problem = f"{name}: an axis of {size} cannot be taken apart as ({group})"
            has = (
                f"its module says {heads} heads" if heads else "its module does not say how many heads it has"
            )
            raise CaptureError(f"{problem}, {has}: set module.num_heads, or give the axes of another tensor")
        return [heads if letter == "h" else size // heads for letter in group]


def head_strides(leading: Sequence[int], others: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of sequences and heads, in either order, if they show which are the heads, or else ().

    ``others`` are the strides of tokens and features. Heads that split the model width have a smaller stride than
    tokens and sequences. A contiguous copy does not show this, and neither does an expanded axis.

    >>> head_strides((8, 80), others=(16, 1)), head_strides((80, 40), others=(8, 1))
    ((8, 80), ())
    """
    smaller, larger = sorted(leading)
    return tuple(leading) if 0 < smaller < min(larger, max(others)) else ()


def strides_of(*sides: Tensor) -> tuple[int, ...]:
    """Return the leading strides of the first tensor with five axes or more that is not contiguous, or () if all are.

    The strides of a contiguous copy do not show how the model split its width into heads.
    """
    made = next((x for x in sides if x.ndim > 4 and not x.is_contiguous()), None)
    return () if made is None else made.stride()[:-2]


def moved(x: Tensor, rows: int, columns: int) -> Tensor:
    """Return the tensor with the axes of queries and keys last."""
    if (rows, columns) == (x.ndim - 2, x.ndim - 1):
        return x
    return torch.movedim(x, (rows, columns), (-2, -1))


class SoftmaxContext(NamedTuple):
    """Properties of the module that computes a softmax."""

    name: str = ""
    # The number of heads among its attributes.
    heads: int | None = None
    # The sizes of the first axis of the sequences among its arguments.
    batches: Collection[int] = ()
    # The axes that the user gave.
    letters: AxisLetters | None = None
    # Whether it folds heads into the batch as (b*h).
    heads_inside: bool = False
