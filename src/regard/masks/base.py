"""The base class of all masks, and the masks And, Or and Not that combine others."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.errors import MaskError
from regard.masks.tiling import ALL, SOME, Blocking
from regard.modes import readable
from regard.shapes import Grid, check_grid

__all__ = ["And", "Mask", "Not", "Or"]


class Mask:
    """A boolean rule that says which keys each query may attend to.

    Masks combine with ``&``, ``|`` and ``~``. :meth:`dense` gives the mask as a tensor.
    """

    # Without this, ``array & mask`` of a NumPy array calls the operator once for each of its numbers.
    __array_ufunc__ = None

    def allow(self, i: Tensor, j: Tensor, grid: Grid) -> Tensor:
        """Return whether query ``i`` may attend to key ``j``, for index tensors that broadcast together.

        The result is boolean, ``(b or 1, h or 1, *shape of i and j broadcast)``.
        """
        raise NotImplementedError

    def classify(self, rows: Blocking, cols: Blocking, grid: Grid) -> np.ndarray:
        """Return NONE, SOME or ALL for every pair of a query block and a key block, ``(rows, cols)``.

        NONE means that no query of the block may attend to any key of the other block, ALL that every query
        may attend to every key. SOME is always a correct answer. It is the answer of masks held in a tensor.
        """
        return np.full((len(rows), len(cols)), SOME, dtype=np.int8)

    def check(self, grid: Grid) -> None:
        """Raise an error if the mask does not fit these sizes. Masks that fit any sizes do nothing."""

    def seen_keys(self, grid: Grid) -> Tensor | None:
        """Return which keys at least one query may attend to, ``(b or 1, h or 1, k)``.

        None means all keys.
        """
        return None

    @property
    def rule(self) -> tuple:
        """A hashable description of the rule, used as a cache key.

        Every mask held in a tensor has the same description, ``("tensor",)``.
        """
        return ("tensor",)

    @property
    def symbolic(self) -> bool:
        """True if :attr:`rule` describes the mask completely, so that results can be cached under it."""
        return False

    @property
    def per_key(self) -> bool:
        """True if the kind of mask shows that every query sees the same keys, as with padding."""
        return False

    def covering_rows(self, grid: Grid) -> slice:
        """Return queries that together see every key that any query sees, such as the last one of ``causal()``.

        All queries are always a correct answer.
        """
        return slice(grid.q - 1, grid.q) if self.per_key else slice(0, grid.q)

    @property
    def is_sparse(self) -> bool:
        """True if the rule may mask whole blocks, which a block-sparse kernel can skip."""
        return False

    def pivots(self) -> tuple[int, ...]:
        """Return the key positions of global tokens, whose rows and columns are visible unless another mask hides them.

        Block-sparse kernels move these positions to the front, so that global tokens share blocks.
        """
        return ()

    def simplified(self, grid: Grid) -> Mask | None:
        """Return an equivalent mask for these sizes, or None if its rule shows that it hides nothing."""
        return self

    def part(self, b: slice, h: slice) -> Mask:
        """Return the mask of the batch entries ``b`` and heads ``h`` only."""
        return self

    def map_tensors(self, change: Callable[[Tensor], Tensor]) -> Mask:
        """Return a copy in which every tensor ``t``, also of combined masks, is replaced by ``change(t)``."""
        changed: dict[str, Any] = {}
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                changed[name] = change(value)
            elif isinstance(value, Mask):
                changed[name] = value.map_tensors(change)
        if not changed:
            return self
        mask = copy.copy(self)
        # A frozen dataclass has no other way to set an attribute.
        mask.__dict__.update(changed)
        return mask

    def dense(self, grid: Grid, device: torch.device | str | None = None) -> Tensor:
        """Return the mask as a boolean tensor that broadcasts to ``(b, h, q, k)``, after checking the sizes.

        >>> from regard.masks import causal
        >>> causal().dense(Grid(1, 1, 2, 3))[0, 0].int()
        tensor([[1, 1, 0],
                [1, 1, 1]], dtype=torch.int32)
        """
        check_grid(grid)
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
        """Make a mask from a float tensor of 0 (may be attended) and -inf (masked).

        Raises :class:`regard.errors.MaskError` for any other number.

        >>> Mask.from_additive(torch.tensor([[0.0, float("-inf")]])).dense(Grid(1, 1, 1, 2))
        tensor([[[[ True, False]]]])
        """
        if not (isinstance(mask, Tensor) and mask.is_floating_point()):
            raise MaskError("mask", f"expected a float tensor of 0 and -inf, got {_kind(mask)}")
        _stored().check_mask_type(mask)
        if readable(mask) and not ((mask == 0) | (mask == float("-inf"))).all():
            raise MaskError(
                "mask",
                "expected only 0 and -inf, found other numbers",
                "finite numbers are a bias: pass bias=...",
            )
        return _stored().StoredMask(mask == 0)

    @staticmethod
    def from_key_padding_mask(mask: Tensor) -> Mask:
        """Make a mask from the ``key_padding_mask`` ``(b,k)`` of ``nn.MultiheadAttention``.

        That tensor is True (or -inf, if it is a float tensor) on padding, the opposite of a :class:`Mask`.

        >>> Mask.from_key_padding_mask(torch.tensor([[False, True]])).dense(Grid(1, 1, 1, 2))
        tensor([[[[ True, False]]]])
        """
        if not (isinstance(mask, Tensor) and mask.ndim == 2):
            raise MaskError("mask", f"expected a (b,k) tensor, got {_kind(mask)}")
        _stored().check_mask_type(mask)
        if mask.is_floating_point():
            # Only to raise an error for numbers other than 0 and -inf.
            Mask.from_additive(mask)
            mask = mask != 0
        if mask.dtype != torch.bool:
            raise MaskError("mask", f"expected a boolean (b,k) tensor, got {mask.dtype}", "use mask.bool()")
        return _stored().Padding(~mask)


@dataclass(frozen=True, eq=False)
class And(Mask):
    """A mask that is True where both masks are True."""

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
            # A key seen in each mask need not be seen by one and the same query in both.
            return seen_by_looking(self, grid)
        left, right = self.left.seen_keys(grid), self.right.seen_keys(grid)
        if left is None or right is None:
            return right if left is None else left
        return left.to(right.device) & right

    def part(self, b: slice, h: slice) -> Mask:
        return And(self.left.part(b, h), self.right.part(b, h))

    @property
    def per_key(self) -> bool:
        return self.left.per_key and self.right.per_key

    def covering_rows(self, grid: Grid) -> slice:
        left, right = self.left.covering_rows(grid), self.right.covering_rows(grid)
        if self.left.per_key or self.right.per_key:
            return right if self.left.per_key else left
        # The last query sees the intersection of all that it sees in each mask.
        last = slice(grid.q - 1, grid.q)
        return last if left == right == last else slice(0, grid.q)

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
    """A mask that is True where at least one of two masks is True."""

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
    def per_key(self) -> bool:
        return self.left.per_key and self.right.per_key

    def covering_rows(self, grid: Grid) -> slice:
        left, right = self.left.covering_rows(grid), self.right.covering_rows(grid)
        if self.left.per_key or self.right.per_key:
            return right if self.left.per_key else left
        return left if left == right else slice(0, grid.q)

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
    """A mask that is True where another mask is False."""

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


# Results of `seen_by_looking` by rule and sizes.
_SEEN: dict[tuple, Tensor | None] = {}


def seen_by_looking(mask: Mask, grid: Grid) -> Tensor | None:
    """Compute :meth:`Mask.seen_keys` from the mask's entries, for masks without a closed form.

    The result is ``(b or 1, h or 1, k)``. For a symbolic mask it is cached, and None means all keys.
    """
    # Tensors of a trace must not stay in the cache.
    if not mask.symbolic or not readable():
        return mask.dense(grid).any(dim=2).expand(-1, -1, grid.k)
    key = (mask.rule, grid.q, grid.k)
    if key not in _SEEN:
        if len(_SEEN) > 256:
            _SEEN.clear()
        # The cached tensor may later be used outside inference mode.
        with torch.inference_mode(False):
            seen = _visible_keys(mask, grid)
        _SEEN[key] = None if bool(seen.all()) else seen
    return _SEEN[key]


def _visible_keys(mask: Mask, grid: Grid) -> Tensor:
    """Return which keys at least one query may attend to under a symbolic mask, ``(1, h or 1, k)``.

    Whole blocks are classified first. Single pairs are evaluated only in blocks that are visible in part.
    """
    rows, cols = Blocking(np.arange(grid.q), 64), Blocking(np.arange(grid.k), 64)
    coverage = mask.classify(rows, cols, grid)  # (row blocks, col blocks)
    # Key blocks that some query block sees completely.
    full = (coverage == ALL).any(axis=0)
    row, col = np.nonzero((coverage == SOME) & ~full[None, :])
    count = torch.zeros(1, 1, len(cols), 64, dtype=torch.int32, device="cpu")
    count[:, :, torch.from_numpy(full)] = 1
    for start in range(0, len(row), 1024):
        batch = slice(start, start + 1024)
        i, j = (torch.from_numpy(x.index[y[batch]]) for x, y in ((rows, row), (cols, col)))
        keep = mask.allow(i.clamp(min=0)[:, :, None], j.clamp(min=0)[:, None, :], grid) & (i >= 0)[:, :, None]
        part = keep.any(dim=3).int()  # (1, heads of the mask, pairs, 64)
        count = count.expand(-1, max(count.shape[1], part.shape[1]), -1, -1).contiguous()
        count.index_add_(2, torch.from_numpy(col[batch]), part.expand(-1, count.shape[1], -1, -1))
    return (count > 0).flatten(2)[..., : grid.k]


def _stored():
    # Imported here because `stored` imports this module.
    from regard.masks import stored

    return stored


def _as_mask(other: Mask | Tensor) -> Mask:
    return _stored().as_mask(other)


def _kind(value: object) -> str:
    return f"{value.dtype} of {value.ndim} axes" if isinstance(value, Tensor) else type(value).__name__
