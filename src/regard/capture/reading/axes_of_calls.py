"""The axes of a call, from the attributes of its module or from the letters that the user gave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.capture.reading.attention_calls import AttentionCall
from regard.capture.reading.axes import (
    AxisLetters,
    LeadingAxes,
    SoftmaxContext,
    read_leading_axes,
    strides_of,
)
from regard.capture.reading.call_parts import HeadsInQueries
from regard.capture.reading.head_folds import HeadFolds
from regard.capture.reading.kinds import sequences_in
from regard.capture.reading.module_choice import ModuleChoice, axis_letters_of
from regard.capture.reading.running_modules import RunningModule, around, heads_of, heads_of_config
from regard.errors import CaptureError

__all__ = ["axes_of_sdpa_function", "context_of_softmax", "heads_in_queries"]


def axes_of_sdpa_function(
    running: RunningModule,
    stack: Sequence[RunningModule],
    modules: Mapping[ModuleChoice, AxisLetters | None],
    folds: HeadFolds,
    query: Any = None,
    key: Any = None,
    *_: Any,
    enable_gqa: bool = False,
    **__: Any,
) -> tuple[LeadingAxes | None, tuple[int, ...]]:
    """Return the leading axes of ``F.scaled_dot_product_attention``, and the shape of its scores.

    The axes are None if they have the order of torch, in which the last leading axis is that of the heads.
    """
    letters = axis_letters_of(stack, modules)
    if letters is None and (query.ndim == 2 or query.is_nested or enable_gqa):
        return None, ()
    heads = heads_of(running, stack)
    # Most models have the order (b,h,n,d) of torch.
    if letters is None and query.ndim == 4 and heads not in (query.shape[0], key.shape[0]):
        return None, ()
    sizes = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2])
    shape = (*sizes, query.shape[-2], key.shape[-2])
    if letters is not None:
        return _axes_by_letters(letters, running.name, shape, heads), shape
    if heads is None:
        return None, shape
    first = folds.heads_first(sizes[0], heads) if len(sizes) == 1 else None
    if len(sizes) == 1 and first is None and not folds.is_ambiguous(sizes[0], heads):
        return None, shape
    if len(sizes) == 2:
        strides = folds.of_heads(query) if query.shape[:2] == sizes else ()
        leading = read_leading_axes(sizes, heads, _batches(running), strides=strides)
        return (None if leading.h == (1,) and not leading.guessed else leading), shape
    return read_leading_axes(sizes, heads, strides=strides_of(query, key), heads_first=first), shape


def heads_in_queries(
    running: RunningModule,
    stack: Sequence[RunningModule],
    modules: Mapping[ModuleChoice, AxisLetters | None],
    folds: HeadFolds,
    call: AttentionCall,
) -> tuple[HeadsInQueries | None, bool]:
    """Return the heads that a call holds in the axis of its queries, which is None in most models.

    A model may compute the heads that share their keys as further queries, ``(b,g,heads*n,d)``. Its module then has
    more heads than the call, and was given fewer tokens than the call has queries, by the same factor. The second value
    says whether the order of heads and tokens is a guess.
    """
    b, g, queries, _ = call.grid
    # A loop over the arguments first, since nearly all modules are given as many tokens as there are queries.
    for x in (*running.args, *running.kwargs.values()):
        if type(x) is Tensor and x.ndim == 3 and x.shape[:2] == (b, queries):
            return None, False
    if not b or not g or call.mask is not None or call.bias is not None or call.v is not None:
        return None, False
    tokens = _token_counts((running, *around(running, stack)), b)
    if not tokens or queries in tokens or axis_letters_of(stack, modules) is not None:
        return None, False
    heads = heads_of(running, stack) or heads_of_config(running.module)
    for n in tokens:
        if n and heads and queries * g == heads * n and heads > g and heads % g == 0:
            outer = folds.heads_before_tokens((b, g, queries), heads // g)
            return HeadsInQueries(heads // g, outer is not False), outer is None
    return None, False


def _token_counts(modules: Sequence[RunningModule], b: int) -> set[int]:
    """Return the numbers of tokens that the first of these modules was given that was given any."""
    for one in modules:
        given = [x for x in sequences_in(one.arguments).values() if x.ndim == 3 and b in x.shape[:2]]
        if given:
            return {x.shape[1] if x.shape[0] == b else x.shape[0] for x in given}
    return set()


def _batches(running: RunningModule) -> set[int]:
    """Return the batch sizes of the sequences among the arguments of a module."""
    given = [x for x in sequences_in(running.arguments).values() if x.ndim == 3]
    # A bias (b*h,q,k) has another width.
    return {x.shape[0] for x in given if x.shape[-1] == given[0].shape[-1]}


def _axes_by_letters(
    letters: AxisLetters, name: str, shape: tuple[int, ...], heads: int | None
) -> LeadingAxes:
    *last, leading = letters.place(name, shape, heads)
    if last != [len(shape) - 2, len(shape) - 1]:
        raise CaptureError(
            f"{name}: the axes {letters.text!r} were given, but F.scaled_dot_product_attention has queries and keys "
            "last: end them with 'qk'"
        )
    return leading


def context_of_softmax(
    running: RunningModule,
    stack: Sequence[RunningModule],
    modules: Mapping[ModuleChoice, AxisLetters | None],
    torchs_own: bool,
) -> SoftmaxContext:
    """Return the known properties of a module that computes a softmax by hand.

    ``torchs_own`` says that ``F.multi_head_attention_forward`` runs, which folds heads as (b*h).
    """
    return SoftmaxContext(
        running.name,
        heads_of(running, stack),
        _batches(running),
        axis_letters_of(stack, modules),
        torchs_own or isinstance(running.module, nn.MultiheadAttention),
    )
