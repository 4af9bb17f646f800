"""From a softmax back to the product of queries and keys that it was taken of.

Attention written by hand (and the eager mode of Hugging Face) is a product, some arithmetic, a softmax. The arithmetic
is followed here as it happens: scaling, masks added or filled in, casts. Tensors are known by the address of their
numbers, so that views need no following. What cannot be followed is no loss: the weights themselves are kept then.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.capture.calls import Attended
from regard.capture.masks import HIDING
from regard.capture.wrapped import storages_of
from regard.shapes import Grid, wide_dtype

__all__ = ["LOG_SOFTMAXES", "SOFTMAXES", "Product", "Tracer"]

aten = torch.ops.aten
SOFTMAXES = {aten._softmax.default, aten._softmax.out, aten._safe_softmax.default, aten.softmax.int_out}
LOG_SOFTMAXES = {aten._log_softmax.default, aten._log_softmax.out}
_CHECKED_ROWS = 3


@dataclass(frozen=True)
class Product:
    """``scale * q @ k + added``: what a tensor of scores was made of."""

    q: Tensor  # (B,q,d)
    k: Tensor  # (B,d,k)
    scale: float = 1.0
    added: tuple[Tensor, ...] = field(default=())  # each broadcasts to the scores
    exact: bool = True  # False once something was done to the scores that cannot be followed
    home: int = 0  # the storage of the scores: writing to any part of it changes them
    born: int = 0  # its number among the products

    @property
    def sides(self) -> tuple[int, int]:
        return self.q.shape[-2], self.k.shape[-1]

    def stands_in(self, storages: set[int]) -> bool:
        """Whether the scores, or what they are made of, have numbers in one of these storages."""
        parts = (self.q, self.k, *self.added)
        return self.home in storages or any(x.untyped_storage().data_ptr() in storages for x in parts)


class Tracer:
    """Remembers where scores came from, from their product to their softmax."""

    def __init__(self, modules: Iterable[nn.Module]):
        self._modules = modules
        self._known: dict[int, Product] = {}
        self.products = 0  # seen so far

    @functools.cached_property
    def _parameters(self) -> set[int]:
        """Addresses of the model's own weights: x @ W is not attention."""
        own = (p for module in self._modules for p in module._parameters.values() if p is not None)
        return storages_of(own)

    @property
    def follows(self) -> bool:
        """Whether there are scores that a softmax may be taken of."""
        return bool(self._known)

    def forget(self, since: int = 0, kept: Collection[int] = ()) -> None:
        """Follow no longer what was made of the products since one of them, but for scores at some addresses."""
        self._known = {at: one for at, one in self._known.items() if one.born < since or at in kept}

    def saw(self, func: Any, args: tuple, kwargs: dict[str, Any], result: Any) -> None:
        """Take note of an operation."""
        found = None
        if id(func) in _PRODUCTS:
            found = self._product(func, args, kwargs)
        elif self._known:
            step = _STEPS.get(id(func))
            found = None if step is None else step(self, args, kwargs)
            if func._schema.is_mutable:
                self._distrust(_storages_written(func, args, kwargs))
            if found is None and isinstance(result, Tensor):
                found = self._descendant(args, result)
        if found is not None:
            home = result.untyped_storage().data_ptr()
            self._known[result.data_ptr()] = replace(found, home=home)
        elif self._known and isinstance(result, Tensor) and _is_new(func, args, result):
            self.lose(result)  # an address that is used again

    def _distrust(self, storages: set[int]) -> None:
        """Something was written there, perhaps to a few of the scores only."""
        for address, known in self._known.items():
            if known.exact and known.stands_in(storages):
                self._known[address] = replace(known, exact=False)

    def lose(self, x: Tensor) -> None:
        """From now on, these numbers are no scores."""
        self._known.pop(x.data_ptr(), None)

    def _descendant(self, args: tuple, result: Tensor) -> Product | None:
        """Scores to which something was done that cannot be followed, as capping; they are scores still."""
        for x in args:
            known = self.of(x)
            if known is not None and x.shape == result.shape and result.is_floating_point():
                view = x.data_ptr() == result.data_ptr()
                return self._known[x.data_ptr()] if view else replace(known, exact=False)
        return None

    def of(self, x: object) -> Product | None:
        """What a tensor is known to be, if its last two axes are still those of the product."""
        if not isinstance(x, Tensor) or x.ndim < 2 or not x.is_contiguous():
            return None
        found = self._known.get(x.data_ptr())
        if found is None or x.numel() != found.q.shape[0] * _area(found):
            return None
        if tuple(x.shape[-2:]) == found.sides:
            return found
        return _unfolded(found, x)

    def _product(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> Product | None:
        added: tuple[Tensor, ...] = ()
        alpha = 1.0
        if id(func) in _ADDING:
            alpha, beta = float(kwargs.get("alpha", 1)), float(kwargs.get("beta", 1))
            added = (args[0].detach() * beta,) if beta else ()
            args = args[1:]
        q, k = (x.detach() if x.ndim == 3 else x.detach()[None] for x in args[:2])
        if any(x.untyped_storage().data_ptr() in self._parameters for x in (q, k)):
            return None  # the layers of a model
        self.products += 1
        return Product(q, k, alpha, added, born=self.products)

    def softmax(
        self, args: tuple, weights: Tensor, heads: int | None, batches: Collection[int] = ()
    ) -> Attended:
        """The call that this softmax belongs to, in a module of so many heads that was given batches of these sizes."""
        scores, axis = args[0], args[1]
        flat = weights.detach().movedim(axis, -1)
        product = self.of(scores) if axis % scores.ndim == scores.ndim - 1 else None
        grid = _grid(flat, product, heads, batches)
        whole = Attended(grid, weights=flat.reshape(grid))
        if product is None:
            return whole
        call = _as_call(product, scores, grid) if product.exact else None
        if call is not None and _agrees(call, whole):
            return call
        return replace(whole, k=_keys(product, grid))  # they tell which step of generate() goes on from which


def _storages_written(func: Any, args: tuple, kwargs: dict[str, Any]) -> set[int]:
    """The storages that an operation has changed, out of its schema."""
    given = {a.name: x for a, x in zip(func._schema.arguments, args, strict=False)} | kwargs
    written = [given.get(a.name) for a in func._schema.arguments if a.alias_info and a.alias_info.is_write]
    return {x.untyped_storage().data_ptr() for x in written if isinstance(x, Tensor)}


def _area(product: Product) -> int:
    return product.sides[0] * product.sides[1]


def _unfolded(product: Product, scores: Tensor) -> Product | None:
    """The product of heads that share their keys, whose queries stood behind one another, ``(b,h*q,d)``."""
    (rows, keys), queries = product.sides, scores.shape[-2]
    if product.added or scores.shape[-1] != keys or not 0 < queries < rows or rows % queries:
        return None
    heads = rows // queries
    q = product.q.unflatten(1, (heads, queries)).flatten(0, 1)  # (b*h,q,d)
    return replace(product, q=q, k=product.k.repeat_interleave(heads, dim=0))  # (b*h,d,k)


def _is_new(func: Any, args: tuple, result: Tensor) -> bool:
    """Whether an operation wrote numbers to where its result stands: it is no view of what went in."""
    address = result.data_ptr()
    return func._schema.is_mutable or not any(isinstance(x, Tensor) and x.data_ptr() == address for x in args)


def _grid(weights: Tensor, product: Product | None, heads: int | None, batches: Collection[int]) -> Grid:
    """How the axes of the weights are to be read as (b,h,q,k)."""
    *lead, q, k = (1,) * (2 - weights.ndim) + tuple(weights.shape)
    if weights.ndim == 2 and product is None:  # (b,k): one query for each sequence
        return Grid(q, 1, 1, k)
    if heads and len(lead) == 3 and heads == lead[1] * lead[2]:  # groups of heads that share their keys
        return Grid(lead[0], heads, q, k)
    if len(lead) >= 2:
        count = 1
        for n in lead[:-1]:
            count *= n
        return Grid(count, lead[-1], q, k)
    batch = lead[0] if lead else 1
    if heads and batch % heads == 0 and batch not in batches:  # (b*h,q,k), as nn.MultiheadAttention has it
        return Grid(batch // heads, heads, q, k)
    return Grid(batch, 1, q, k)


def _as_call(product: Product, scores: Tensor, grid: Grid) -> Attended | None:
    """The product as a call on four axes; None where something was added that does not fit them."""
    added: Tensor | None = None
    for part in product.added:
        four = _on_four_axes(part, scores, grid)
        if four is None:
            return None
        added = four if added is None else added + four
    q = product.q.reshape(grid.b, grid.h, grid.q, -1)
    return Attended(grid, q=q, k=_keys(product, grid), scale=product.scale, attn_mask=added)


def _keys(product: Product, grid: Grid) -> Tensor:
    return product.k.transpose(1, 2).reshape(grid.b, grid.h, grid.k, -1)


def _on_four_axes(part: Tensor, scores: Tensor, grid: Grid) -> Tensor | None:
    """What was added to scores, so that it broadcasts to (b,h,q,k); None where it does not."""
    if part.ndim == 3 and part.shape[0] == grid.b * grid.h:  # (b*h,q,k)
        part = part.reshape(grid.b, grid.h, *part.shape[1:])
    elif part.ndim > 4 and part.ndim == scores.ndim:
        part = part.expand(scores.shape).reshape(grid)
    if part.ndim > 4 or any(n not in (1, m) for n, m in zip(part.shape[::-1], grid[::-1], strict=False)):
        return None
    return part


@torch.no_grad()
def _agrees(call: Attended, whole: Attended) -> bool:
    """Whether a few rows computed from the parts are those of the model: what was followed may have been wrong."""
    assert call.q is not None
    assert call.k is not None
    assert whole.weights is not None
    if 0 in call.grid:
        return False
    rows = sorted({0, call.grid.q // 2, call.grid.q - 1})[:_CHECKED_ROWS]
    wide = wide_dtype(call.q.dtype)
    scores = call.q[:, :, rows].to(wide) @ call.k.to(wide).transpose(-2, -1) * call.scale  # (b,h,rows,k)
    if call.attn_mask is not None:
        mask = call.attn_mask
        scores = scores + (mask if mask.ndim < 2 or mask.shape[-2] == 1 else mask[..., rows, :])
    expected = whole.weights[:, :, rows].to(wide).nan_to_num()  # a row without keys is NaN, or zeros
    found = torch.softmax(scores, dim=-1).nan_to_num()
    close = 1e-5 if whole.weights.dtype in (torch.float32, torch.float64) else 1e-2
    return bool(((found - expected).abs() <= close).all())


def _scaled(tracer: Tracer, args: tuple, kwargs: dict[str, Any]) -> Product | None:
    return _times(tracer, args, lambda factor: factor)


def _divided(tracer: Tracer, args: tuple, kwargs: dict[str, Any]) -> Product | None:
    return _times(tracer, args, lambda factor: 1 / factor)


def _times(tracer: Tracer, args: tuple, turn: Callable[[float], float]) -> Product | None:
    known, factor = tracer.of(args[0]), _number(args[1])
    if known is None or not factor:
        return None
    by = turn(factor)
    return replace(known, scale=known.scale * by, added=tuple(x * by for x in known.added))


def _added(tracer: Tracer, args: tuple, kwargs: dict[str, Any]) -> Product | None:
    one, other = args[0], args[1]
    alpha = kwargs.get("alpha", 1)
    known = tracer.of(one)
    if known is None and alpha == 1:
        one, other = other, one
        known = tracer.of(one)
    if known is None or not isinstance(other, Tensor) or tracer.of(other) is not None:
        return None
    if not other.is_floating_point() or torch.broadcast_shapes(one.shape, other.shape) != one.shape:
        return None
    return replace(known, added=(*known.added, other * alpha if alpha != 1 else other))


def _filled(tracer: Tracer, args: tuple, kwargs: dict[str, Any]) -> Product | None:
    return _hidden(tracer, args[0], args[1], args[2])


def _chosen(tracer: Tracer, args: tuple, kwargs: dict[str, Any]) -> Product | None:
    keep, scores, other = args
    known = _hidden(tracer, scores, ~keep, other)
    return known if known is not None else _hidden(tracer, other, keep, scores)


def _hidden(tracer: Tracer, scores: object, hidden: Tensor, value: object) -> Product | None:
    """Scores replaced by one very negative number: as a number added, it drowns them all the same."""
    known, number = tracer.of(scores), _number(value)
    if known is None or number is None or number > HIDING:
        return None
    assert isinstance(scores, Tensor)
    lowest = number if number == float("-inf") else torch.finfo(scores.dtype).min
    fill = torch.zeros((), dtype=scores.dtype, device=scores.device).masked_fill(hidden, lowest)
    added = tuple(torch.where(hidden, 0.0, x) for x in known.added)  # lowest + lowest would be -inf
    return replace(known, added=(*added, fill))


def _number(value: object) -> float | None:
    """A number, or a tensor of one; None for anything else."""
    if isinstance(value, Tensor):
        return float(value.detach()) if value.numel() == 1 else None
    return float(value) if isinstance(value, int | float) else None


def _kept(tracer: Tracer, args: tuple, kwargs: dict[str, Any]) -> Product | None:
    return tracer.of(args[0])


_ADDING = {
    id(op) for op in (aten.baddbmm.default, aten.baddbmm.out, aten.baddbmm_.default, aten.addmm.default)
}
_PRODUCTS = _ADDING | {id(op) for op in (aten.bmm.default, aten.bmm.out, aten.mm.default, aten.mm.out)}
_FOLLOWED: dict[Any, Callable[[Tracer, tuple, dict[str, Any]], Product | None]] = {
    **dict.fromkeys((aten.mul.Tensor, aten.mul.Scalar, aten.mul_.Tensor, aten.mul_.Scalar), _scaled),
    **dict.fromkeys((aten.div.Tensor, aten.div.Scalar, aten.div_.Tensor, aten.div_.Scalar), _divided),
    **dict.fromkeys((aten.add.Tensor, aten.add_.Tensor), _added),
    **dict.fromkeys(
        (
            aten.masked_fill.Scalar,
            aten.masked_fill.Tensor,
            aten.masked_fill_.Scalar,
            aten.masked_fill_.Tensor,
        ),
        _filled,
    ),
    aten.where.self: _chosen,
    **dict.fromkeys((aten._to_copy.default, aten.clone.default), _kept),
}
_STEPS = {id(op): step for op, step in _FOLLOWED.items()}  # operators are there once, and slow to hash
