"""From a softmax on to the values: whether its result, or its dropout, is what multiplies them.

Some models change their weights after the softmax: a mask and new sums, heads that are mixed (talking heads, DeepViT).
The weights that multiply the values are then not the softmax. Its result is followed here through copies, casts,
dropout and whatever else is done to it, to the product over its keys. Weights that are multiplied in pieces, such as
slices or the largest of each row, are put together again by their places. Where the places of changed weights are not
known (the diagonal chunks of Longformer), the weights are taken as they were before they were cut. A softmax that is
not seen to multiply anything is doubtful.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any, Protocol

import torch
from torch import Tensor

from regard.capture.reading.axes import moved
from regard.capture.reading.fast_replace import replace
from regard.capture.watching.followed_softmax import Use, Weights
from regard.capture.watching.score_tracing import PRODUCTS, storages_written
from regard.capture.watching.weight_indices import places_after, reorders, same_without_dropout
from regard.capture.watching.weight_indices import storage_of as _home

__all__ = ["Keeper", "Uses"]

aten = torch.ops.aten
_COPIES = {id(op) for op in (aten.clone.default, aten._to_copy.default, aten.nan_to_num.default)}
_PAD = aten.constant_pad_nd.default
_NOISE = {id(op) for op in (aten.bernoulli_.float, aten.bernoulli.p, aten.bernoulli.default)}
_TIMES = {
    id(op) for op in (aten.mul.Tensor, aten.mul_.Tensor, aten.div_.Tensor, aten.div_.Scalar, aten.div.Tensor)
}
_JOINS = {id(op) for op in (aten.cat.default, aten.stack.default)}


class Keeper(Protocol):
    """Keeps the records, and changes them where a softmax is not what multiplies the values."""

    def change_weights(self, use: Use, weights: Tensor, parts: Collection[Use]) -> None: ...
    def name_sinks(self, use: Use, keys: list[int]) -> None: ...
    def doubt(self, use: Use) -> None: ...


class Uses:
    """Follows the results of softmaxes until they multiply the values."""

    def __init__(self, parameters: Callable[[], set[int]], keeper: Keeper):
        self._parameters, self._keeper = parameters, keeper
        self._weights: dict[int, Weights] = {}  # by their storage
        self._noise: dict[int, Tensor] = {}
        # Changed weights of which pieces were multiplied, as they were then, by the id of their use.
        self._cut: dict[int, Weights] = {}

    @property
    def follows(self) -> bool:
        return bool(self._weights)

    def stands_at(self, home: int) -> bool:
        """Whether weights, or the noise of their dropout, stand in a storage."""
        return home in self._weights or home in self._noise

    def lose_at(self, home: int) -> None:
        """Take note that weights in a storage are used where nothing can be seen."""
        if home in self._weights:
            _lose(self._weights[home])

    def begin(self, use: Use, result: Tensor, key: int) -> None:
        """Follow the result of a softmax over an axis."""
        key, picked, shape = key % result.ndim, use.call.picked, list(result.shape)
        places = None
        if picked is not None:
            shape[key] = use.call.grid.k
        if use.call.axes is not None or key == result.ndim - 1:
            use.shape = tuple(shape)
        use.size = result.numel()
        if picked is not None:
            places = use.places(result.device).gather(key, picked)
        self._weights[_home(result)] = Weights(use, result, result, key, places=places)

    def forget(self, since: int = 0, kept: Collection[int] | None = None) -> None:
        """Follow no longer the softmaxes from a call on, but for tensors in the storages that a module returned."""
        held = [x for home, x in self._weights.items() if home in (kept or ())]
        still = {id(use) for x in held for use in x.uses}
        followed = {id(use): use for x in self._weights.values() for use in x.uses}
        if kept is not None:
            returned = {id(use) for x in held if not x.mixed for use in x.uses}
            for use in followed.values():
                use.returned = id(use) in returned
        still -= self._cut.keys()  # what the module returned may be their product with the values
        over = [use for use in followed.values() if use.piece.order >= since and id(use) not in still]
        for use in over:
            self._end(use)
        self._drop(*over)
        self._noise.clear()

    def _end(self, use: Use) -> None:
        """Tell what is known of a softmax that is followed no longer."""
        cut = self._cut.get(id(use))
        # A module may have ended, so that the modes of the capture would take this for work of the model.
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            if cut is not None and not use.valued and not use.is_complete:
                lead, axes = use.call.lead, use.call.axes
                assert lead is not None
                assert axes is not None
                self._keeper.change_weights(use, lead.arrange(moved(cut.tensor, *axes)), cut.parts)
                return
            rebuilt = use.rebuilt()
            if rebuilt is not None:
                self._keeper.change_weights(use, rebuilt, use.parts)
            elif use.valued and use.call.picked is None:
                self._keeper.name_sinks(use, [n for n in range(use.call.grid.k) if n not in use.valued])
        if use.is_doubtful:
            self._keeper.doubt(use)

    def saw(self, func: Any, args: tuple, kwargs: dict[str, Any], result: Any) -> Use | None:
        """Take note of an operation; what is returned has met its values in it."""
        first = result[0] if isinstance(result, tuple | list) and result else result
        if not isinstance(first, Tensor):
            return None
        if id(func) in PRODUCTS and all(x.layout is torch.strided for x in (*args[-2:], first)):
            return self._product(args[-2:], first)
        if id(func) in _NOISE:
            self._noise[_home(first)] = first
            return None
        homes = {_home(x): x for x in _tensors(args)}
        held = [self._weights[home] for home in homes if home in self._weights]
        if not held:
            if id(func) in _TIMES and any(home in self._noise for home in homes):
                self._noise[_home(first)] = first
            return None
        if first.layout is not torch.strided or id(func) in PRODUCTS:
            _lose(held[0])
            return None
        if held[0].spread is not None and func is aten.sum.dim_IntList:
            return self._summed(args, held[0])
        dropped = func is aten.native_dropout.default
        dropped = dropped or (id(func) in _TIMES and any(home in self._noise for home in homes))
        source = homes[_home(held[0].tensor)]
        if func._schema.is_mutable:
            if not dropped:
                self._written(func, args, kwargs, held[0], first)
            return None
        if _home(first) == _home(source):  # a view
            return None
        if id(func) in _JOINS:
            self._joined(func, args, held, first)
            return None
        return self._made(func, args, kwargs, result, _together(held), source, dropped)

    def _written(self, func: Any, args: tuple, kwargs: dict[str, Any], held: Weights, target: Tensor) -> None:
        """Weights were written to, or into another tensor."""
        if _home(held.tensor) in storages_written(func, args, kwargs):
            clean = held.tensor
            if held.clean is not held.tensor:  # the same is done to a copy of the weights without dropout
                held = replace(held, clean=held.clean.clone(memory_format=torch.preserve_format))
                clean = held.clean
                func(*held.arguments_without_dropout(args), **kwargs)
            final = held.tensor if held.aligned and clean is held.tensor else None
            changed = replace(held, clean=clean, changed=True, final=final, joined=False)
            self._weights[_home(held.tensor)] = changed
        elif (room := target.untyped_storage()).nbytes() == math.prod(held.use.shape) * target.itemsize:
            whole = target.as_strided(held.use.shape, torch.empty(held.use.shape, device="meta").stride(), 0)
            key = held.use.call.axes[1] if held.use.call.axes is not None else -1
            self._weights[room.data_ptr()] = replace(
                held, tensor=whole, clean=whole, key=key, changed=True, aligned=True, final=None, places=None
            )

    def _joined(self, func: Any, args: tuple, held: list[Weights], result: Tensor) -> None:
        """Pieces of weights were put beside one another."""
        together, places = _together(held), None
        whole = tuple(result.shape) == together.use.shape
        if not together.parts and not whole:
            found = [self._places_in(x) for x in args[0]]
            if all(x is not None for x in found):
                places = func(found, *args[1:])
        axes = together.use.call.axes
        self._weights[_home(result)] = replace(
            together,
            tensor=result,
            clean=result,
            key=axes[1] if whole and axes else held[0].key if func is aten.cat.default else -1,
            changed=True,
            aligned=whole,
            final=None,
            places=places,
            joined=bool(together.parts) and not any(x.changed and not x.joined for x in held),
        )

    def _places_in(self, x: Tensor) -> Tensor | None:
        held = self._weights.get(_home(x))
        if held is None:
            return torch.full(x.shape, -1, dtype=torch.long, device=x.device)
        return held.places_of(x)

    def _made(
        self,
        func: Any,
        args: tuple,
        kwargs: dict[str, Any],
        results: Any,
        held: Weights,
        source: Tensor,
        dropped: bool,
    ) -> Use | None:
        """An operation on weights, or on a view of them, that has made a new tensor."""
        result = results[0] if isinstance(results, tuple | list) else results
        same = source.shape == result.shape
        whole = same and source.numel() == held.tensor.numel()
        key, copied = held.key_axis(source), id(func) in _COPIES or func is _PAD
        places = _places_after(func, args, kwargs, results, held, source)
        mixed = held.mixed
        if places is None and not whole:
            if id(func) in _TIMES and result.numel() > source.numel():
                return self._spread(held, source, key, result)
            mixed = held.mixed or any(
                x.ndim and x.is_floating_point() and _home(x) not in self._weights for x in _tensors(args)
            )
            if result.numel() < held.tensor.numel() and not (copied and held.final is not None):
                if mixed:
                    _lose(held)
                return None  # no weights any more
        kept = same and (dropped or id(func) in _COPIES) and (held.changed or key is not None)
        clean = result
        if kept and dropped and result.stride() == source.stride():
            clean = held.without_dropout(source)
        elif held.clean is not held.tensor and (same or places is not None):
            clean = same_without_dropout(func, args, kwargs, results, held.arguments_without_dropout(args))
        aligned = whole and held.aligned and held.is_seen_whole(source) and places is None
        self._weights[_home(result)] = replace(
            held,
            tensor=result,
            clean=clean,
            key=-1 if key is None or not (same or places is not None) else key,
            changed=held.changed or not kept,
            aligned=aligned,
            final=held.final if kept or copied else result if aligned else None,
            places=places,
            joined=held.joined and kept,
            spread=None,
            mixed=mixed,
        )
        return None

    def _spread(self, held: Weights, source: Tensor, key: int | None, result: Tensor) -> Use | None:
        """Weights were multiplied with a tensor of more axes: values, if a sum over the keys follows."""
        if key is None and source.shape != held.tensor.shape:  # those of one key
            return self._take(held, source[..., None])
        self._weights[_home(result)] = replace(
            held,
            tensor=result,
            clean=result,
            key=-1 if key is None else key + result.ndim - source.ndim,
            changed=True,
            aligned=False,
            final=None,
            places=None,
            spread=None if key is None else (held, source),
            mixed=True,
        )
        return None

    def _summed(self, args: tuple, held: Weights) -> Use | None:
        """The product of weights and values was summed over some axes."""
        assert held.spread is not None
        before, source = held.spread
        summed, axes = args[0], args[1] if len(args) > 1 else ()
        key = before.key_axis(source)
        if (
            key is not None
            and summed.shape == held.tensor.shape
            and held.key in [n % summed.ndim for n in axes]
        ):
            return self._take(before, source.movedim(key, -1))
        _lose(held)
        return None

    def _take(self, held: Weights, operand: Tensor) -> Use | None:
        """Take note of weights that multiply values; their softmax is returned if all of it has done so."""
        places = held.places_of(operand)
        if places is None:
            _lose(held)
            return None
        held.use.meets(held, operand, places)
        if not held.use.is_complete:
            return None
        self._end(held.use)
        self._drop(*held.uses)
        return held.use

    def _product(self, sides: tuple, result: Tensor) -> Use | None:
        """A product: with the values, or one that mixes heads."""
        left, right = sides
        held = [self._weights.get(_home(x)) for x in sides]
        if held[0] is not None and held[1] is not None:  # weights by weights, as in Nystrom's method
            for use in (*held[0].uses, *held[1].uses):
                if use.size:
                    self._keeper.doubt(use)
            self._drop(held[0].use, held[1].use)
            return None
        for found, operand, other in ((held[0], left, right), (held[1], right.mT, left)):
            if found is None:
                continue
            operand = operand if operand.ndim == 3 else operand[None]  # (B,n,p)
            if _home(other) not in self._parameters():
                if self._meets_values(found, operand):
                    self._drop(*found.uses)
                    return found.use
                if found.is_over_keys(operand) and found.places_of(operand) is not None:
                    return self._take(found, operand)
                self._keep_cut(found)
                _lose(found)
            if result.numel() >= max(found.tensor.numel(), math.prod(found.use.call.grid)):
                self._weights[_home(result)] = replace(
                    found,
                    tensor=result,
                    clean=result,
                    key=-1,
                    changed=True,
                    aligned=False,
                    final=None,
                    places=None,
                    joined=False,
                    spread=None,
                    mixed=True,
                )
        return None

    def _keep_cut(self, held: Weights) -> None:
        """Keep the changed weights of which a piece is multiplied, in case they never meet the values as a whole."""
        if held.final is not None and held.use.call.axes is not None and id(held.use) not in self._cut:
            copy = held.final.detach().clone()  # the model may write to them later
            self._cut[id(held.use)] = replace(held, tensor=copy, clean=copy)

    def _meets_values(self, held: Weights, operand: Tensor) -> bool:
        """Whether a product of ``(B,n,p)`` is that of all weights with the values; changed weights are kept then."""
        use, (_, n, p) = held.use, operand.shape
        grid, lead = use.call.grid, use.call.lead
        if held.joined:
            return held.is_over_keys(operand)
        if not held.changed and operand.numel() == use.size and held.is_over_keys(operand):
            return True
        if held.places is not None or lead is None or operand.numel() != math.prod(grid):
            return False
        if sorted((n, p)) != sorted(grid[2:]):
            return False
        self._keeper.change_weights(use, lead.arrange(held.without_dropout(operand)), held.parts)
        return True

    def _drop(self, *uses: Use) -> None:
        self._weights = {at: x for at, x in self._weights.items() if x.use not in uses}
        for use in uses:
            self._cut.pop(id(use), None)


def _places_after(
    func: Any, args: tuple, kwargs: dict[str, Any], results: Any, held: Weights, source: Tensor
) -> Tensor | None:
    """The places of a result that was made of a view of weights; None if they are the softmax's own, or unknown."""
    result = results[0] if isinstance(results, tuple | list) else results
    if held.places is None and not reorders(func):
        if held.is_seen_whole(source) and source.shape == result.shape:
            return None
        if func is _PAD and tuple(result.shape) == held.use.shape:
            return None
    before = held.places_of(source)
    return None if before is None else places_after(func, args, kwargs, results, before)


def _lose(held: Weights) -> None:
    """Take note that weights were multiplied in a way that is not known."""
    for use in held.uses:
        use.lost = True


def _together(held: list[Weights]) -> Weights:
    """The first of several weights that go into an operation, with the softmaxes of the others as its parts."""
    others = {id(use): use for x in held for use in x.uses if use is not held[0].use}
    return replace(held[0], parts=tuple(others.values())) if others else held[0]


def _tensors(args: tuple) -> list[Tensor]:
    flat = [x for arg in args for x in (arg if isinstance(arg, list | tuple) else (arg,))]
    return [x for x in flat if isinstance(x, Tensor) and x.layout is torch.strided]
