"""The choice of the kernel for a call."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
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

# The most weights that dense attention holds at once. Larger calls are computed a few queries at a time.
_MAX_WEIGHTS = 2**25
# Up to so many numbers, the sum of a tensor takes less time than choosing some of its rows.
_FEW = 2**15


class Call(NamedTuple):
    """The checked arguments of a call, with all tensors of four axes."""

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
        """Return the projected queries and keys, or None for a callable score."""
        return self.score.prepare(self.q, self.k, self.scale) if isinstance(self.score, Score) else None


def attend_with_weights(call: Call) -> tuple[Tensor, Tensor]:
    """Compute the output ``(b,h,q,e)`` and the weights ``(b,h,q,k)``, both in the wide dtype.

    Dropout is applied to the output only.
    """
    weights = _weights_of(call)
    with _without_autocast(call):
        out = dense.weighted_sum(weights, call.v, call.dropout)
        poison = _find_poison(call, out)
        if poison is None:
            return out, weights
        weights = _weights_of(poison.clean)
        out = dense.weighted_sum(weights, poison.clean.v, call.dropout)
        return poison.restore(out, _exact_outputs), poison.restore(weights, _exact_weights)


def weights_of(call: Call) -> Tensor:
    """Compute all weights ``(b,h,q,k)`` in the wide dtype."""
    weights = _weights_of(call)
    with _without_autocast(call):
        poison = _find_poison(call, weights)
        return weights if poison is None else poison.restore(_weights_of(poison.clean), _exact_weights)


def run(call: Call, want_lse: bool) -> tuple[Tensor, Tensor | None, Prepared | None]:
    """Compute the output ``(b,h,q,e)`` of a call with the fastest kernel that supports it.

    The second value is the log-sum-exp ``(b,h,q)`` or None. ``want_lse`` asks for it. It is None all the same from the
    fused kernel of other devices than the CPU, from block-sparse attention with dropout or a trained bias, and for
    keys or values that are not finite. Without these, block-sparse attention also returns it unasked. The third value
    has the projected queries and keys. It is None for a callable score.
    """
    # A score that has parameters is projected under the caller's autocast.
    ready = call.ready()
    with _without_autocast(call):
        out, lse = _run(call, ready, want_lse)
        poison = _find_poison(call, out)
    if poison is not None:
        clean = poison.clean.ready()
        with _without_autocast(call):
            out, lse = poison.restore(_run(poison.clean, clean, want_lse)[0], _exact_outputs), None
    return out, lse, ready


def _run(call: Call, ready: Prepared | None, want_lse: bool) -> tuple[Tensor, Tensor | None]:
    if ready is None or ready.v is not None or 0 in (*call.grid, call.v.shape[-1]) or needs_plain_formula():
        return _dense(call, ready, want_lse)
    return _product(call, ready, want_lse)


def _without_autocast(call: Call) -> AbstractContextManager:
    """Return a context manager that disables torch.autocast, so that sums are computed in the wide dtype."""
    device = call.q.device
    return torch.autocast(device.type, enabled=False) if autocasting(device) else nullcontext()


def _product(call: Call, ready: Prepared, want_lse: bool) -> tuple[Tensor, Tensor | None]:
    """Compute attention with dot-product scores, by the block-sparse, the fused or the dense kernel."""
    job = _block_sparse_job(call, ready)
    # Neither the fused nor the compiled kernel supports dropout and gradients of the bias.
    if call.dropout or _trained(call.bias):
        if job is None:
            return _dense(call, ready, want_lse)
        return block_sparse_attention_dense(*_block_sparse_inputs(call, ready), job, call.dropout), None
    if job is None:
        return _fused(call, ready, want_lse)
    q, k, v, width = sdpa.equal_widths(*_block_sparse_inputs(call, ready))
    out, lse = block_sparse_attention(q, k, v, job)
    return (out if width is None else out[..., :width]), lse


def _block_sparse_job(call: Call, ready: Prepared) -> BlockSparseJob | None:
    """Return the job of the block-sparse kernel, or None if that kernel would not save time or cannot be used."""
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
    """Compute attention with torch's fused kernel, with mask and bias as one tensor unless the mask is plain causal."""
    q, k, v, grid = ready.q, ready.k, call.v, call.grid
    run = sdpa.fused_with_lse if want_lse else sdpa.fused
    if call.mask is None and call.bias is None:
        # The query heads of a group are stacked along the queries, so k need not be copied.
        if k.shape[1] != grid.h:
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
    """Compute dense attention, a few queries at a time if there are many weights."""
    grid = call.grid
    rows = max(1, _MAX_WEIGHTS // max(1, grid.b * grid.h * grid.k))
    # A callable score gets all queries at once.
    whole = ready is None or needs_plain_formula()
    if whole or grid.q <= rows:
        return _dense_rows(call, ready, slice(0, grid.q), want_lse)
    parts = []
    for start in range(0, grid.q, rows):
        step = (call, ready, slice(start, min(start + rows, grid.q)), want_lse)
        # The backward pass computes the weights again instead of storing them.
        if torch.is_grad_enabled():
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


def _weights_of(call: Call) -> Tensor:
    ready = call.ready()
    with _without_autocast(call):
        return _weights_of_rows(call, ready, slice(0, call.grid.q), False)[0]


def _weights_of_rows(
    call: Call, ready: Prepared | None, rows: slice, want_lse: bool
) -> tuple[Tensor, Tensor | None]:
    """Compute the weights ``(b,h,rows,k)`` of some queries, and the log-sum-exp ``(b,h,rows)`` if ``want_lse``."""
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
    """Compute the scores ``(b,h,rows,k)`` in the wide dtype."""
    if ready is not None:
        return dense.pair_scores(ready._replace(q=ready.q[:, :, rows]))
    scores = dense.callable_scores(call.score, call.q, call.k)
    return scores if call.scale is None else scores * call.scale


def _added(call: Call, dtype: torch.dtype) -> Tensor:
    """Return the mask for the fused kernel, as booleans or, with a bias, as numbers of ``dtype`` to add."""
    grid, device = call.grid, call.q.device
    keep = None if call.mask is None else call.mask.dense(grid, device)
    if call.bias is None:
        assert keep is not None
        return keep
    # The dtype is wider than a half-precision q, because a rounded bias would change the weights.
    added = dense_bias(call.bias, grid, device).to(dtype)
    return added if keep is None else added.masked_fill(~keep, float("-inf"))


def _block_sparse_inputs(call: Call, ready: Prepared) -> tuple[Tensor, Tensor, Tensor]:
    """Return q, k and v with equal numbers of heads."""
    return ready.q, dense.expand_heads(ready.k, call.grid.h), dense.expand_heads(call.v, call.grid.h)


def _tile_of(call: Call) -> Callable[[Tensor, Tensor], Tensor] | None:
    bias, grid = call.bias, call.grid
    return None if bias is None else lambda i, j: bias.tile(i, j, grid)


def _trained(bias: Bias | None) -> bool:
    """Return whether the bias needs a gradient, which the fused kernel does not compute."""
    if bias is None or not torch.is_grad_enabled():
        return False
    if isinstance(bias, StoredBias):
        return bias.values.requires_grad
    if isinstance(bias, SumOfBiases):
        return _trained(bias.left) or _trained(bias.right)
    return isinstance(bias, nn.Module) and any(p.requires_grad for p in bias.parameters())


def _is_plain_causal(call: Call) -> bool:
    """Return whether there is no bias and the mask is the fused kernel's causal rule, key index <= query index."""
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
    """Restore the head axis of queries that were stacked by groups of heads."""
    out, lse = _pair(result)
    out = out.reshape(grid.b, grid.h, grid.q, -1)
    return out, None if lse is None else lse.reshape(grid.b, grid.h, grid.q)


# ---- keys and values that are not finite, and that a mask hides from some queries only


class _Poison(NamedTuple):
    """A call whose keys or values hold NaN or infinity.

    A weight of 0 times NaN is NaN, so every kernel would spread it to queries that may not see it.
    """

    call: Call
    clean: Call
    """The call with zeros in these keys and values, and in the queries that see them."""
    rows: Tensor
    """The queries that see such a key, or are not finite themselves, ``(b,h,q)``."""

    def restore(self, clean: Tensor, exact: Callable[[Call, Prepared | None, slice], Tensor]) -> Tensor:
        """Return the result ``(b,h,q,...)`` of the clean call, with the rows that see poison computed by ``exact``."""
        if not bool(self.rows.any()):
            return clean
        with torch.no_grad():
            ready, replaced = self.call.ready(), clean.clone()
            for rows in _row_blocks(self.call.grid, whole=ready is None):
                seen = self.rows[:, :, rows, None]  # (b,h,rows,1)
                if bool(seen.any()):
                    result = exact(self.call, ready, rows).to(clean.dtype)
                    replaced[:, :, rows] = torch.where(seen, result, clean[:, :, rows])
        call = self.call
        return _Restored.apply(clean, call.q, call.k, call.v, replaced, self.rows, call)


class _Restored(torch.autograd.Function):
    """Rows of a result replaced by rows that are not finite.

    The gradient of a replaced row is NaN for its query and for the keys and values that it sees, unless the gradient of
    the row is 0, as for a row that the loss leaves out.
    """

    @staticmethod
    def forward(ctx, clean, q, k, v, replaced, rows, call):
        ctx.save_for_backward(rows)
        ctx.call = call
        return replaced

    @staticmethod
    def backward(ctx, g: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        (rows,), call = ctx.saved_tensors, ctx.call
        used = rows & (g != 0).any(dim=-1)  # (b,h,q)
        passed = torch.where(rows[..., None], 0.0, g)
        if not bool(used.any()):
            return passed, None, None, None, None, None, None
        hit = torch.zeros(*call.grid[:2], call.grid.k, dtype=torch.bool, device=g.device)  # (b,h,k)
        for block in _row_blocks(call.grid, whole=False):
            hit |= (_keep_of_rows(call, block) & used[:, :, block, None]).any(dim=2)
        hit = hit.unflatten(1, (call.k.shape[1], -1)).any(dim=2)  # (b,g,k)
        spread = [
            torch.zeros_like(x).masked_fill(which[..., None], float("nan")) if needed else None
            for x, which, needed in zip(
                (call.q, call.k, call.v), (used, hit, hit), ctx.needs_input_grad[1:4], strict=True
            )
        ]
        return passed, *spread, None, None, None


def _find_poison(call: Call, out: Tensor) -> _Poison | None:
    """Return the keys and values that are not finite and may have reached queries that do not see them, or None.

    ``out`` is the result of a kernel. Every key that is not hidden from all queries is seen by a row, and a value that
    is not finite makes that row so, whatever its weight. Rows that together see all keys are read. An infinite key can
    have a weight of 0. It spreads only in the backward pass, so keys are read if there will be one.

    In a trace and on other devices than the CPU no numbers are read, and the result is None.
    """
    mask, h, groups = call.mask, call.grid.h, call.k.shape[1]
    if mask is None or ((mask.per_key or call.grid.q == 1) and groups == h):
        # No key is seen by some queries only.
        return None
    if not out.is_cpu or not out.numel() or not readable(out):
        return None
    backward = out.requires_grad
    read = out.detach() if backward else out
    if out.numel() > _FEW:
        read = read[:, :, mask.covering_rows(call.grid)]
    if math.isfinite(_total(read)) and not (backward and not math.isfinite(_total(call.k.detach()))):
        return None
    with torch.no_grad():
        # The sum of finite numbers can overflow, so each number is read now.
        bad = ~(call.k.isfinite().all(dim=-1) & call.v.isfinite().all(dim=-1))  # (b,g,k)
        columns = bad.any(dim=0).any(dim=0).nonzero()[:, 0]
        if not len(columns):
            return None
        # (b,h,columns)
        bad_columns = bad[:, :, columns].repeat_interleave(h // groups, dim=1)
        poisoned = ~call.q.isfinite().all(dim=-1)  # (b,h,q)
        for block in _row_blocks(call.grid, whole=False):
            poisoned[:, :, block] |= (_keep_of_rows(call, block, columns) & bad_columns[:, :, None]).any(
                dim=-1
            )
    k, v = (x.masked_fill(bad[..., None], 0.0) for x in (call.k, call.v))
    return _Poison(call, call._replace(q=call.q.masked_fill(poisoned[..., None], 0.0), k=k, v=v), poisoned)


def _total(x: Tensor) -> float:
    """Return the sum of all numbers, which is not finite if one of them is not."""
    # A half-precision sum would overflow.
    return (x.sum() if x.dtype in (torch.float32, torch.float64) else x.sum(dtype=torch.float32)).item()


def _row_blocks(grid: Grid, whole: bool) -> Iterator[slice]:
    """Yield blocks of queries with at most so many weights as dense attention holds at once."""
    rows = grid.q if whole else max(1, _MAX_WEIGHTS // max(1, grid.b * grid.h * grid.k))
    for start in range(0, grid.q, rows):
        yield slice(start, min(start + rows, grid.q))


def _keep_of_rows(call: Call, rows: slice, columns: Tensor | None = None) -> Tensor:
    """Return which keys some queries may attend to, ``(b or 1,h or 1,rows,k)``, of all keys or of some columns."""
    assert call.mask is not None
    i = torch.arange(rows.start, rows.stop, device=call.q.device)[:, None]
    j = torch.arange(call.grid.k, device=call.q.device) if columns is None else columns
    return call.mask.allow(i, j[None, :], call.grid)


def _exact_weights(call: Call, ready: Prepared | None, rows: slice) -> Tensor:
    return _weights_of_rows(call, ready, rows, False)[0]


def _exact_outputs(call: Call, ready: Prepared | None, rows: slice) -> Tensor:
    """Compute rows of the output, in which values count only for queries that see them, ``(b,h,rows,e)``."""
    weights, v = _exact_weights(call, ready, rows), call.v
    out = dense.weighted_sum(weights, v.masked_fill(~v.isfinite(), 0.0), 0.0)
    keep = _keep_of_rows(call, rows).expand(weights.shape).to(weights.dtype)
    for number, places in ((math.nan, v.isnan()), (math.inf, v == math.inf), (-math.inf, v == -math.inf)):
        seen = dense.weighted_sum(keep, places, 0.0) > 0
        # The sum of both infinities is NaN.
        out = out + torch.zeros_like(out).masked_fill(seen, number)
    return out
