"""A call of Regard's own :func:`regard.attention`, as a capture keeps it."""

from __future__ import annotations

from torch import Tensor

from regard.capture.reading.attention_calls import AttentionCall
from regard.errors import ArgumentError
from regard.kernels.dispatch import Call, weights_of
from regard.maps.sources import check_pairwise, freeze_bias
from regard.scores import Prepared, Score

__all__ = ["read_regard_call"]


def read_regard_call(call: Call, sums: list[Tensor]) -> AttentionCall:
    """Read a call of :func:`regard.attention`. ``sums`` are the log-sum-exps that torch's kernels returned in it."""
    ready = call.ready()
    grid = call.grid
    mask = None if call.mask is None else call.mask.map_tensors(lambda x: x.detach().clone())
    bias = freeze_bias(call.bias)
    if ready is not None:
        whole = len(sums) == 1 and sums[0].numel() == grid.b * grid.h * grid.q
        # The kernel has grouped heads one after another, as in (h,q).
        lse = sums[0].reshape(grid[:3]) if whole else None
        return AttentionCall(
            grid, q=ready.q, k=ready.k, scale=ready.scale, v=ready.v, lse=lse, mask=mask, bias=bias
        )
    assert not isinstance(call.score, Score)
    scale = 1.0 if call.scale is None else call.scale
    try:
        check_pairwise(call.score, Prepared(call.q, call.k, scale))
    # The score of a pair depends on other pairs, so the weights are kept instead.
    except ArgumentError:
        return AttentionCall(grid, k=call.k, weights=weights_of(call))
    return AttentionCall(grid, q=call.q, k=call.k, scale=scale, score=call.score, mask=mask, bias=bias)
