"""The precision of the forward pass, while the weights stay in float32."""

from __future__ import annotations

import contextlib

import torch

from regard.torch_private import has_amx, has_avx512_bf16

__all__ = ["autocast", "precision_note", "uses_bfloat16"]


def autocast(precision: str, device: torch.device) -> contextlib.AbstractContextManager:
    """Return a context manager that computes the forward pass in bfloat16 if :func:`uses_bfloat16` says so.

    ``backward()`` must be called outside of it.
    """
    if not uses_bfloat16(precision, device):
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)


def uses_bfloat16(precision: str, device: torch.device) -> bool:
    """Return whether to compute in bfloat16 on this device.

    ``precision`` is "float32", "bfloat16" or "auto", which means bfloat16 if the hardware has instructions for it.
    """
    if precision != "auto":
        return precision == "bfloat16"
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported()
    if device.type != "cpu":
        return False
    return has_avx512_bf16() or has_amx()


def precision_note(precision: str, device: torch.device) -> str:
    """Return a sentence for the user if bfloat16 is asked of a processor without instructions for it, or ""."""
    if precision != "bfloat16" or device.type != "cpu" or uses_bfloat16("auto", device):
        return ""
    return "precision: this processor has no bfloat16 instructions, so float32 is usually faster: use --precision auto"
