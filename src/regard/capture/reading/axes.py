"""Which axis of a tensor of scores is which: sequences, heads, queries, keys.

Scores come as ``(b,h,q,k)``, but also as ``(b,q,h,k)``, ``(h*b,q,k)`` or with windows on an axis of their own. Where
the product was followed, its queries and keys are known; which of the other axes are heads is told by their number,
which most modules have as an attribute. A user may say it by hand, with a letter for each axis: ``"bqhk"``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from regard.errors import ArgumentError, CaptureError, DtypeError
from regard.shapes import Grid, axes

__all__ = ["Folds", "Lead", "Letters", "moved", "query_axis", "read_lead", "strides_of"]

_COPYING = {Tensor.contiguous, Tensor.clone, torch.clone}
_MULTIPLYING = {torch.matmul, Tensor.matmul, Tensor.__matmul__}
_GROUP = re.compile(r"\(([bh]{2,})\)|([bhqk])")


class Lead(NamedTuple):
    """How the axes in front of queries and keys are read as sequences and heads."""

    sizes: tuple[int, ...]  # of the axes, a folded one taken apart
    b: tuple[int, ...]  # which of them count sequences
    h: tuple[int, ...]  # which of them count heads
    guessed: bool = False  # whether they could be meant in another way

    def grid(self, q: int, k: int) -> Grid:
        b, h = (math.prod(self.sizes[axis] for axis in group) for group in (self.b, self.h))
        return Grid(b, h, q, k)

    def arrange(self, x: Tensor) -> Tensor:
        """``(*lead,m,n)`` as ``(b,h,m,n)``; the axes in front may be folded."""
        m, n = x.shape[-2:]
        if self.b == (0,) and self.h == (1,):  # as they are
            return x.reshape(*self.sizes, m, n)
        x = x.reshape(*self.sizes, m, n).permute(*self.b, *self.h, -2, -1)
        return x.reshape(self.grid(m, n))

    def fit(self, part: Tensor, lead: Sequence[int]) -> Tensor:
        """The same for a part that broadcasts along some of the axes: ``(b or 1,h or 1,m,n)``."""
        *_, m, n = part.shape
        if part.numel() == m * n:
            return part.reshape(1, 1, m, n)
        if len(lead) != len(self.sizes):  # a folded axis
            return self.arrange(part.expand(*lead, m, n))
        part = part.permute(*self.b, *self.h, -2, -1)
        whole = [self.sizes[axis] for axis in (*self.b, *self.h)]
        groups = (range(len(self.b)), range(len(self.b), len(whole)))
        for group in groups:
            if all(part.shape[axis] == 1 for axis in group):
                for axis in group:
                    whole[axis] = 1
        b, h = (math.prod(whole[axis] for axis in group) for group in groups)
        return part.expand(*whole, m, n).reshape(b, h, m, n)


def read_lead(
    sizes: Sequence[int],
    heads: int | None,
    batches: Collection[int] = (),
    *,
    strides: Sequence[int] = (),
    heads_first: bool | None = None,
) -> Lead:
    """Which of the axes in front of queries and keys are heads.

    ``heads`` is what the module says of itself, ``batches`` are sizes of batches that it was given, ``strides`` those
    of the same axes in the queries, where they are known, and ``heads_first`` tells how one folded axis was made.

    >>> read_lead((3, 2), 3)
    Lead(sizes=(3, 2), b=(1,), h=(0,), guessed=False)
    """
    sizes, count = tuple(sizes), len(sizes)
    if count == 0:
        return Lead((1, 1), (0,), (1,))
    if count == 1:
        if not heads or sizes[0] % heads or sizes[0] in batches:
            return Lead((*sizes, 1), (0,), (1,))
        if heads_first:
            return Lead((heads, sizes[0] // heads), (1,), (0,))
        guessed = heads_first is None and 1 < heads < sizes[0]
        return Lead((sizes[0] // heads, heads), (0,), (1,), guessed)
    if count == 3 and heads and heads == sizes[1] * sizes[2]:  # groups of heads that share their keys
        return Lead(sizes, (0,), (1, 2))
    found = [axis for axis, size in enumerate(sizes) if size == heads]
    found = found[1:] if len(found) > 1 and found[0] == 0 else found  # sequences come first, mostly
    if len(found) > 1 and strides:  # heads lie next to one another in the width of a model, windows do not
        found = [min(found, key=lambda axis: strides[axis])]
    usual = count - 1
    axis = found[0] if len(found) == 1 else 1 if 1 in found else usual
    others = tuple(n for n in range(count) if n != axis)
    return Lead(sizes, others, (axis,), guessed=count > 2 and len(found) != 1)


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


class Letters(NamedTuple):
    """The axes of scores as a user names them: ``"bqhk"``, or ``"(hb)qk"`` for heads folded into the batch."""

    text: str
    groups: tuple[str, ...]

    @classmethod
    def read(cls, text: object) -> Letters:
        """Read what was given with a module; what cannot be meant is refused."""
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

    def place(self, name: str, shape: Sequence[int], heads: int | None) -> tuple[int, int, Lead]:
        """The axes of queries and keys of a tensor, and how the others are read."""
        if len(self.groups) != len(shape):
            told = f"{name}: the axes {self.text!r} were given, but its scores are {axes(tuple(shape))}"
            raise CaptureError(f"{told}: give a letter for each axis in modules=")
        lead = [(group, n) for group, n in zip(self.groups, shape, strict=True) if group not in "qk"]
        sizes: list[int] = []
        letters = ""
        for group, n in lead:
            sizes += self._parts(name, group, n, heads) if len(group) > 1 else [n]
            letters += group
        found = {letter: tuple(a for a, x in enumerate(letters) if x == letter) for letter in "bh"}
        for letter in "bh":  # an axis that is not there has one entry
            if not found[letter]:
                found[letter] = (len(sizes),)
                sizes.append(1)
        return self.groups.index("q"), self.groups.index("k"), Lead(tuple(sizes), found["b"], found["h"])

    def _parts(self, name: str, group: str, size: int, heads: int | None) -> list[int]:
        if sorted(group) != ["b", "h"] or not heads or size % heads:
            told = f"{name}: an axis of {size} cannot be taken apart as ({group})"
            has = (
                f"its module says {heads} heads" if heads else "its module does not say how many heads it has"
            )
            raise CaptureError(f"{told}, {has}: set module.num_heads, or give the axes of another tensor")
        return [heads if letter == "h" else size // heads for letter in group]


class Folds:
    """How heads were folded into the batch: seen when the model joined two axes to one."""

    def __init__(self) -> None:
        # Of an axis, the size of its outer part, and whether that has the smaller stride: heads do, sequences do not.
        # The second is None where nothing shows it.
        self._outer: dict[int, tuple[int, bool | None]] = {}
        # Of axes in front of queries or keys, their strides by their sizes.
        self._strides: dict[tuple[int, ...], tuple[int, ...]] = {}
        # Of copies, by the address of their first number: the strides of the tensor that was copied.
        self._copies: dict[int, tuple[StorageWeakRef, tuple[int, ...], tuple[int, ...]]] = {}

    def clear(self) -> None:
        self._outer.clear()
        self._strides.clear()
        self._copies.clear()

    def saw(self, func: Any, args: tuple, kwargs: dict[str, Any], result: Tensor) -> None:
        """Take note of a function that multiplied, copied or joined tensors."""
        if result.ndim > 4:
            if func in _MULTIPLYING:
                self.multiplied(*args[:2])
        elif func in (torch.cat, torch.concat):
            self.stacked(args[0] if args else None, kwargs.get("dim", *args[1:2]))
        elif args and type(args[0]) is Tensor:
            if func in _COPYING:
                self.copied(args[0], result)
            else:
                self.reshaped(args[0], result)

    def copied(self, before: Tensor, after: Tensor) -> None:
        """Take note of a copy on four axes, whose strides no longer show which of two equal axes is the heads."""
        sizes = after.shape
        if after.ndim != 4 or (sizes[0] != sizes[1] != sizes[2]) or before.data_ptr() == after.data_ptr():
            return
        ref = StorageWeakRef(after.untyped_storage())
        self._copies[after.data_ptr()] = (ref, tuple(sizes), self._made_with(before))

    def _made_with(self, x: Tensor) -> tuple[int, ...]:
        """The strides of a tensor, or of the one that it is a copy of."""
        ref, sizes, strides = self._copies.get(x.data_ptr(), (None, (), ()))
        return strides if ref is not None and not ref.expired() and sizes == tuple(x.shape) else x.stride()

    def multiplied(self, *sides: object) -> None:
        """Take note of how queries and keys lay in memory before their product."""
        for x in sides:
            if isinstance(x, Tensor) and x.ndim > 4 and not x.is_contiguous():
                self._strides.setdefault(tuple(x.shape[:-2]), x.stride()[:-2])

    def strides(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """The strides of axes of these sizes in queries or keys; none where they are not known."""
        return self._strides.get(tuple(sizes), ())

    def stacked(self, parts: object, axis: object) -> None:
        """Take note of tensors that were put behind one another."""
        if axis not in (0, None) or not isinstance(parts, list | tuple) or len(parts) < 2:
            return
        if isinstance(parts[0], Tensor) and parts[0].ndim == 3:
            self._outer[parts[0].shape[0] * len(parts)] = (len(parts), True)

    def reshaped(self, before: Tensor, after: Tensor) -> None:
        """Take note of two axes that were joined: (b*h,n,d), (n,b*h,d), or (3,b*h,n,d) for all three at once."""
        if after.ndim not in (3, 4) or before.ndim < 3:
            return
        old, new = before.shape, after.shape
        at = next((n for n, sizes in enumerate(zip(old, new, strict=False)) if sizes[0] != sizes[1]), 2)
        if at < 2 and new[at] > old[at] > 0 and new[at] % old[at] == 0 and at + 1 < before.ndim:
            nearer = self._is_nearer(before, at) if old[at] * old[at + 1] == new[at] else False
            if nearer is not None or new[at] not in self._outer:
                self._outer[new[at]] = (old[at], nearer)

    def _is_nearer(self, x: Tensor, axis: int) -> bool | None:
        """Whether an axis had a smaller stride than the next before it was copied; None where nothing shows it."""
        step = self._made_with(x)
        if x.is_contiguous() and step == x.stride():
            return None
        return step[axis] < step[axis + 1]

    def is_ambiguous(self, size: int, heads: int | None) -> bool:
        """Whether an axis of so many joins as many sequences as heads, and nothing shows which of them is outer."""
        return heads is not None and heads * heads == size and self._outer.get(size) == (heads, None)

    def heads_first(self, size: int, heads: int | None) -> bool | None:
        """Whether an axis of so many holds all sequences of a head, and then those of the next; None if unknown."""
        outer, nearer = self._outer.get(size, (0, False))
        if not outer or not heads:
            return None
        if heads * heads == size:
            return nearer
        return True if outer == heads else False if outer * heads == size else None


def strides_of(*sides: Tensor) -> tuple[int, ...]:
    """The strides of the axes in front, of the first side that has them as the model made them."""
    made = next((x for x in sides if x.ndim > 4 and not x.is_contiguous()), None)
    return () if made is None else made.stride()[:-2]


def moved(x: Tensor, rows: int, columns: int) -> Tensor:
    """With the axes of queries and keys at the end."""
    if (rows, columns) == (x.ndim - 2, x.ndim - 1):
        return x
    return torch.movedim(x, (rows, columns), (-2, -1))
