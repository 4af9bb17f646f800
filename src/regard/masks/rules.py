"""Masks defined by a rule about query and key indices (causal, window, global tokens, blocks)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.errors import ArgumentError, DtypeError, ShapeError
from regard.masks.base import Mask
from regard.masks.tiling import ALL, SOME, Blocking
from regard.modes import exported, readable
from regard.shapes import Grid, as_table, axes, check_dense, whole_number

__all__ = [
    "Blocks",
    "Causal",
    "GlobalTokens",
    "SizedCausal",
    "Window",
    "blocks",
    "causal",
    "global_tokens",
    "window",
]


# Torch computes indices in 64 bits, and a float64 of JSON holds integers up to this one exactly.
_FARTHEST = 2**53
# Each global token is stored, so their number is limited as well.
_MOST_GLOBAL = 2**24


def _check_distance(name: str, value: object, least: int) -> None:
    """Raise an error unless ``value`` is a whole number from ``least`` on that index arithmetic in 64 bits can hold."""
    if whole_number(name, value, least) > _FARTHEST:
        raise ArgumentError(name, f"expected a number of tokens up to 2**53, got {value}")


class _Rule(Mask):
    """The base of masks that are fully described by their rule and mask whole blocks."""

    @property
    def symbolic(self) -> bool:
        return True

    @property
    def is_sparse(self) -> bool:
        return True


@dataclass(frozen=True, eq=False)
class Causal(Mask):
    """The mask of :func:`causal`, in which query ``i`` sees the keys ``j <= i + offset``."""

    offset: int | Tensor | None = None

    def __post_init__(self) -> None:
        # A symbolic integer of a trace must stay symbolic.
        if not isinstance(self.offset, torch.SymInt | Tensor | None):
            _check_distance("offset", self.offset, -_FARTHEST)

    def _reach(self, grid: Grid) -> int | Tensor:
        return grid.shift if self.offset is None else self.offset

    def allow(self, i: Tensor, j: Tensor, grid: Grid) -> Tensor:
        reach = self._reach(grid)
        if isinstance(reach, Tensor):  # one per sequence
            reach = reach.to(i.device).reshape(-1, *[1] * (1 + max(i.ndim, j.ndim)))
            return j <= i + reach
        return (j <= i + reach)[None, None]

    def classify(self, rows: Blocking, cols: Blocking, grid: Grid) -> np.ndarray:
        reach = self._reach(grid)
        if isinstance(reach, Tensor):
            return super().classify(rows, cols, grid)
        return rows.at_most(cols, shift=reach)

    def check(self, grid: Grid) -> None:
        if isinstance(self.offset, Tensor) and self.offset.shape[0] not in (1, grid.b):
            raise ShapeError("offset", f"{self.offset.shape[0]} offsets for a batch of {grid.b}")

    def seen_keys(self, grid: Grid) -> Tensor | None:
        reach = self._reach(grid)
        if isinstance(reach, int) and grid.q - 1 + reach >= grid.k - 1:
            return None
        device = reach.device if isinstance(reach, Tensor) else None
        last = torch.tensor([[grid.q - 1]], device=device)
        return self.allow(last, torch.arange(grid.k, device=device)[None, :], grid)[..., 0, :]

    def part(self, b: slice, h: slice) -> Mask:
        shared = not isinstance(self.offset, Tensor) or self.offset.shape[0] == 1
        return self if shared else Causal(self.offset[b])  # type: ignore[index]  # a tensor, then

    @property
    def rule(self) -> tuple:
        return super().rule if isinstance(self.offset, Tensor) else ("causal", self.offset)

    @property
    def symbolic(self) -> bool:
        return not isinstance(self.offset, Tensor)

    def covering_rows(self, grid: Grid) -> slice:
        return slice(grid.q - 1, grid.q)

    @property
    def is_sparse(self) -> bool:
        return self.symbolic

    def simplified(self, grid: Grid) -> Mask | None:
        reach = self._reach(grid)
        return None if isinstance(reach, int) and reach >= grid.k - 1 else self


@dataclass(frozen=True, eq=False)
class SizedCausal(Causal):
    """A causal mask for fixed numbers of queries and keys, as in torch's ``CausalBias``.

    ``sizes`` are the numbers of queries and keys. Other sizes raise ShapeError.
    """

    sizes: tuple[int, int] = (0, 0)

    def check(self, grid: Grid) -> None:
        if self.sizes != (grid.q, grid.k):
            problem = (
                f"a CausalBias made for (q,k) = {axes(self.sizes)}, but here it is {axes((grid.q, grid.k))}"
            )
            raise ShapeError("mask", problem, "use regard.causal(), which fits any sizes")

    def simplified(self, grid: Grid) -> Mask | None:
        return Causal(self.offset).simplified(grid)


@dataclass(frozen=True, eq=False)
class Window(_Rule):
    """The mask of :func:`window`, in which a query sees the keys near its own position."""

    left: int | None
    right: int | None

    def __post_init__(self) -> None:
        for name, value in (("left", self.left), ("right", self.right)):
            if value is not None:
                _check_distance(name, value, 0)

    def allow(self, i: Tensor, j: Tensor, grid: Grid) -> Tensor:
        position = i + grid.shift
        keep = torch.ones((), dtype=torch.bool, device=i.device)
        if self.left is not None:
            keep = keep & (j >= position - self.left)
        if self.right is not None:
            keep = keep & (j <= position + self.right)
        return keep.expand(torch.broadcast_shapes(i.shape, j.shape))[None, None]

    def classify(self, rows: Blocking, cols: Blocking, grid: Grid) -> np.ndarray:
        coverage = np.full((len(rows), len(cols)), ALL, dtype=np.int8)
        if self.left is not None:
            coverage = np.minimum(coverage, rows.at_least(cols, shift=grid.shift - self.left))
        if self.right is not None:
            coverage = np.minimum(coverage, rows.at_most(cols, shift=grid.shift + self.right))
        return coverage

    def seen_keys(self, grid: Grid) -> Tensor | None:
        first = 0 if self.left is None else grid.shift - self.left
        last = grid.k - 1 if self.right is None else grid.k - 1 + self.right
        if first <= 0 and last >= grid.k - 1:
            return None
        j = torch.arange(grid.k)
        return ((j >= first) & (j <= last))[None, None]

    @property
    def rule(self) -> tuple:
        return ("window", self.left, self.right)

    def covering_rows(self, grid: Grid) -> slice:
        if self.left is None:
            return slice(grid.q - 1, grid.q)
        # Rows that are left + 1 apart leave out no key, also before the first of them if that row has the key 0.
        step = self.left + 1
        return slice((grid.q - 1) % step, grid.q, step) if grid.shift <= 0 else slice(0, grid.q)


def _is_in(x: Tensor, values: Tensor) -> Tensor:
    """Return which numbers of ``x`` are among ``values``, for graphs of ONNX in operations that it has."""
    return (x[..., None] == values).any(dim=-1) if exported() else torch.isin(x, values)


@dataclass(frozen=True, eq=False)
class GlobalTokens(_Rule):
    """The mask of :func:`global_tokens`, True in the rows and columns of the chosen tokens."""

    positions: tuple[int, ...]

    def __post_init__(self) -> None:
        for position in self.positions:
            _check_distance("positions", position, 0)

    def allow(self, i: Tensor, j: Tensor, grid: Grid) -> Tensor:
        positions = torch.tensor(self.positions, dtype=torch.long, device=i.device)
        return (_is_in(i + grid.shift, positions) | _is_in(j, positions))[None, None]

    def classify(self, rows: Blocking, cols: Blocking, grid: Grid) -> np.ndarray:
        return np.maximum(
            rows.contains(np.array(self.positions) - grid.shift)[:, None],
            cols.contains(np.array(self.positions))[None, :],
        )

    def check(self, grid: Grid) -> None:
        if self.positions and max(self.positions) >= grid.k:
            raise ShapeError(
                "positions", f"global token {max(self.positions)}, but there are only {grid.k} keys"
            )

    def seen_keys(self, grid: Grid) -> Tensor | None:
        if any(0 <= p - grid.shift < grid.q for p in self.positions):
            # A global token among the queries sees every key.
            return None
        return _is_in(torch.arange(grid.k), torch.tensor(self.positions, dtype=torch.long))[None, None]

    @property
    def rule(self) -> tuple:
        return ("global", self.positions)

    def pivots(self) -> tuple[int, ...]:
        return self.positions


@dataclass(frozen=True, eq=False)
class Blocks(_Rule):
    """The block-sparse mask of :func:`blocks`."""

    layout: Tensor  # bool (h or 1, query blocks, key blocks)
    size: tuple[int, int]

    def __post_init__(self) -> None:
        for side in self.size:
            _check_distance("size", side, 1)
        if self.layout.ndim != 3 or self.layout.dtype != torch.bool:
            raise ShapeError("layout", f"expected booleans of three axes, got {axes(self.layout.shape)}")

    def allow(self, i: Tensor, j: Tensor, grid: Grid) -> Tensor:
        layout = self.layout.to(i.device)
        return layout[:, i // self.size[0], j // self.size[1]][None]

    def classify(self, rows: Blocking, cols: Blocking, grid: Grid) -> np.ndarray:
        layout = self.layout.cpu().numpy()
        any_head, all_heads = np.asarray(layout.any(axis=0)), np.asarray(layout.all(axis=0))
        coverage = rows.count_in(cols, any_head, self.size)
        return np.where(rows.count_in(cols, all_heads, self.size) == ALL, ALL, np.minimum(coverage, SOME))

    def check(self, grid: Grid) -> None:
        h, rows, cols = self.layout.shape
        if h not in (1, grid.h):
            raise ShapeError("layout", f"made for {h} heads, but there are {grid.h}")
        if rows * self.size[0] < grid.q or cols * self.size[1] < grid.k:
            raise ShapeError(
                "layout",
                f"{rows} x {cols} blocks of {self.size[0]} x {self.size[1]} do not cover (q,k) = {axes(grid[2:])}",
                f"give at least {-(-grid.q // self.size[0])} x {-(-grid.k // self.size[1])} blocks",
            )

    def seen_keys(self, grid: Grid) -> Tensor | None:
        used = self.layout[:, : -(-grid.q // self.size[0])].any(dim=1)  # (h, key blocks)
        if readable(used) and bool(used.all()):
            return None
        return used.repeat_interleave(self.size[1], dim=1)[None, :, : grid.k]

    def part(self, b: slice, h: slice) -> Mask:
        return self if self.layout.shape[0] == 1 else Blocks(self.layout[h], self.size)

    @property
    def rule(self) -> tuple:
        layout = self.layout.cpu().numpy()
        return ("blocks", layout.shape, layout.tobytes(), self.size)


def causal(offset: int | Tensor | None = None) -> Mask:
    """Make a causal mask, in which query ``i`` sees the keys ``j <= i + offset``.

    The default offset is ``k - q``, which aligns the last query with the last key. Queries that follow a
    key-value cache then see the whole cache. An integer tensor ``(b,)`` gives every sequence its own offset.

    >>> causal().dense(Grid(1, 1, 2, 3))[0, 0].int()
    tensor([[1, 1, 0],
            [1, 1, 1]], dtype=torch.int32)
    """
    if isinstance(offset, Tensor):
        check_dense("offset", offset)
        no_integers = offset.is_floating_point() or offset.is_complex() or offset.dtype == torch.bool
        if no_integers or offset.ndim > 1 or (offset.ndim == 0 and offset.is_meta):
            raise ArgumentError(
                "offset",
                f"expected an integer or an integer tensor (b,), got {offset.dtype} {axes(offset.shape)}",
            )
        return Causal(int(offset) if offset.ndim == 0 else offset)
    return Causal(None if offset is None else whole_number("offset", offset))


def window(left: int | None, right: int | None = 0) -> Mask:
    """Make a sliding-window mask, in which query ``i`` sees the keys ``i - left ... i + right``, both included.

    None as ``left`` or ``right`` means no limit on that side. When there are more keys than queries, the last
    query is aligned with the last key.

    >>> window(1, 0).dense(Grid(1, 1, 3, 3))[0, 0].int()
    tensor([[1, 0, 0],
            [1, 1, 0],
            [0, 1, 1]], dtype=torch.int32)
    """
    for name, value in (("left", left), ("right", right)):
        if value is not None and whole_number(name, value) < 0:
            raise ArgumentError(
                name,
                f"expected 0 or more keys, got {value}",
                f"{name}={-value} sees {-value} keys to the {name}",
            )
    return Window(None if left is None else int(left), None if right is None else int(right))


def global_tokens(positions: int | Iterable[int]) -> Mask:
    """Make a mask in which chosen tokens see every key and are seen by every query.

    ``positions`` is a number ``n`` for the first ``n`` tokens, or the positions themselves. Positions are those of
    keys. The last query is aligned with the last key. Combine the mask with a window, and apply padding last:
    ``(window(64, 64) | global_tokens(4)) & padding(lengths)``.

    >>> global_tokens([1]).dense(Grid(1, 1, 3, 3))[0, 0].int()
    tensor([[0, 1, 0],
            [1, 1, 1],
            [0, 1, 0]], dtype=torch.int32)
    """
    if isinstance(positions, Tensor | np.ndarray):
        table = as_table("positions", positions)
        if table.is_meta or table.is_floating_point() or table.is_complex() or table.dtype == torch.bool:
            raise DtypeError("positions", f"expected integers, got {table.dtype} on {table.device}")
        positions = table.tolist()
    if not isinstance(positions, Iterable):
        count = whole_number("positions", positions, least=0)
        if count > _MOST_GLOBAL:
            raise ArgumentError("positions", f"expected at most {_MOST_GLOBAL:,} global tokens, got {count}")
        positions = range(count)
    chosen = tuple(sorted({whole_number("positions", p) for p in positions}))
    if chosen and chosen[0] < 0:
        raise ArgumentError(
            "positions", f"expected positions of 0 or more, got {chosen[0]}", "count from the start"
        )
    return GlobalTokens(chosen)


def blocks(layout: Tensor | np.ndarray | list, size: int | tuple[int, int]) -> Mask:
    """Make a block-sparse mask, in which query ``i`` sees key ``j`` if ``layout[i // size, j // size]`` is true.

    ``layout`` is ``(query blocks, key blocks)`` or ``(h, query blocks, key blocks)``, of booleans or integers. ``size``
    is the side length of a square block, or ``(queries, keys)`` of one block. The first query and the first key are at
    index 0, also if there are more keys than queries.

    >>> blocks([[1, 0], [1, 1]], size=2).dense(Grid(1, 1, 3, 4))[0, 0].int()
    tensor([[1, 1, 0, 0],
            [1, 1, 0, 0],
            [1, 1, 1, 1]], dtype=torch.int32)
    """
    table = as_table("layout", layout)
    if table.is_floating_point() or table.is_complex():
        raise DtypeError("layout", f"expected booleans or integers, got {table.dtype}", "use layout.bool()")
    if table.ndim not in (2, 3):
        raise ShapeError("layout", f"expected (query blocks, key blocks), got {axes(table.shape)}")
    sides = tuple(size) if isinstance(size, tuple | list) else (size, size)
    if len(sides) != 2:
        raise ArgumentError("size", f"expected one side or (queries, keys), got {size!r}")
    rows, cols = (whole_number("size", side, least=1) for side in sides)
    # Imported here because `stored` imports this module.
    from regard.masks.stored import kept

    table = kept("layout", table)
    return Blocks(table if table.ndim == 3 else table[None], (rows, cols))
