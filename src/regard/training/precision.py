"""In which precision a step is computed. The weights themselves stay in float32."""

from __future__ import annotations

import contextlib

import torch

__all__ = ["autocast", "uses_bfloat16"]


def autocast(precision: str, device: torch.device) -> contextlib.AbstractContextManager:
    """The block in which a model is run forwards; torch wants the way back outside of it."""
    if not uses_bfloat16(precision, device):
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)


def uses_bfloat16(precision: str, device: torch.device) -> bool:
    """What ``precision`` means here: "auto" is bfloat16 where the machine has instructions for it."""
    if precision != "auto":
        return precision == "bfloat16"
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported()
    if device.type != "cpu":
        return False
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
