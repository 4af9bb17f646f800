"""The base of all masks, and the logic that combines them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.errors import MaskError
from regard.masks.tiling import ALL, SOME, Blocking
from regard.shapes import Grid

__all__ = ["And", "Mask", "Not", "Or"]


class Mask:
    """Which keys each query may see. Combine with ``&``, ``|`` and ``~``."""

    def allow(self, i: Tensor, j: Tensor, grid: Grid) -> Tensor:
        """Whether query ``i`` may see key ``j``, for index tensors that broadcast together.

        The result is boolean, ``(b or 1, h or 1, *shape of i and j broadcast)``.
        """
        raise NotImplementedError  # every mask below has its own

    def classify(self, rows: Blocking, cols: Blocking, grid: Grid) -> np.ndarray:
        """For every pair of a query block and a key block: NONE, SOME or ALL of it may be attended.

        SOME is always a safe answer, and the one for rules that live in a tensor.
        """
        return np.full((len(rows), len(cols)), SOME, dtype=np.int8)

    def check(self, grid: Grid) -> None:
        """Raise if this mask cannot be used for these sizes."""

    def seen_keys(self, grid: Grid) -> Tensor | None:
        """Keys that some query may see, ``(b or 1, h or 1, k)``; None when that is all of them."""
        return None

    @property
    def rule(self) -> tuple:
        """A hashable description for caching plans; all that lives in a tensor is called just that."""
        return ("tensor",)

    @property
    def symbolic(self) -> bool:
        """Whether the rule says everything, with no tensor of the user's behind it."""
        return False

    @property
    def per_key(self) -> bool:
        """Whether a key is hidden from all queries alike, as padding is."""
        return False

    @property
    def is_sparse(self) -> bool:
        """Whether the rule leaves out whole blocks, so that a kernel gains by skipping them."""
        return False

    def pivots(self) -> tuple[int, ...]:
        """Key positions whose rows and columns are dense (global tokens); kernels take them first."""
        return ()

    def simplified(self, grid: Grid) -> Mask | None:
        """The same mask for these sizes, or None when it hides nothing."""
        return self

    def part(self, b: slice, h: slice) -> Mask:
        """The same mask for some batch entries and heads, so that nothing is computed for the others."""
        return self

    def map_tensors(self, change: Callable[[Tensor], Tensor]) -> Mask:
        """A copy whose tensors went through ``change``."""
        changed: dict[str, Any] = {}
        for field in fields(self):  # type: ignore[arg-type]  # every concrete mask is a dataclass
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                changed[field.name] = change(value)
            elif isinstance(value, Mask):
                changed[field.name] = value.map_tensors(change)
        return replace(self, **changed) if changed else self  # type: ignore[type-var]

    def dense(self, grid: Grid, device: torch.device | str | None = None) -> Tensor:
        """The mask as a boolean tensor, ``(b or 1, h or 1, q, k)``.

        >>> from regard.masks import causal
        >>> causal().dense(Grid(1, 1, 2, 3))[0, 0].int()
        tensor([[1, 1, 0],
                [1, 1, 1]], dtype=torch.int32)
        """
        self.check(grid)
        i = torch.arange(grid.q, device=device)[:, None]
        j = torch.arange(grid.k, device=device)[None, :]
        return self.allow(i, j, grid)

    def __and__(self, other: Mask | Tensor) -> Mask:
        return And(self, _as_mask(other))

    def __or__(self, other: Mask | Tensor) -> Mask:
        return Or(self, _as_mask(other))

    def __rand__(self, other: Tensor) -> Mask:
        return And(_as_mask(other), self)

    def __ror__(self, other: Tensor) -> Mask:
        return Or(_as_mask(other), self)

    def __invert__(self) -> Mask:
        return Not(self)

    def __bool__(self) -> bool:
        raise MaskError(
            "mask", "a mask has no truth value", "combine masks with & | ~, not with and, or, not"
        )

    @staticmethod
    def from_additive(mask: Tensor) -> Mask:
        """A mask from 0 (keep) and -inf (hide).

        >>> Mask.from_additive(torch.tensor([[0.0, float("-inf")]])).dense(Grid(1, 1, 1, 2))
        tensor([[[[ True, False]]]])
        """
        if not (isinstance(mask, Tensor) and mask.is_floating_point()):
            raise MaskError("mask", f"expected a float tensor of 0 and -inf, got {_kind(mask)}")
        if not ((mask == 0) | (mask == float("-inf"))).all():
            raise MaskError(
                "mask",
                "expected only 0 and -inf, found other numbers",
                "finite numbers are a bias: pass bias=...",
            )
        return _stored().Stored(mask == 0)

    @staticmethod
    def from_key_padding_mask(mask: Tensor) -> Mask:
        """A mask from the ``key_padding_mask`` of ``nn.MultiheadAttention``, where True means *ignore*.

        >>> Mask.from_key_padding_mask(torch.tensor([[False, True]])).dense(Grid(1, 1, 1, 2))
        tensor([[[[ True, False]]]])
        """
        if not (isinstance(mask, Tensor) and mask.ndim == 2):
            raise MaskError("mask", f"expected a (b,k) tensor, got {_kind(mask)}")
        if mask.is_floating_point():
            Mask.from_additive(mask)  # refuses other numbers
            mask = mask != 0
        if mask.dtype != torch.bool:
            raise MaskError("mask", f"expected a boolean (b,k) tensor, got {mask.dtype}", "use mask.bool()")
        return _stored().Padding(~mask)


@dataclass(frozen=True, eq=False)
class And(Mask):
    """What both masks keep."""

    left: Mask
    right: Mask

    def allow(self, i: Tensor, j: Tensor, grid: Grid) -> Tensor:
        return self.left.allow(i, j, grid) & self.right.allow(i, j, grid)

    def classify(self, rows: Blocking, cols: Blocking, grid: Grid) -> np.ndarray:
        return np.minimum(self.left.classify(rows, cols, grid), self.right.classify(rows, cols, grid))

    def check(self, grid: Grid) -> None:
        self.left.check(grid)
        self.right.check(grid)

    def seen_keys(self, grid: Grid) -> Tensor | None:
        if not (self.left.per_key or self.right.per_key):
            return seen_by_looking(self, grid)  # what both see need not be what they see together
        left, right = self.left.seen_keys(grid), self.right.seen_keys(grid)
        if left is None or right is None:
            return right if left is None else left
        return left.to(right.device) & right

    def part(self, b: slice, h: slice) -> Mask:
        return And(self.left.part(b, h), self.right.part(b, h))

    @property
    def rule(self) -> tuple:
        return ("and", self.left.rule, self.right.rule)

    @property
    def symbolic(self) -> bool:
        return self.left.symbolic and self.right.symbolic

    @property
    def is_sparse(self) -> bool:
        return self.left.is_sparse or self.right.is_sparse

    def pivots(self) -> tuple[int, ...]:
        return self.left.pivots() + self.right.pivots()

    def simplified(self, grid: Grid) -> Mask | None:
        left, right = self.left.simplified(grid), self.right.simplified(grid)
        if left is None or right is None:
            return right if left is None else left
        return self if (left is self.left and right is self.right) else And(left, right)


@dataclass(frozen=True, eq=False)
class Or(Mask):
    """What either mask keeps."""

    left: Mask
    right: Mask

    def allow(self, i: Tensor, j: Tensor, grid: Grid) -> Tensor:
        return self.left.allow(i, j, grid) | self.right.allow(i, j, grid)

    def classify(self, rows: Blocking, cols: Blocking, grid: Grid) -> np.ndarray:
        return np.maximum(self.left.classify(rows, cols, grid), self.right.classify(rows, cols, grid))

    def check(self, grid: Grid) -> None:
        self.left.check(grid)
        self.right.check(grid)

    def seen_keys(self, grid: Grid) -> Tensor | None:
        left, right = self.left.seen_keys(grid), self.right.seen_keys(grid)
        return None if left is None or right is None else left.to(right.device) | right

    def part(self, b: slice, h: slice) -> Mask:
        return Or(self.left.part(b, h), self.right.part(b, h))

    @property
    def rule(self) -> tuple:
        return ("or", self.left.rule, self.right.rule)

    @property
    def symbolic(self) -> bool:
        return self.left.symbolic and self.right.symbolic

    @property
    def is_sparse(self) -> bool:
        return self.left.is_sparse and self.right.is_sparse

    def pivots(self) -> tuple[int, ...]:
        return self.left.pivots() + self.right.pivots()

    def simplified(self, grid: Grid) -> Mask | None:
        if self.left.simplified(grid) is None or self.right.simplified(grid) is None:
            return None
        return self


@dataclass(frozen=True, eq=False)
class Not(Mask):
    """What a mask hides."""

    inner: Mask

    def allow(self, i: Tensor, j: Tensor, grid: Grid) -> Tensor:
        return ~self.inner.allow(i, j, grid)

    def classify(self, rows: Blocking, cols: Blocking, grid: Grid) -> np.ndarray:
        return ALL - self.inner.classify(rows, cols, grid)

    def check(self, grid: Grid) -> None:
        self.inner.check(grid)

    def seen_keys(self, grid: Grid) -> Tensor | None:
        return seen_by_looking(self, grid)

    @property
    def per_key(self) -> bool:
        return self.inner.per_key

    def part(self, b: slice, h: slice) -> Mask:
        return Not(self.inner.part(b, h))

    @property
    def rule(self) -> tuple:
        return ("not", self.inner.rule)

    @property
    def symbolic(self) -> bool:
        return self.inner.symbolic

    @property
    def is_sparse(self) -> bool:
        return self.inner.is_sparse


_SEEN: dict[tuple, Tensor | None] = {}  # what looking found, for rules


def seen_by_looking(mask: Mask, grid: Grid) -> Tensor | None:
    """Keys that some query may see, ``(b or 1, h or 1, k)``, for masks that have no shortcut."""
    if not mask.symbolic or torch.compiler.is_compiling():
        return mask.dense(grid).any(dim=2).expand(-1, -1, grid.k)
    key = (mask.rule, grid.q, grid.k)
    if key not in _SEEN:
        if len(_SEEN) > 256:
            _SEEN.clear()
        with torch.inference_mode(False):  # it outlives this call
            seen = _look(mask, grid)
        _SEEN[key] = None if bool(seen.all()) else seen
    return _SEEN[key]


def _look(mask: Mask, grid: Grid) -> Tensor:
    """Ask the rule of whole blocks first, and of single pairs only where a block is kept in part."""
    rows, cols = Blocking(np.arange(grid.q), 64), Blocking(np.arange(grid.k), 64)
    found = mask.classify(rows, cols, grid)  # (row blocks, col blocks)
    sure = (found == ALL).any(axis=0)  # seen whole by some block of queries
    row, col = np.nonzero((found == SOME) & ~sure[None, :])
    count = torch.zeros(1, 1, len(cols), 64, dtype=torch.int32)
    count[:, :, torch.from_numpy(sure)] = 1
    for at in range(0, len(row), 1024):
        chosen = slice(at, at + 1024)
        i, j = (torch.from_numpy(x.index[y[chosen]]) for x, y in ((rows, row), (cols, col)))
        keep = mask.allow(i.clamp(min=0)[:, :, None], j.clamp(min=0)[:, None, :], grid) & (i >= 0)[:, :, None]
        part = keep.any(dim=3).int()  # (1, heads of the mask, pairs, 64)
        count = count.expand(-1, max(count.shape[1], part.shape[1]), -1, -1).contiguous()
        count.index_add_(2, torch.from_numpy(col[chosen]), part.expand(-1, count.shape[1], -1, -1))
    return (count > 0).flatten(2)[..., : grid.k]


def _stored():
    from regard.masks import stored  # later than this module: a stored mask is a Mask

    return stored


def _as_mask(other: Mask | Tensor) -> Mask:
    return _stored().as_mask(other)


def _kind(value: object) -> str:
    return f"{value.dtype} of {value.ndim} axes" if isinstance(value, Tensor) else type(value).__name__
