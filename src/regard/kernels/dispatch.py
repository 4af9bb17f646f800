"""Picks the kernel for a call, and runs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.utils.checkpoint
from torch import Tensor, nn

from regard.biases import Bias, StoredBias, SumOfBiases, dense_bias
from regard.kernels import dense, sdpa
from regard.kernels.local import LocalJob, local_attention, local_attention_dense
from regard.kernels.plans import plan_for
from regard.masks import Mask
from regard.masks.rules import Causal
from regard.scores import Prepared, Score
from regard.shapes import Grid

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
    weights, seen = weights_of(call)
    v = dense.hide(call.v, _per_group(seen, call.v.shape[1]))
    return dense.weighted_sum(weights, v, call.dropout), weights


def run(call: Call, want_lse: bool) -> tuple[Tensor, Tensor | None, Prepared | None]:
    """Output ``(b,h,q,e)``, the log-sum-exp where it came for free, and the projected queries and keys."""
    ready = call.ready()
    if ready is None or ready.v is not None or call.grid.q * call.grid.k * call.v.shape[-1] == 0:
        return (*_dense(call, ready, want_lse), ready)
    return (*_product(call, ready, want_lse), ready)


def _product(call: Call, ready: Prepared, want_lse: bool) -> tuple[Tensor, Tensor | None]:
    """Attention whose scores are products: through the fused kernel wherever it can do the work."""
    job = _local_job(call, ready)
    if call.dropout or _trained(call.bias):  # the fused kernels can do neither
        if job is None:
            return _dense(call, ready, want_lse)
        return local_attention_dense(*_local_inputs(call, ready), job, call.dropout), None
    if job is None:
        return _fused(call, ready, want_lse)
    q, k, v, width = sdpa.equal_widths(*_local_inputs(call, ready))
    out, lse = local_attention(q, k, v, job)
    return (out if width is None else out[..., :width]), lse


def _local_job(call: Call, ready: Prepared) -> LocalJob | None:
    """What the local kernel would compute, or None where it would gain nothing."""
    if (
        call.mask is None
        or torch.compiler.is_compiling()
        or ready.q.device.type != "cpu"
        or _is_plain_causal(call)
    ):
        return None
    plan = plan_for(call.mask, call.grid)
    return None if plan is None else LocalJob(plan, call.mask, call.grid, _tile_of(call), ready.scale)


def _fused(call: Call, ready: Prepared, want_lse: bool) -> tuple[Tensor, Tensor | None]:
    """The fused kernel on everything, with a mask tensor where there is a mask."""
    q, k, v, grid = ready.q, ready.k, call.v, call.grid
    run = sdpa.fused_with_lse if want_lse else sdpa.fused
    if call.mask is None and call.bias is None:
        if (
            k.shape[1] != grid.h
        ):  # grouped heads: the queries of a group stand behind one another, k is not copied
            folded = q.reshape(grid.b, k.shape[1], -1, q.shape[-1])
            return _unfold(run(folded, k, v, ready.scale, None, False), grid)
        return _pair(run(q, k, v, ready.scale, None, False))
    if _is_plain_causal(call):
        seen = min(grid.q, grid.k)  # later keys are seen by nobody: what stands there must not matter
        return _pair(run(q, k[:, :, :seen], v[:, :, :seen], ready.scale, None, True))
    added, seen = _added(call, q.dtype)
    k, v = (dense.hide(x, _per_group(seen, x.shape[1])) for x in (k, v))
    return _pair(run(q, k, v, ready.scale, added, False))


def _dense(call: Call, ready: Prepared | None, want_lse: bool) -> tuple[Tensor, Tensor | None]:
    """The plain form, a few queries at a time where the weights would be many."""
    grid = call.grid
    rows = max(1, _MAX_WEIGHTS // max(1, grid.b * grid.h * grid.k))
    if ready is None or grid.q <= rows:  # a callable of the user's sees everything at once
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
    weights, seen, lse = _weights_of_rows(call, ready, rows, want_lse)
    v = dense.hide(call.v, _per_group(seen, call.v.shape[1]))
    return dense.weighted_sum(weights, v, call.dropout).to(call.v.dtype), lse


def weights_of(call: Call) -> tuple[Tensor, Tensor | None]:
    """All weights ``(b,h,q,k)`` in the wide dtype, and which keys some query may see."""
    return _weights_of_rows(call, call.ready(), slice(0, call.grid.q), False)[:2]


def _weights_of_rows(
    call: Call, ready: Prepared | None, rows: slice, want_lse: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Weights ``(b,h,rows,k)``, keys that some query may see, and the log-sum-exp if wanted."""
    grid, device = call.grid, call.q.device
    i = torch.arange(rows.start, rows.stop, device=device)[:, None]
    j = torch.arange(grid.k, device=device)[None, :]
    keep = seen = None
    if call.mask is not None:
        whole = rows == slice(0, grid.q)
        keep = call.mask.dense(grid, device) if whole else call.mask.allow(i, j, grid)
        seen = keep.any(dim=2).expand(-1, -1, grid.k) if whole else call.mask.seen_keys(grid)
    scores = _scores_of_rows(call, ready, rows, _per_group(seen, call.k.shape[1]))
    if call.bias is not None:
        scores = scores + call.bias.tile(i, j, grid).to(scores.dtype)
    lse = None
    if want_lse:
        hidden = scores if keep is None else scores.masked_fill(~keep, float("-inf"))
        lse = torch.logsumexp(hidden.detach(), dim=-1)
    return dense.masked_softmax(scores, keep), seen, lse


def _scores_of_rows(call: Call, ready: Prepared | None, rows: slice, seen: Tensor | None) -> Tensor:
    """Scores ``(b,h,rows,k)`` in the wide dtype; keys that nobody sees count as zeros."""
    if ready is not None:
        return dense.pair_scores(ready._replace(q=ready.q[:, :, rows], k=dense.hide(ready.k, seen)))
    scores = dense.callable_scores(call.score, call.q, dense.hide(call.k, seen))
    return scores if call.scale is None else scores * call.scale


def _added(call: Call, dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
    """What the fused kernel takes as mask (booleans, or numbers), and which keys some query may see."""
    grid, device = call.grid, call.q.device
    keep = None if call.mask is None else call.mask.dense(grid, device)
    seen = None if keep is None else keep.any(dim=2).expand(-1, -1, grid.k)
    if call.bias is None:
        assert keep is not None  # one of the two is there
        return keep, seen
    added = dense_bias(call.bias, grid, device).to(dtype)
    return (added if keep is None else added.masked_fill(~keep, float("-inf"))), seen


def _local_inputs(call: Call, ready: Prepared) -> tuple[Tensor, Tensor, Tensor]:
    """q, k, v with equal heads, and zeros where no query looks."""
    assert call.mask is not None
    seen = _per_group(call.mask.seen_keys(call.grid), ready.k.shape[1])
    k, v = (dense.expand_heads(dense.hide(x, seen), call.grid.h) for x in (ready.k, call.v))
    return ready.q, k, v


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


def _per_group(seen: Tensor | None, groups: int) -> Tensor | None:
    """``(b,h,k)`` of the query heads, for keys of fewer heads: seen by any head of the group."""
    if seen is None or seen.shape[1] in (1, groups):
        return seen
    return seen.unflatten(1, (groups, -1)).any(dim=2)


def _pair(result: Tensor | tuple[Tensor, Tensor | None]) -> tuple[Tensor, Tensor | None]:
    return (result, None) if isinstance(result, Tensor) else result


def _unfold(result: Tensor | tuple[Tensor, Tensor | None], grid: Grid) -> tuple[Tensor, Tensor | None]:
    """Give the queries of grouped heads their head axis back."""
    out, lse = _pair(result)
    out = out.reshape(grid.b, grid.h, grid.q, -1)
    return out, None if lse is None else lse.reshape(grid.b, grid.h, grid.q)
