"""From a softmax back to the product of queries and keys that it was taken of.

Attention written by hand (and the eager mode of Hugging Face) is a product, some arithmetic, a softmax. The arithmetic
is followed here as it happens: scaling, masks added or filled in, casts. Tensors are known by the address of their
numbers, so that views need no following, and by a weak reference to their storage, since an address is used again. What
cannot be followed is no loss: the weights themselves are kept then.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple, TypeGuard

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef

from regard.capture.reading.attention_calls import AttentionCall
from regard.capture.reading.axes import LeadingAxes, SoftmaxContext, moved, query_axis, read_leading_axes
from regard.capture.reading.fast_replace import replace
from regard.capture.reading.head_folds import HeadFolds
from regard.capture.reading.tensor_subclasses import storages_of
from regard.capture.watching.products import Product, Scores
from regard.capture.watching.score_arithmetic import ARITHMETIC_RULES
from regard.shapes import wide_dtype

__all__ = [
    "LOG_SOFTMAXES",
    "PRODUCTS",
    "SOFTMAXES",
    "ScoreTracer",
    "agrees",
    "checked_rows",
    "folded_product",
    "storages_written",
]

aten = torch.ops.aten
SOFTMAXES = {aten._softmax.default, aten._softmax.out, aten._safe_softmax.default, aten.softmax.int_out}
LOG_SOFTMAXES = {aten._log_softmax.default, aten._log_softmax.out}
_ADDING = {
    id(op) for op in (aten.baddbmm.default, aten.baddbmm.out, aten.baddbmm_.default, aten.addmm.default)
}
PRODUCTS = _ADDING | {id(op) for op in (aten.bmm.default, aten.bmm.out, aten.mm.default, aten.mm.out)}
# Operations that choose some scores of each query, with the position of their argument ``dim``.
_PICKING = {id(aten.topk.default): 2, id(aten.gather.default): 1, id(aten.sort.default): 1}


class PickedScores(NamedTuple):
    """Some scores of each query, as the largest of them."""

    keys: Tensor  # the column of each score, of the shape of the scores
    axis: int  # of the keys
    total: int  # columns that there were

    def spread(self, x: Tensor) -> Tensor:
        """Numbers for the scores, put into their columns beside zeros for the others."""
        shape = list(x.shape)
        shape[self.axis] = self.total
        return x.new_zeros(shape).scatter(self.axis, self.keys, x)


class _Descendant(NamedTuple):
    """A tensor that was made of scores and has other axes.

    The tensor is not held, which would keep all steps of a long computation in memory.
    """

    product: Product
    home: int  # its storage
    storage: StorageWeakRef
    picked: PickedScores | None = None

    @property
    def is_freed(self) -> bool:
        """Whether the memory was released and may hold other numbers now. Empty tensors have none."""
        return self.home != 0 and self.storage.expired()


class ScoreTracer:
    """Remembers where scores came from, from their product to their softmax."""

    def __init__(self, modules: Iterable[nn.Module]):
        self._modules = modules
        self._known: dict[int, Scores] = {}  # by the address of their first number
        self._descendants: dict[int, _Descendant] = {}  # by their storage
        self._spent: set[int] = set()
        self.follows = False  # whether there are scores that a softmax may be taken of
        self.folds = HeadFolds()
        self.products = 0  # seen so far

    @functools.cached_property
    def parameters(self) -> set[int]:
        """Addresses of the model's parameters, whose products are no scores."""
        own = (p for module in self._modules for p in module._parameters.values() if p is not None)
        return storages_of(own)

    @property
    def holds(self) -> bool:
        """Whether there is anything to forget."""
        return bool(self._known or self._descendants)

    def forget(self, since: int = 0, kept: Collection[int] = ()) -> None:
        """Follow no longer what was made of the products since one of them, but for scores in some storages."""
        self._known = {at: x for at, x in self._known.items() if x.product.born < since or x.home in kept}
        self._descendants = {
            home: x for home, x in self._descendants.items() if x.product.born < since or home in kept
        }
        self.spend()

    def spend(self, product: int | None = None) -> None:
        """Stop watching operations for a product whose softmax has been multiplied with the values."""
        if product is not None:
            self._spent.add(product)
        made = (*self._known.values(), *self._descendants.values())
        self.follows = any(x.product.born not in self._spent for x in made)

    def stands_at(self, home: int) -> bool:
        """Whether scores, or what was made of them, stand in a storage."""
        return home in self._descendants or home in [x.home for x in self._known.values()]

    def saw(self, func: Any, args: tuple, kwargs: dict[str, Any], result: Any) -> None:
        """Take note of an operation."""
        if id(func) in PRODUCTS:
            if all(x.layout is torch.strided for x in (*args[-2:], result)):
                self._product(func, args, kwargs, result)
        elif self.holds:
            self._follow(func, args, kwargs, result)

    def _follow(self, func: Any, args: tuple, kwargs: dict[str, Any], result: Any) -> None:
        step = ARITHMETIC_RULES.get(id(func))
        found = None if step is None else step(self, args, kwargs)
        if is_mutable(func):
            self._distrust(storages_written(func, args, kwargs))
        first = result[0] if isinstance(result, tuple | list) and result else result
        if not isinstance(first, Tensor) or first.layout is not torch.strided:
            return
        if found is None:
            found = self._same_shape(args, first)
        if found is not None:
            scores, product = found
            self._known[first.data_ptr()] = Scores.of(first, product, scores.rows, scores.columns)
        elif _is_new(func, args, first):
            self._descends(args, first, self._picked_by(func, args, kwargs, result))

    def _picked_by(self, func: Any, args: tuple, kwargs: dict[str, Any], result: Any) -> PickedScores | None:
        """The scores that an operation has chosen, or that it was given as chosen by another."""
        first = result[0] if isinstance(result, tuple | list) else result
        at = _PICKING.get(id(func))
        if at is not None:
            scores = self.of(args[0])
            axis = kwargs.get("dim", args[at] if len(args) > at else -1)
            if scores is None or axis % len(scores.shape) != scores.columns:
                return None
            keys = args[2] if func is aten.gather.default else result[1]
            return PickedScores(keys, scores.columns, scores.shape[scores.columns])
        return next((found for x in args if (found := self.picked(x, first.shape)) is not None), None)

    def picked(self, x: object, shape: tuple[int, ...]) -> PickedScores | None:
        """The choice that scores of a shape were made by, if any."""
        if not isinstance(x, Tensor) or x.layout is not torch.strided or x.shape != shape:
            return None
        found = self._descendants.get(x.untyped_storage().data_ptr())
        if found is None or found.is_freed or found.picked is None or found.picked.keys.shape != shape:
            return None
        return found.picked

    def _descends(self, args: tuple, result: Tensor, picked: PickedScores | None = None) -> None:
        """Take note of a tensor that is new, at an address that may have been used before.

        What was made of scores and has other axes is related to them: heads that are mixed, chunks put in place.
        """
        parts = [x for arg in args for x in (arg if isinstance(arg, list | tuple) else (arg,))]
        product = next((found for x in parts if (found := self.related(x)) is not None), None)
        self.lose(result)
        if product is None or not result.is_floating_point() or result.layout is not torch.strided:
            return
        home = result.untyped_storage()
        if picked is not None or home.nbytes() >= product.sides[0] * product.sides[1] * result.itemsize:
            inexact, at = replace(product, exact=False), home.data_ptr()
            self._descendants[at] = _Descendant(inexact, at, StorageWeakRef(home), picked)

    def _distrust(self, storages: set[int]) -> None:
        """Something was written there, perhaps to a few of the scores only."""
        for address, known in self._known.items():
            product = known.product
            if product.exact and (known.home in storages or product.stands_in(storages)):
                self._known[address] = replace(known, product=replace(product, exact=False))

    def lose(self, x: Tensor) -> None:
        """From now on, these numbers are no scores."""
        self._known.pop(x.data_ptr(), None)
        if self._descendants:
            self._descendants.pop(x.untyped_storage().data_ptr(), None)

    def _same_shape(self, args: tuple, result: Tensor) -> tuple[Scores, Product] | None:
        """Scores of the same shape after an operation that cannot be followed, such as capping."""
        for x in args:
            known = self.of(x)
            if known is not None and x.shape == result.shape and result.is_floating_point():
                same = x.data_ptr() == result.data_ptr()
                return known, known.product if same else replace(known.product, exact=False)
        return None

    def of(self, x: object) -> Scores | None:
        """The scores that a tensor is known to be, if its axes can be told."""
        if not _has_storage(x) or x.ndim < 2:
            return None
        found = self._known.get(x.data_ptr())
        return None if found is None or found.is_freed else found.seen_as(x)

    def related(self, x: object) -> Product | None:
        """The product that a tensor was made of, in whichever way."""
        if not isinstance(x, Tensor) or x.layout is not torch.strided:
            return None
        if not self.holds:
            return None
        home = x.untyped_storage().data_ptr()
        made = (self._known.get(x.data_ptr()), self._descendants.get(home))
        made += tuple(scores for scores in self._known.values() if scores.home == home)
        return next((y.product for y in made if y is not None and not y.is_freed), None)

    def _product(self, func: Any, args: tuple, kwargs: dict[str, Any], result: Tensor) -> None:
        beside, alpha, beta = None, 1.0, 0.0
        if id(func) in _ADDING:
            alpha, beta = float(kwargs.get("alpha", 1)), float(kwargs.get("beta", 1))
            beside, args = args[0], args[1:]
        q, k = (x.detach() if x.ndim == 3 else x.detach()[None] for x in args[:2])
        if any(x.untyped_storage().data_ptr() in self.parameters for x in (q, k)):  # the layers of a model
            if self.holds:
                self._descends(args[:2], result)
            return
        if self._known and (self._is_mixed(q) or self._is_mixed(k.mT)):
            self._descends(args[:2], result)
            return
        self.products += 1
        scores = Scores.of(result, Product(q, k, alpha, born=self.products))
        if beside is not None and beta:
            part = scores.part(beside.detach() * beta)
            scores = replace(scores, product=replace(scores.product, added=(part,)))
        self._known[result.data_ptr()] = scores
        self.follows = True

    def _is_mixed(self, x: Tensor) -> bool:
        """Whether a side of a product, ``(B,n,p)``, holds scores of which p is neither queries nor keys, but heads."""
        home, step = x.untyped_storage().data_ptr(), x.stride(-1)
        known = next((y for y in self._known.values() if y.home == home and not y.is_freed), None)
        if known is None or x.shape[-1] == 1 or x.numel() != math.prod(known.shape):
            return False
        return all(known.strides[n] != step or known.shape[n] == 1 for n in (known.rows, known.columns))

    def softmax(self, args: tuple, weights: Tensor, place: SoftmaxContext) -> AttentionCall:
        """The call that this softmax belongs to."""
        x, key = args[0], args[1] % args[0].ndim
        if x.ndim == 2 and place.letters is None and self.related(x) is None:
            x, weights, key = (
                x[:, None],
                weights[:, None],
                key + (key > 0),
            )  # (b,k): one query for each sequence
        elif self._is_of_one_query(x, key, place):
            x, weights, key = x.unsqueeze(-2), weights.unsqueeze(-2), 3  # (b,h,k)
        picked = self.picked(x, x.shape)
        if picked is not None and picked.axis == key:
            weights = picked.spread(weights.detach())
        else:
            picked = None
        scores = self.of(x)
        if scores is not None and key not in (scores.rows, scores.columns):
            scores = None
        if scores is not None and key == scores.rows:
            product = scores.product.turned()
            scores = replace(scores, product=product, rows=scores.columns, columns=scores.rows)
        rows, key, leading = self._axes(x, tuple(weights.shape), key, scores, place)
        if scores is not None and (rows, key) != (scores.rows, scores.columns):
            scores = None
        arranged = leading.arrange(moved(weights.detach(), rows, key))
        axes = (rows, key) if x is args[0] else None
        grid = leading.grid(*arranged.shape[-2:])
        keys = None if picked is None else picked.keys
        whole = AttentionCall(
            grid, weights=arranged, guessed=leading.guessed, leading=leading, axes=axes, picked=keys
        )
        if scores is None:
            return whole
        whole = replace(whole, k=_keys(scores, leading), sinks=scores.product.sinks)
        call = _as_call(scores, leading, whole) if scores.product.exact else None
        return call if call is not None and agrees(call, arranged) else whole

    def _is_of_one_query(self, x: Tensor, key: int, place: SoftmaxContext) -> bool:
        """Whether scores ``(b,h,k)`` are those of one query: the product had one row, and the module has h heads."""
        if x.ndim != 3 or key != 2 or place.letters is not None or x.shape[1] != place.heads:
            return False
        product = self.related(x)
        return product is not None and product.sides[0] == 1

    def attends(self, x: Tensor, axis: int, heads: int | None) -> Product | None:
        """The product behind the scores of a softmax over an axis, or None where they are not known to be scores."""
        scores = self.of(x)
        if scores is not None:
            return scores.product
        product = self.related(x)
        if product is None or self.picked(x, x.shape) is not None:
            return product
        *others, keys = (*(n for at, n in enumerate(x.shape) if at != axis % x.ndim), x.shape[axis])
        rows, columns = product.sides
        fits = keys in (columns, columns + 1) and rows in others
        return product if fits or (heads is not None and others[1:].count(heads) == 1) else None

    def _axes(
        self, x: Tensor, shape: tuple[int, ...], key: int, scores: Scores | None, place: SoftmaxContext
    ) -> tuple[int, int, LeadingAxes]:
        """Which axes of scores are queries and keys, and how the others are read."""
        if place.letters is not None:
            return place.letters.place(place.name, shape, place.heads)
        if scores is not None:
            rows, guessed = scores.rows, False
        else:
            related = self.related(x)
            count = None if related is None else related.sides[0]
            rows, guessed = query_axis(shape, key, place.heads, count)
        sizes = [n for axis, n in enumerate(shape) if axis not in (rows, key)]
        first = False if place.heads_inside else None
        if len(sizes) == 1 and first is None:
            first = self.folds.heads_first(sizes[0], place.heads)
        leading = read_leading_axes(
            sizes, place.heads, place.batches, strides=self.folds.strides(sizes), heads_first=first
        )
        return rows, key, leading._replace(guessed=leading.guessed or guessed)


_WRITTEN: dict[int, tuple[Any, tuple[tuple[int, str], ...]]] = {}
"""The positions and names of the arguments that an operator writes to, by its id. Reading a schema is slow."""


def _written_arguments(func: Any) -> tuple[tuple[int, str], ...]:
    if id(func) not in _WRITTEN:
        written = tuple(
            (at, x.name)
            for at, x in enumerate(func._schema.arguments)
            if x.alias_info is not None and x.alias_info.is_write
        )
        _WRITTEN[id(func)] = (func, written)  # with the operator, so that no other takes its id
    return _WRITTEN[id(func)][1]


def is_mutable(func: Any) -> bool:
    """Whether an operator writes to one of its arguments."""
    return bool(_written_arguments(func))


def storages_written(func: Any, args: tuple, kwargs: dict[str, Any]) -> set[int]:
    """The storages of the arguments that an operator writes to."""
    written = [args[at] if at < len(args) else kwargs.get(name) for at, name in _written_arguments(func)]
    return {x.untyped_storage().data_ptr() for x in written if _has_storage(x)}


def _has_storage(x: object) -> TypeGuard[Tensor]:
    return isinstance(x, Tensor) and x.layout is torch.strided


def _is_new(func: Any, args: tuple, result: Tensor) -> bool:
    """Whether an operation wrote its result to memory and did not return a view."""
    if is_mutable(func):
        return True
    home = result.untyped_storage().data_ptr()
    return not any(_has_storage(x) and x.untyped_storage().data_ptr() == home for x in args)


def _as_call(scores: Scores, leading: LeadingAxes, whole: AttentionCall) -> AttentionCall:
    """The product as a call on four axes."""
    added: Tensor | None = None
    for part in scores.product.added:
        values = leading.fit(part.on(scores), scores.leading)
        added = values if added is None else added + values
    q = leading.arrange(scores.in_product_order(scores.product.q, scores.leading))
    return replace(whole, weights=None, q=q, scale=scores.product.scale, attn_mask=added)


def _keys(scores: Scores, leading: LeadingAxes) -> Tensor:
    return leading.arrange(scores.in_product_order(scores.product.k, scores.leading).mT)


def checked_rows(count: int) -> slice:
    """Return two or three rows of so many, with the last."""
    step = max(count // 2, 1)
    return slice((count - 1) % step, None, step)


def folded_product(x: Tensor, y: Tensor) -> Tensor:
    """Multiply ``(b,h,m,n)`` by ``(b,g,n,p)``, each of whose heads belongs to ``h / g`` heads of the first."""
    b, h, m, n = x.shape
    if y.shape[1] == h:
        return x @ y
    return (x.reshape(b, y.shape[1], -1, n) @ y).view(b, h, m, y.shape[-1])


def agrees(call: AttentionCall, weights: Tensor) -> bool:
    """Whether a few rows computed from q, k and the mask of a call are those of the model's weights ``(b,h,q,k)``."""
    if 0 in call.grid:
        return False
    if not torch.is_grad_enabled():
        return _agrees(call, weights)
    with torch.no_grad():
        return _agrees(call, weights)


def _agrees(call: AttentionCall, weights: Tensor) -> bool:
    q, k = call.q, call.k
    assert q is not None
    assert k is not None
    rows = checked_rows(call.grid.q)
    wide = wide_dtype(q.dtype)
    if k.dtype != wide:
        k = k.to(wide)
    scores = folded_product(q[:, :, rows].to(wide) * call.scale, k.mT)  # (b,h,rows,k)
    if call.attn_mask is not None:
        mask = call.attn_mask
        scores = scores + (mask if mask.ndim < 2 or mask.shape[-2] == 1 else mask[..., rows, :])
    recomputed, expected = torch.softmax(scores, dim=-1), weights[:, :, rows]
    close = 1e-5 if weights.dtype in (torch.float32, torch.float64) else 1e-2
    if float((recomputed - expected).abs_().max()) <= close:
        return True
    # A row without keys is NaN in one of them and may be zeros in the other.
    expected = expected.to(wide).nan_to_num()
    return bool(((recomputed.nan_to_num() - expected).abs() <= close).all())
