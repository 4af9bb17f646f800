"""Picks the kernel for a call, and runs it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch
import torch.utils.checkpoint
from torch import Tensor, nn

from regard.biases import Bias, StoredBias, SumOfBiases, dense_bias
from regard.kernels import dense, sdpa
from regard.kernels.block_sparse import BlockSparseJob, block_sparse_attention, block_sparse_attention_dense
from regard.kernels.block_sparse.plans import plan_for, worth_planning
from regard.masks import Mask
from regard.masks.rules import Causal
from regard.modes import autocasting, needs_plain_formula, readable
from regard.scores import Prepared, Score
from regard.shapes import Grid, wide_dtype

__all__ = ["Call", "attend_with_weights", "run", "weights_of"]

_MAX_WEIGHTS = 2**25  # weights held at once by the plain form; more are taken a few queries at a time


class Call(NamedTuple):
    """A call that has been read and checked; all tensors have four axes."""

    q: Tensor  # (b,h,q,d)
    k: Tensor  # (b,g,k,d)
    v: Tensor  # (b,g,k,e)
    grid: Grid
    score: Callable[[Tensor, Tensor], Tensor]
    scale: float | None
    mask: Mask | None
    bias: Bias | None
    dropout: float

    def ready(self) -> Prepared | None:
        """The projected queries and keys; None for a callable of the user's."""
        return self.score.prepare(self.q, self.k, self.scale) if isinstance(self.score, Score) else None


def attend_with_weights(call: Call) -> tuple[Tensor, Tensor]:
    """Output ``(b,h,q,e)`` and weights ``(b,h,q,k)``, both in the wide dtype."""
    weights = weights_of(call)
    with _own_precision(call):
        return dense.weighted_sum(weights, call.v, call.dropout), weights


def run(call: Call, want_lse: bool) -> tuple[Tensor, Tensor | None, Prepared | None]:
    """Output ``(b,h,q,e)``, the log-sum-exp where it came for free, and the projected queries and keys."""
    ready = call.ready()
    with _own_precision(call):
        if (
            ready is None
            or ready.v is not None
            or 0 in (*call.grid, call.v.shape[-1])
            or needs_plain_formula()
        ):
            return (*_dense(call, ready, want_lse), ready)
        return (*_product(call, ready, want_lse), ready)


def _own_precision(call: Call) -> AbstractContextManager:
    """Inside, sums are taken in the wide dtype, whatever torch.autocast would make of them."""
    device = call.q.device
    return torch.autocast(device.type, enabled=False) if autocasting(device) else nullcontext()


def _product(call: Call, ready: Prepared, want_lse: bool) -> tuple[Tensor, Tensor | None]:
    """Attention whose scores are products: through the fused kernel wherever it can do the work."""
    job = _block_sparse_job(call, ready)
    if call.dropout or _trained(call.bias):  # the fused kernels can do neither
        if job is None:
            return _dense(call, ready, want_lse)
        return block_sparse_attention_dense(*_block_sparse_inputs(call, ready), job, call.dropout), None
    if job is None:
        return _fused(call, ready, want_lse)
    q, k, v, width = sdpa.equal_widths(*_block_sparse_inputs(call, ready))
    out, lse = block_sparse_attention(q, k, v, job)
    return (out if width is None else out[..., :width]), lse


def _block_sparse_job(call: Call, ready: Prepared) -> BlockSparseJob | None:
    """What the local kernel would compute, or None where it would gain nothing."""
    if (
        call.mask is None
        or torch.compiler.is_compiling()
        or not worth_planning(call.mask, call.grid)
        or ready.q.device.type != "cpu"
        or _is_plain_causal(call)
        or not readable(ready.q, ready.k, call.v)
    ):
        return None
    plan = plan_for(call.mask, call.grid)
    return None if plan is None else BlockSparseJob(plan, call.mask, call.grid, _tile_of(call), ready.scale)


def _fused(call: Call, ready: Prepared, want_lse: bool) -> tuple[Tensor, Tensor | None]:
    """The fused kernel on everything, with a mask tensor where there is a mask."""
    q, k, v, grid = ready.q, ready.k, call.v, call.grid
    run = sdpa.fused_with_lse if want_lse else sdpa.fused
    if call.mask is None and call.bias is None:
        if k.shape[1] != grid.h:  # the queries of a group stand behind one another: k is not copied
            folded = q.reshape(grid.b, k.shape[1], -1, q.shape[-1])
            return _unfold(run(folded, k, v, ready.scale, None, False), grid)
        return _pair(run(q, k, v, ready.scale, None, False))
    if _is_plain_causal(call):
        return _pair(run(q, k, v, ready.scale, None, True))
    return _pair(
        run(
            q,
            k,
            v,
            ready.scale,
            _added(call, wide_dtype(q.dtype) if q.device.type == "cpu" else q.dtype),
            False,
        )
    )


def _dense(call: Call, ready: Prepared | None, want_lse: bool) -> tuple[Tensor, Tensor | None]:
    """The plain form, a few queries at a time where the weights would be many."""
    grid = call.grid
    rows = max(1, _MAX_WEIGHTS // max(1, grid.b * grid.h * grid.k))
    whole = ready is None or needs_plain_formula()  # a callable of the user's sees everything at once
    if whole or grid.q <= rows:
        return _dense_rows(call, ready, slice(0, grid.q), want_lse)
    parts = []
    for start in range(0, grid.q, rows):
        step = (call, ready, slice(start, min(start + rows, grid.q)), want_lse)
        if torch.is_grad_enabled():  # keep no weights for the backward pass: they are computed again
            parts.append(torch.utils.checkpoint.checkpoint(_dense_rows, *step, use_reentrant=False))
        else:
            parts.append(_dense_rows(*step))
    outs, sums = zip(*parts, strict=True)
    return torch.cat(outs, dim=2), torch.cat(sums, dim=2) if want_lse else None


def _dense_rows(
    call: Call, ready: Prepared | None, rows: slice, want_lse: bool
) -> tuple[Tensor, Tensor | None]:
    weights, lse = _weights_of_rows(call, ready, rows, want_lse)
    return dense.weighted_sum(weights, call.v, call.dropout).to(call.v.dtype), lse


def weights_of(call: Call) -> Tensor:
    """All weights ``(b,h,q,k)`` in the wide dtype."""
    ready = call.ready()
    with _own_precision(call):
        return _weights_of_rows(call, ready, slice(0, call.grid.q), False)[0]


def _weights_of_rows(
    call: Call, ready: Prepared | None, rows: slice, want_lse: bool
) -> tuple[Tensor, Tensor | None]:
    """Weights ``(b,h,rows,k)``, and the log-sum-exp ``(b,h,rows)`` if wanted."""
    grid, device = call.grid, call.q.device
    i = torch.arange(rows.start, rows.stop, device=device)[:, None]
    j = torch.arange(grid.k, device=device)[None, :]
    scores = _scores_of_rows(call, ready, rows)
    if call.bias is not None:
        scores = scores + call.bias.tile(i, j, grid).to(scores.dtype)
    keep = None if call.mask is None else call.mask.allow(i, j, grid)
    lse = None
    if want_lse:
        hidden = scores if keep is None else scores.masked_fill(~keep, float("-inf"))
        lse = torch.logsumexp(hidden.detach(), dim=-1)
    return dense.masked_softmax(scores, keep), lse


def _scores_of_rows(call: Call, ready: Prepared | None, rows: slice) -> Tensor:
    """Scores ``(b,h,rows,k)`` in the wide dtype."""
    if ready is not None:
        return dense.pair_scores(ready._replace(q=ready.q[:, :, rows]))
    scores = dense.callable_scores(call.score, call.q, call.k)
    return scores if call.scale is None else scores * call.scale


def _added(call: Call, dtype: torch.dtype) -> Tensor:
    """What the fused kernel takes as mask: booleans, or numbers to add."""
    grid, device = call.grid, call.q.device
    keep = None if call.mask is None else call.mask.dense(grid, device)
    if call.bias is None:
        assert keep is not None  # one of the two is there
        return keep
    added = dense_bias(call.bias, grid, device).to(
        dtype
    )  # wider than q where q is half: rounding it would show
    return added if keep is None else added.masked_fill(~keep, float("-inf"))


def _block_sparse_inputs(call: Call, ready: Prepared) -> tuple[Tensor, Tensor, Tensor]:
    """q, k, v with equal heads."""
    return ready.q, dense.expand_heads(ready.k, call.grid.h), dense.expand_heads(call.v, call.grid.h)


def _tile_of(call: Call) -> Callable[[Tensor, Tensor], Tensor] | None:
    bias, grid = call.bias, call.grid
    return None if bias is None else lambda i, j: bias.tile(i, j, grid)


def _trained(bias: Bias | None) -> bool:
    """Whether a gradient must reach the bias, which the fused kernel cannot give."""
    if bias is None or not torch.is_grad_enabled():
        return False
    if isinstance(bias, StoredBias):
        return bias.values.requires_grad
    if isinstance(bias, SumOfBiases):
        return _trained(bias.left) or _trained(bias.right)
    return isinstance(bias, nn.Module) and any(p.requires_grad for p in bias.parameters())


def _is_plain_causal(call: Call) -> bool:
    """Whether this is the fused kernel's own causal rule: key j <= query i, counted from the start."""
    if not isinstance(call.mask, Causal) or call.bias is not None:
        return False
    return (
        call.grid.shift == 0
        if call.mask.offset is None
        else isinstance(call.mask.offset, int) and call.mask.offset == 0
    )


def _pair(result: Tensor | tuple[Tensor, Tensor | None]) -> tuple[Tensor, Tensor | None]:
    return (result, None) if isinstance(result, Tensor) else result


def _unfold(result: Tensor | tuple[Tensor, Tensor | None], grid: Grid) -> tuple[Tensor, Tensor | None]:
    """Give the queries of grouped heads their head axis back."""
    out, lse = _pair(result)
    out = out.reshape(grid.b, grid.h, grid.q, -1)
    return out, None if lse is None else lse.reshape(grid.b, grid.h, grid.q)
