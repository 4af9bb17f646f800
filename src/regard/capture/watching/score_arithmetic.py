"""Arithmetic on scores that can be followed, such as scaling, masks, casts and added columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from regard.capture.reading.fast_replace import replace
from regard.capture.reading.masks import HIDING
from regard.capture.watching.products import AddedNumbers, Product, Scores
from regard.torch_private import private_operators

__all__ = ["ARITHMETIC_RULES", "ArithmeticRule", "KnownScores"]

aten = torch.ops.aten


class KnownScores(Protocol):
    """Knows which tensors are scores."""

    def scores_of(self, x: object) -> Scores | None:
        """Return the scores that a tensor is known to hold, or None."""
        ...


# A rule gets the arguments of an operation. It returns the scores among them and the formula of the result, or None
# where the operation cannot be followed.
ArithmeticRule = Callable[[KnownScores, tuple, dict[str, Any]], tuple[Scores, Product] | None]


def _scaled(tracer: KnownScores, args: tuple, kwargs: dict[str, Any]) -> tuple[Scores, Product] | None:
    if tracer.scores_of(args[0]) is None and len(args) == 2:  # a number times scores
        args = args[::-1]
    return _times(tracer, args, inverse=False)


def _divided(tracer: KnownScores, args: tuple, kwargs: dict[str, Any]) -> tuple[Scores, Product] | None:
    return _times(tracer, args, inverse=True)


def _times(tracer: KnownScores, args: tuple, *, inverse: bool) -> tuple[Scores, Product] | None:
    """Scores multiplied by a number, or divided by it."""
    known, factor = tracer.scores_of(args[0]), _number(args[1])
    if known is None or not factor:
        return None
    factor, product = 1 / factor if inverse else factor, known.product
    added = tuple(replace(x, values=x.values * factor) for x in product.added)
    return known, replace(product, scale=product.scale * factor, added=added)


def _added(tracer: KnownScores, args: tuple, kwargs: dict[str, Any]) -> tuple[Scores, Product] | None:
    scores, other = args[0], args[1]
    factor = kwargs.get("alpha", 1)
    known = tracer.scores_of(scores)
    if known is None and factor == 1:
        scores, other = other, scores
        known = tracer.scores_of(scores)
    if known is None:
        return None
    return _with_summand(tracer, known, other, factor)


def _subtracted(tracer: KnownScores, args: tuple, kwargs: dict[str, Any]) -> tuple[Scores, Product] | None:
    known, other = tracer.scores_of(args[0]), args[1]
    if known is None:
        return None
    if isinstance(other, Tensor) and other.ndim == len(known.shape) and other.shape[known.columns] == 1:
        # One number for each row, such as the largest score. A softmax does not depend on it.
        return known, known.product
    return _with_summand(tracer, known, other, -kwargs.get("alpha", 1))


def _with_summand(
    tracer: KnownScores, known: Scores, other: object, factor: float
) -> tuple[Scores, Product] | None:
    """Scores to which ``factor`` times a tensor was added."""
    product = known.product
    # A softmax does not depend on a number that is added to all scores.
    if isinstance(other, int | float):
        return known, product
    if not isinstance(other, Tensor) or not other.is_floating_point() or tracer.scores_of(other) is not None:
        return None
    if not _broadcasts(other, known.shape):
        return None
    part = known.part(other)
    if factor != 1:
        part = replace(part, values=part.values * factor)
    return known, replace(product, added=(*product.added, part))


def _broadcasts(x: Tensor, shape: tuple[int, ...]) -> bool:
    """Whether a tensor broadcasts to a shape, without the slow ``torch.broadcast_shapes``."""
    sizes = x.shape
    if len(sizes) > len(shape):
        return False
    return all(n in (1, whole) for n, whole in zip(reversed(sizes), reversed(shape), strict=False))


def _filled(tracer: KnownScores, args: tuple, kwargs: dict[str, Any]) -> tuple[Scores, Product] | None:
    return _hidden(tracer, args[0], args[1], args[2])


def _chosen(tracer: KnownScores, args: tuple, kwargs: dict[str, Any]) -> tuple[Scores, Product] | None:
    keep, scores, other = args
    known = _hidden(tracer, scores, ~keep, other)
    return known if known is not None else _hidden(tracer, other, keep, scores)


def _hidden(
    tracer: KnownScores, scores: object, hidden: Tensor, value: object
) -> tuple[Scores, Product] | None:
    """Scores of which some were replaced by one very negative number. Adding that number hides them as well."""
    known, number = tracer.scores_of(scores), _number(value)
    if known is None or number is None or number > HIDING:
        return None
    assert isinstance(scores, Tensor)
    if not _broadcasts(hidden, known.shape):
        return None
    # A mask of an input without padding hides nothing.
    if not bool(hidden.any()):
        return known, known.product
    lowest = number if number == float("-inf") else torch.finfo(scores.dtype).min
    fill = torch.zeros((), dtype=scores.dtype, device=scores.device).masked_fill(hidden, lowest)
    # Earlier summands become 0 at the hidden scores, where the sum of two lowest numbers would be -inf.
    hidden_part = known.part(hidden)
    added = tuple(_zero_where(hidden_part, x, known) for x in known.product.added)
    return known, replace(known.product, added=(*added, known.part(fill)))


def _zero_where(hidden: AddedNumbers, summand: AddedNumbers, scores: Scores) -> AddedNumbers:
    return AddedNumbers(torch.where(hidden.values, 0.0, summand.on(scores)), scores.leading, scores.outer)


def _number(value: object) -> float | None:
    """The value of a number or of a tensor with one number, else None."""
    if isinstance(value, Tensor):
        return float(value.detach()) if value.numel() == 1 else None
    return float(value) if isinstance(value, int | float) else None


def _kept(tracer: KnownScores, args: tuple, kwargs: dict[str, Any]) -> tuple[Scores, Product] | None:
    known = tracer.scores_of(args[0])
    return None if known is None else (known, known.product)


def _joined(tracer: KnownScores, args: tuple, kwargs: dict[str, Any]) -> tuple[Scores, Product] | None:
    """Scores concatenated with further columns, which are attention sinks."""
    parts, axis = args[0], args[1] if len(args) > 1 else kwargs.get("dim", 0)
    positions = [n for n, part in enumerate(parts) if tracer.scores_of(part) is not None]
    # Two tensors of scores are two sets of keys, and no sinks.
    if len(positions) != 1:
        return None
    position = positions[0]
    known = tracer.scores_of(parts[position])
    if known is None or axis % len(known.shape) != known.columns:
        return None
    product = known.product
    for before, others in ((True, parts[:position][::-1]), (False, parts[position + 1 :])):
        for values in others:
            product = _with_sinks(known, product, values.detach(), before)
    return known, product


def _padded(tracer: KnownScores, args: tuple, kwargs: dict[str, Any]) -> tuple[Scores, Product] | None:
    """Scores padded with columns of one number, as by ``F.pad(scores, (1, 0))``."""
    scores, pad, *rest = args
    known, value = tracer.scores_of(scores), rest[0] if rest else 0.0
    if known is None or len(pad) != 2 or min(pad) < 0 or known.columns != len(known.shape) - 1:
        return None
    product = known.product
    for before, count in zip((True, False), pad, strict=True):
        if count:
            values = scores.new_full((1,) * (len(known.shape) - 1) + (count,), float(value or 0.0))
            product = _with_sinks(known, product, values, before)
    return known, product


def _with_sinks(scores: Scores, product: Product, values: Tensor, before: bool) -> Product:
    """The product with a key of zeros for each sink, to which the score of the sink is added."""
    # Scores of sinks are mostly expanded from one number for each head.
    for axis, step in enumerate(values.stride()):
        if step == 0:
            values = values.narrow(axis, 0, 1)
    count = values.shape[scores.columns]
    keys = product.k.shape[-1]
    room = (count, 0) if before else (0, count)
    sink_scores = torch.nn.functional.pad(scores.part(values).values, (0, keys) if before else (keys, 0))
    added = tuple(
        AddedNumbers(torch.nn.functional.pad(_wide(x.on(scores), keys), room), scores.leading, scores.outer)
        for x in product.added
    )
    sinks = range(count) if before else range(keys, keys + count)
    return replace(
        product,
        k=torch.nn.functional.pad(product.k, room),
        added=(*added, AddedNumbers(sink_scores, scores.leading, scores.outer)),
        sinks=(*sinks, *(n + room[0] for n in product.sinks)),
    )


def _wide(values: Tensor, keys: int) -> Tensor:
    return values.expand(*values.shape[:-1], keys)


_RULES: dict[Any, ArithmeticRule] = {
    **dict.fromkeys((aten.mul.Tensor, aten.mul.Scalar, aten.mul_.Tensor, aten.mul_.Scalar), _scaled),
    **dict.fromkeys((aten.div.Tensor, aten.div.Scalar, aten.div_.Tensor, aten.div_.Scalar), _divided),
    **dict.fromkeys((aten.add.Tensor, aten.add_.Tensor), _added),
    **dict.fromkeys((aten.sub.Tensor, aten.sub_.Tensor), _subtracted),
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
    aten.cat.default: _joined,
    aten.constant_pad_nd.default: _padded,
    **dict.fromkeys((*private_operators("_to_copy"), aten.clone.default), _kept),
}
ARITHMETIC_RULES = {id(op): rule for op, rule in _RULES.items()}
"""The rules by the id of their operator, since operators exist once per process and are slow to hash."""
