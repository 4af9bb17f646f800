"""A few rows of an attention, recomputed from its arguments and compared with the numbers of the model."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.capture.reading.attention_calls import AttentionCall
from regard.shapes import wide_dtype

__all__ = ["gives_output", "gives_weights"]

# The number of weights up to which taking a few rows would take longer than comparing all.
_COMPARED_AS_A_WHOLE = 8192


def gives_weights(call: AttentionCall, weights: Tensor) -> bool:
    """Whether q, k and the mask of a call give the model's weights ``(b,h,q,k)``, compared in a few rows."""
    if 0 in call.grid:
        return False
    if not torch.is_grad_enabled():
        return _gives_weights(call, weights)
    with torch.no_grad():
        return _gives_weights(call, weights)


def _gives_weights(call: AttentionCall, weights: Tensor) -> bool:
    q, k = call.q, call.k
    assert q is not None
    assert k is not None
    mask, expected = call.attn_mask, weights
    if weights.numel() > _COMPARED_AS_A_WHOLE:
        rows = _compared_rows(call.grid.q)
        q, expected = q[:, :, rows], weights[:, :, rows]
        mask = mask if mask is None or mask.ndim < 2 or mask.shape[-2] == 1 else mask[..., rows, :]
    wide = wide_dtype(q.dtype)
    if q.dtype != wide or k.dtype != wide:
        q, k = q.to(wide), k.to(wide)
    scores = _grouped_product(q, k.mT)  # (b,h,rows,k)
    scores = scores * call.scale if mask is None else torch.add(mask, scores, alpha=call.scale)
    recomputed = torch.softmax(scores, dim=-1)
    tolerance = 1e-5 if weights.dtype in (torch.float32, torch.float64) else 1e-2
    # The Euclidean distance is no less than the largest difference, and is a single operation.
    if float(torch.dist(recomputed, expected)) <= tolerance:
        return True
    # A row without keys is NaN in one of them and may be zeros in the other.
    expected = expected.to(wide).nan_to_num()
    return bool(((recomputed.nan_to_num() - expected).abs() <= tolerance).all())


@torch.no_grad()
def gives_output(weights: Tensor, v: Tensor, output: Tensor) -> bool:
    """Whether weights ``(b,h,q,k)`` times values ``(b,g,k,d)`` are an output ``(b,q,h,d)``, compared in a few rows."""
    b, h, queries, _ = weights.shape
    if output.shape != (b, queries, h, v.shape[-1]) or v.ndim != 4 or h % v.shape[1]:
        return False
    rows = _compared_rows(queries)
    expected = _grouped_product(weights[:, :, rows], v).transpose(1, 2)  # (b,rows,h,d)
    tolerance = 1e-4 if output.dtype in (torch.float32, torch.float64) else 1e-1
    compared = output[:, rows]
    # The Euclidean distance is no less than the largest difference, in a fifth of the time of torch.allclose.
    if float(torch.dist(compared, expected)) <= tolerance:
        return True
    return bool(torch.allclose(compared, expected, rtol=tolerance, atol=tolerance, equal_nan=True))


def _compared_rows(count: int) -> slice:
    """Return two or three rows of so many, with the last."""
    step = max(count // 2, 1)
    return slice((count - 1) % step, None, step)


def _grouped_product(x: Tensor, y: Tensor) -> Tensor:
    """Multiply ``(b,h,m,n)`` by ``(b,g,n,p)``, each of whose heads belongs to ``h / g`` heads of the first."""
    b, h, m, n = x.shape
    if y.shape[1] == h:
        return x @ y
    return (x.reshape(b, y.shape[1], -1, n) @ y).view(b, h, m, y.shape[-1])
