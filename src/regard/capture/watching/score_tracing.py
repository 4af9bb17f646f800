"""Follows tensors of scores from the product of queries and keys to the softmax.

Attention written by hand, and the eager mode of Hugging Face, is a product, some arithmetic and a softmax. The
arithmetic is followed operation by operation (scaling, masks that are added or filled in, casts). A tensor is
recognised by the address of its first number, so that views need no rule of their own. Addresses are used again, so
that each tensor is kept with a weak reference to its storage. Scores whose arithmetic cannot be followed are marked as
inexact, and their weights are then recorded in place of queries and keys.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef

from regard.capture.reading.fast_replace import replace
from regard.capture.reading.head_folds import HeadFolds
from regard.capture.reading.tensor_subclasses import storages_of
from regard.capture.watching.operators import (
    PRODUCTS,
    PRODUCTS_WITH_SUM,
    has_storage,
    is_mutable,
    storages_written,
)
from regard.capture.watching.products import Product, Scores
from regard.capture.watching.score_arithmetic import ARITHMETIC_RULES
from regard.torch_private import parameters_of

__all__ = ["PickedScores", "ScoreTracer"]

aten = torch.ops.aten
# Operators that pick some scores of each query, by their id, with the position of their argument ``dim``.
_PICKING = {id(aten.topk.default): 2, id(aten.gather.default): 1, id(aten.sort.default): 1}


# Operators that reduce the axes of their second argument.
_REDUCING = {
    id(op)
    for op in (
        aten.logsumexp.default,
        aten.sum.dim_IntList,
        aten.mean.dim,
        aten.amax.default,
        aten.max.dim,
        aten.std.correction,
        aten.var.correction,
    )
}


class PickedScores(NamedTuple):
    """The scores that a model picked for each query, such as the largest."""

    # The column of each score, in the shape of the scores.
    keys: Tensor
    axis: int  # the axis of the keys
    # The number of columns before scores were picked.
    total: int

    def spread(self, x: Tensor) -> Tensor:
        """Put the numbers of picked scores into their columns, with zeros in the other columns."""
        shape = list(x.shape)
        shape[self.axis] = self.total
        return x.new_zeros(shape).scatter(self.axis, self.keys, x)


class _Descendant(NamedTuple):
    """A tensor that was computed from scores and has other axes.

    The tensor itself is not kept, since that would keep all steps of a long computation in memory.
    """

    product: Product
    storage: int  # the address of its storage
    storage_ref: StorageWeakRef
    picked: PickedScores | None = None

    @property
    def is_freed(self) -> bool:
        """Whether the memory was released and may hold other numbers now. Empty tensors have none."""
        return self.storage != 0 and self.storage_ref.expired()


class ScoreTracer:
    """Knows which tensors are scores, and the product and arithmetic that each was made of."""

    def __init__(self, modules: Iterable[nn.Module], folds: HeadFolds):
        self._modules, self.folds = modules, folds
        self._known: dict[int, Scores] = {}  # by the address of their first number
        self._descendants: dict[int, _Descendant] = {}  # by the address of their storage
        # The numbers of products whose softmax has met the values.
        self._finished: set[int] = set()
        # Whether there are scores that a softmax may be taken of.
        self.follows = False
        self.products = 0  # how many were seen so far
        # The number of the latest product without a parameter.
        self.latest = 0
        # Whether a product with a parameter may be scores of learned keys, and not a layer.
        self.may_have_learned_keys: Callable[[], bool] = lambda: False

    @functools.cached_property
    def parameters(self) -> set[int]:
        """The storages of the model's parameters, whose products are no scores."""
        return storages_of(
            p for module in self._modules for p in parameters_of(module).values() if p is not None
        )

    @property
    def is_empty(self) -> bool:
        """Whether neither scores nor tensors computed from them are known."""
        return not (self._known or self._descendants)

    # ---- ending

    def forget(self, since: int = 0, kept: Collection[int] = ()) -> None:
        """Forget the tensors made of the products from number ``since`` on, except those in the storages ``kept``."""
        self._known = {
            address: x for address, x in self._known.items() if x.product.number < since or x.storage in kept
        }
        self._descendants = {
            storage: x
            for storage, x in self._descendants.items()
            if x.product.number < since or storage in kept
        }
        self._find_unfinished()

    def finish_product(self, number: int) -> None:
        """Stop following a product whose softmax has been multiplied with the values."""
        self._finished.add(number)
        self._find_unfinished()

    def _find_unfinished(self) -> None:
        tensors = (*self._known.values(), *self._descendants.values())
        self.follows = any(x.product.number not in self._finished for x in tensors)

    def forget_tensor(self, x: Tensor) -> None:
        """Note that a tensor holds no scores, though scores may have stood at its address before."""
        self._known.pop(x.data_ptr(), None)
        if self._descendants:
            self._descendants.pop(x.untyped_storage().data_ptr(), None)

    # ---- questions

    def is_in_storage(self, storage: int) -> bool:
        """Whether scores, or a tensor computed from them, stand in a storage."""
        return storage in self._descendants or storage in [x.storage for x in self._known.values()]

    def scores_of(self, x: object) -> Scores | None:
        """The scores that a tensor is known to be, or None where its axes cannot be identified."""
        if not has_storage(x) or x.ndim < 2:
            return None
        known = self._known.get(x.data_ptr())
        return None if known is None or known.is_freed else known.seen_as(x)

    def product_behind(self, x: object) -> Product | None:
        """The product that a tensor was computed from by any operations."""
        if self.is_empty or not has_storage(x):
            return None
        storage = x.untyped_storage().data_ptr()
        candidates = (self._known.get(x.data_ptr()), self._descendants.get(storage))
        candidates += tuple(scores for scores in self._known.values() if scores.storage == storage)
        # A product with a parameter is mostly a layer, and only its own result may be scores.
        products = (y.product for y in candidates if y is not None and not y.is_freed)
        return next((product for product in products if not product.of_parameter), None)

    def picked(self, x: object, shape: tuple[int, ...]) -> PickedScores | None:
        """The picked scores that a tensor of a shape holds, or None if it holds none."""
        if not has_storage(x) or x.shape != shape:
            return None
        known = self._descendants.get(x.untyped_storage().data_ptr())
        if known is None or known.is_freed or known.picked is None or known.picked.keys.shape != shape:
            return None
        return known.picked

    # ---- operations

    def note_operation(self, func: Any, args: tuple, kwargs: dict[str, Any], result: Any) -> None:
        """Follow an operation that torch has done."""
        if id(func) in PRODUCTS:
            if all(x.layout is torch.strided for x in (*args[-2:], result)):
                self._note_product(func, args, kwargs, result)
        elif not self.is_empty:
            self._note_arithmetic(func, args, kwargs, result)

    def mark_inexact(self, storages: set[int]) -> None:
        """Mark scores as inexact that stand in storages that were written to, or whose product does."""
        for address, known in self._known.items():
            product = known.product
            if product.exact and (known.storage in storages or product.is_in_storages(storages)):
                self._known[address] = replace(known, product=replace(product, exact=False))

    def _note_product(self, func: Any, args: tuple, kwargs: dict[str, Any], result: Tensor) -> None:
        summand, alpha, beta = None, 1.0, 0.0
        if id(func) in PRODUCTS_WITH_SUM:
            alpha, beta = float(kwargs.get("alpha", 1)), float(kwargs.get("beta", 1))
            summand, args = args[0], args[1:]
        q, k = (x.detach() if x.ndim == 3 else x.detach()[None] for x in args[:2])
        parameters = self.parameters
        in_layer = (
            q.untyped_storage().data_ptr() in parameters or k.untyped_storage().data_ptr() in parameters
        )
        if in_layer and (summand is not None or not self.may_have_learned_keys()):
            if not self.is_empty:
                self._note_descendant(args[:2], result)
            return
        if self._known and (self._mixes_heads(q) or self._mixes_heads(k.mT)):
            self._note_descendant(args[:2], result)
            return
        self.products += 1
        self.latest = self.latest if in_layer else self.products
        product = Product(q, k, alpha, number=self.products, of_parameter=in_layer)
        scores = Scores.of(result, product)
        if summand is not None and beta:
            added = scores.part(summand.detach() * beta)
            scores = replace(scores, product=replace(scores.product, added=(added,)))
        self._known[result.data_ptr()] = scores
        self.follows = True

    def _mixes_heads(self, x: Tensor) -> bool:
        """Return whether a matrix product sums known scores over an axis other than queries and keys.

        ``x (B,n,p)`` is an operand of the product, which sums over p. Such a product mixes the heads, and its result is
        no new score. The test is that x is a view of all numbers of known scores, and p is neither their query axis
        nor their key axis.
        """
        storage, step = x.untyped_storage().data_ptr(), x.stride(-1)
        known = next((y for y in self._known.values() if y.storage == storage and not y.is_freed), None)
        if (
            known is None
            or known.product.of_parameter
            or x.shape[-1] == 1
            or x.numel() != math.prod(known.shape)
        ):
            return False
        return all(known.strides[n] != step or known.shape[n] == 1 for n in (known.rows, known.columns))

    def _note_arithmetic(self, func: Any, args: tuple, kwargs: dict[str, Any], result: Any) -> None:
        rule = ARITHMETIC_RULES.get(id(func))
        followed = None if rule is None else rule(self, args, kwargs)
        if is_mutable(func):
            self.mark_inexact(storages_written(func, args, kwargs))
        first = result[0] if isinstance(result, tuple | list) and result else result
        if not has_storage(first):
            return
        if followed is None:
            followed = self._same_shape(args, first)
        if followed is not None:
            scores, product = followed
            self._known[first.data_ptr()] = Scores.of(first, product, scores.rows, scores.columns)
        elif self._reduces_keys(func, args):
            self.forget_tensor(first)
        elif _is_new(func, args, first):
            self._note_descendant(args, first, self._picked_by(func, args, kwargs, result))

    def _same_shape(self, args: tuple, result: Tensor) -> tuple[Scores, Product] | None:
        """Scores of the same shape after an operation without a rule, such as a cap on their size."""
        for x in args:
            known = self.scores_of(x)
            if known is not None and x.shape == result.shape and result.is_floating_point():
                same = x.data_ptr() == result.data_ptr()
                return known, known.product if same else replace(known.product, exact=False)
        return None

    def _reduces_keys(self, func: Any, args: tuple) -> bool:
        """Whether an operation computes one number for all keys of a query, such as a log-sum-exp."""
        scores = self.scores_of(args[0]) if id(func) in _REDUCING else None
        if scores is None:
            return False
        reduced = [axis for x in args[1:2] for axis in (x if isinstance(x, list | tuple) else [x])]
        return scores.columns in [axis % len(scores.shape) for axis in reduced if axis is not None]

    def _picked_by(self, func: Any, args: tuple, kwargs: dict[str, Any], result: Any) -> PickedScores | None:
        """The scores that an operation has picked, or that an earlier operation picked for its argument."""
        first = result[0] if isinstance(result, tuple | list) else result
        position = _PICKING.get(id(func))
        if position is not None:
            scores = self.scores_of(args[0])
            axis = kwargs.get("dim", args[position] if len(args) > position else -1)
            if scores is None or axis % len(scores.shape) != scores.columns:
                return None
            keys = args[2] if func is aten.gather.default else result[1]
            return PickedScores(keys, scores.columns, scores.shape[scores.columns])
        return next((picked for x in args if (picked := self.picked(x, first.shape)) is not None), None)

    def _note_descendant(self, args: tuple, result: Tensor, picked: PickedScores | None = None) -> None:
        """Note a new tensor, which may stand at an address that was used before.

        A tensor that was computed from scores and has other axes is a descendant of their product. Examples are heads
        that were mixed, and chunks that were put in place.
        """
        parts = [x for arg in args for x in (arg if isinstance(arg, list | tuple) else (arg,))]
        product = next((behind for x in parts if (behind := self.product_behind(x)) is not None), None)
        self.forget_tensor(result)
        if product is None or not result.is_floating_point() or result.layout is not torch.strided:
            return
        storage = result.untyped_storage()
        if picked is not None or storage.nbytes() >= product.sides[0] * product.sides[1] * result.itemsize:
            inexact, address = replace(product, exact=False), storage.data_ptr()
            self._descendants[address] = _Descendant(inexact, address, StorageWeakRef(storage), picked)


def _is_new(func: Any, args: tuple, result: Tensor) -> bool:
    """Whether an operation wrote its result to memory and did not return a view."""
    if is_mutable(func):
        return True
    storage = result.untyped_storage().data_ptr()
    return not any(has_storage(x) and x.untyped_storage().data_ptr() == storage for x in args)
