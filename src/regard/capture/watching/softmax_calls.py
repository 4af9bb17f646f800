"""The attention call that a softmax belongs to, built from the product that its scores were made of."""

from __future__ import annotations

from torch import Tensor

from regard.capture.reading.attention_calls import AttentionCall
from regard.capture.reading.axes import LeadingAxes, SoftmaxContext, moved, query_axis, read_leading_axes
from regard.capture.reading.fast_replace import replace
from regard.capture.watching.products import Product, Scores
from regard.capture.watching.recomputed_rows import gives_weights
from regard.capture.watching.score_tracing import ScoreTracer

__all__ = ["product_behind_softmax", "read_softmax"]


def product_behind_softmax(tracer: ScoreTracer, x: Tensor, axis: int, heads: int | None) -> Product | None:
    """The product of queries and keys behind the argument of a softmax, or None where ``x`` is not known as scores.

    A tensor whose axes are not those of the product counts if its sizes fit the queries and keys, or the heads.
    """
    scores = tracer.scores_of(x)
    if scores is not None:
        return scores.product
    product = tracer.product_behind(x)
    if product is None or tracer.picked(x, x.shape) is not None:
        return product
    *others, keys = (*(n for at, n in enumerate(x.shape) if at != axis % x.ndim), x.shape[axis])
    rows, columns = product.sides
    fits = keys in (columns, columns + 1) and rows in others
    return product if fits or (heads is not None and others[1:].count(heads) == 1) else None


def read_softmax(tracer: ScoreTracer, args: tuple, weights: Tensor, context: SoftmaxContext) -> AttentionCall:
    """Read the call of a softmax with these arguments and this result.

    The call has queries and keys where these give the weights, else the weights themselves.
    """
    x, weights, key = _with_query_axis(tracer, args[0], weights, args[1] % args[0].ndim, context)
    picked = tracer.picked(x, x.shape)
    if picked is not None and picked.axis == key:
        weights = picked.spread(weights.detach())
    else:
        picked = None
    scores = _over_columns(tracer.scores_of(x), key)
    rows, key, leading = _axes(tracer, x, tuple(weights.shape), key, scores, context)
    if scores is not None and (rows, key) != (scores.rows, scores.columns):
        scores = None
    arranged = leading.arrange(moved(weights.detach(), rows, key))  # (b,h,q,k)
    by_weights = AttentionCall(
        leading.grid(*arranged.shape[-2:]),
        weights=arranged,
        guessed=leading.guessed,
        leading=leading,
        axes=(rows, key) if x is args[0] else None,
        picked=None if picked is None else picked.keys,
    )
    if scores is None:
        return by_weights
    keys = leading.arrange(scores.in_product_order(scores.product.k, scores.leading).mT)  # (b,g,k,d)
    by_weights = replace(by_weights, k=keys, sinks=scores.product.sinks)
    call = _by_queries(scores, leading, by_weights) if scores.product.exact else None
    return call if call is not None and gives_weights(call, arranged) else by_weights


def _with_query_axis(
    tracer: ScoreTracer, x: Tensor, weights: Tensor, key: int, context: SoftmaxContext
) -> tuple[Tensor, Tensor, int]:
    """Scores, weights and the axis of keys, with an axis for the query where there is a single one."""
    if x.ndim == 2 and context.letters is None and tracer.product_behind(x) is None:
        return x[:, None], weights[:, None], key + (key > 0)  # (b,k) becomes (b,q,k)
    if _has_one_query(tracer, x, key, context):
        return x.unsqueeze(-2), weights.unsqueeze(-2), 3  # (b,h,k) becomes (b,h,q,k)
    return x, weights, key


def _has_one_query(tracer: ScoreTracer, x: Tensor, key: int, context: SoftmaxContext) -> bool:
    """Whether scores are ``(b,h,k)`` of one query. The product then has one row, and the module has h heads."""
    if x.ndim != 3 or key != 2 or context.letters is not None or x.shape[1] != context.heads:
        return False
    product = tracer.product_behind(x)
    return product is not None and product.sides[0] == 1


def _over_columns(scores: Scores | None, key: int) -> Scores | None:
    """Scores whose columns are the axis of a softmax, transposed where that axis holds their rows."""
    if scores is None or key == scores.columns:
        return scores
    if key != scores.rows:
        return None
    return replace(scores, product=scores.product.transposed(), rows=scores.columns, columns=scores.rows)


def _axes(
    tracer: ScoreTracer,
    x: Tensor,
    shape: tuple[int, ...],
    key: int,
    scores: Scores | None,
    context: SoftmaxContext,
) -> tuple[int, int, LeadingAxes]:
    """The axes of queries and keys, and the meaning of the other axes."""
    if context.letters is not None:
        return context.letters.place(context.name, shape, context.heads)
    if scores is not None:
        rows, guessed = scores.rows, False
    else:
        product = tracer.product_behind(x)
        count = None if product is None else product.sides[0]
        rows, guessed = query_axis(shape, key, context.heads, count)
    sizes = [n for axis, n in enumerate(shape) if axis not in (rows, key)]
    heads_first = False if context.heads_inside else None
    if len(sizes) == 1 and heads_first is None:
        heads_first = tracer.folds.heads_first(sizes[0], context.heads)
    leading = read_leading_axes(
        sizes, context.heads, context.batches, strides=tracer.folds.strides(sizes), heads_first=heads_first
    )
    return rows, key, leading._replace(guessed=leading.guessed or guessed)


def _by_queries(scores: Scores, leading: LeadingAxes, by_weights: AttentionCall) -> AttentionCall:
    """The call with the queries, scale and added numbers of a product in place of its weights."""
    added: Tensor | None = None
    for part in scores.product.added:
        values = leading.fit(part.on(scores), scores.leading)
        added = values if added is None else added + values
    q = leading.arrange(scores.in_product_order(scores.product.q, scores.leading))  # (b,h,q,d)
    return replace(by_weights, weights=None, q=q, scale=scores.product.scale, attn_mask=added)
