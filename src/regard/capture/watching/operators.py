"""The duties of torch's operators that a capture has to know."""

from __future__ import annotations

import torch

from regard.capture.watching.score_tracing import LOG_SOFTMAXES, SOFTMAXES

__all__ = ["EXPONENTIALS", "GIVES_LSE", "OPERATOR_ROLES"]

_FUSED = {
    getattr(torch.ops.aten, name).default
    for name in (
        "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_cudnn_attention",
        "_scaled_dot_product_fused_attention_overrideable",
        "_scaled_dot_product_attention_math_for_mps",
    )
    if hasattr(torch.ops.aten, name)
}
GIVES_LSE = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
"""The kernel whose log-sum-exp is in natural units and without padding."""

# By identity: operators exist once per process, and hashing one takes longer than the rest of a look-up.
OPERATOR_ROLES = {
    **{id(op): "fused" for op in _FUSED},
    **{id(op): "softmax" for op in SOFTMAXES},
    **{id(op): "log softmax" for op in LOG_SOFTMAXES},
}
EXPONENTIALS = {
    id(op) for op in (torch.ops.aten.exp.default, torch.ops.aten.exp_.default, torch.ops.aten.exp2.default)
}
