"""Dot-product attention with torch's fused kernel, which does not store the weights.

On the CPU, the kernel is called directly if the log-sum-exp is needed, because it computes it anyway.
"""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.kernels.dense import expand_heads
from regard.torch_private import flash, has_amx

__all__ = ["equal_widths", "fused", "fused_with_lse"]


# Up to so many keys, torch 2.13 takes 1.2 to 6 times as long for the gradients in bfloat16 as in float32 on a CPU
# without AMX instructions.
_SHORT = 256


def fused(q: Tensor, k: Tensor, v: Tensor, scale: float, additive: Tensor | None, causal: bool) -> Tensor:
    """Compute attention ``(b,h,q,e)`` with ``F.scaled_dot_product_attention``.

    k and v may have fewer heads than q, which are then repeated. ``additive (b or 1,h or 1,q,k)`` is a boolean mask,
    True where attended, or numbers that are added to the scores. ``causal`` hides the keys whose index is larger than
    that of the query.
    """
    if _is_slow_in_half_precision(q, k, v):
        if additive is not None and additive.dtype != torch.bool:
            additive = additive.float()
        with torch.autocast("cpu", enabled=False):
            return fused(q.float(), k.float(), v.float(), scale, additive, causal).to(q.dtype)
    q, k, v, width = equal_widths(q, k, v)
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=additive, is_causal=causal, scale=scale)
    return out if width is None else out[..., :width]


def _is_slow_in_half_precision(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether the gradients of this attention are computed faster in float32 than in the precision of ``q``."""
    half = q.device.type == "cpu" and q.dtype in (torch.bfloat16, torch.float16)
    if not half or k.shape[-2] > _SHORT or not torch.is_grad_enabled():
        return False
    return (q.requires_grad or k.requires_grad or v.requires_grad) and not _has_amx()


@functools.cache
def _has_amx() -> bool:
    """Whether the CPU has the AMX instructions, with which torch computes these gradients fast."""
    return has_amx()


def fused_with_lse(
    q: Tensor, k: Tensor, v: Tensor, scale: float, additive: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor | None]:
    """Compute attention as :func:`fused` does, and the log-sum-exp ``(b,h,q)`` of each row.

    The log-sum-exp has no gradient. It is None on other devices than the CPU and for empty inputs.
    """
    if q.device.type != "cpu" or not q.numel() or not k.numel() or not v.numel():
        return fused(q, k, v, scale, additive, causal), None
    if additive is not None and additive.dtype == torch.bool:
        additive = torch.zeros((), dtype=q.dtype).masked_fill(~additive, float("-inf"))
    q, k, v, width = equal_widths(q, k, v)
    out, lse = flash(q, k, v, 0.0, causal, attn_mask=additive, scale=scale)
    return (out if width is None else out[..., :width]), lse.detach()


def equal_widths(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor, int | None]:
    """Repeat grouped heads, and pad either v or both q and k with zeros to equal widths, as the kernel requires.

    The last value is the width to which the output must be cut, or None if v was not padded. Padding q and k does not
    change their products. Padding v adds columns to the output.
    """
    k, v = expand_heads(k, q.shape[1]), expand_heads(v, q.shape[1])
    q, k, v = (x if x.stride(-1) == 1 else x.contiguous() for x in (q, k, v))
    d, e = k.shape[-1], v.shape[-1]
    if e < d:
        return q, k, F.pad(v, (0, d - e)), e
    if e > d:
        return F.pad(q, (0, e - d)), F.pad(k, (0, e - d)), v, None
    return q, k, v, None
