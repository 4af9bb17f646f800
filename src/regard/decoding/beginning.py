"""How decoding begins: at the start of a sentence, or after tokens that are given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.decoding.protocol import Decodable
from regard.errors import ArgumentError, DtypeError, ShapeError
from regard.shapes import axes

__all__ = ["Prompts", "begin"]

Prompts = Tensor | Sequence[Sequence[int]]


def begin(model: Decodable, memory: Any, count: int, bos: int, prompts: Prompts | None) -> tuple[Any, Tensor]:
    """The state before the first token to write, and the token that comes before it, ``(b,1)``."""
    device = _device(model, memory, prompts)
    if prompts is None:
        tokens = torch.full((count, 1), bos, dtype=torch.int64, device=device)
    else:
        tokens = _as_tokens(prompts, count).to(device)
    state = model.start(memory)
    for i in range(tokens.shape[1] - 1):
        model.step(tokens[:, i : i + 1], state)
    return state, tokens[:, -1:]


def _as_tokens(prompts: Prompts, count: int) -> Tensor:
    """The prompts as ``(b,p)``."""
    if not isinstance(prompts, Tensor):
        lengths = sorted({len(one) for one in prompts})
        if len(lengths) > 1:
            raise ArgumentError(
                "prompts",
                f"of {lengths[0]} and of {lengths[-1]} tokens",
                "give those of one length at a time",
            )
        prompts = torch.tensor([list(one) for one in prompts])
    if prompts.ndim != 2 or len(prompts) != count or prompts.shape[1] == 0:
        raise ShapeError("prompts", f"expected ({count},p) with p of 1 or more, got {axes(prompts.shape)}")
    if prompts.dtype not in (torch.int64, torch.int32):
        raise DtypeError("prompts", f"expected numbers of tokens, got {prompts.dtype}")
    return prompts.long()


def _device(model: Decodable, memory: Any, prompts: Prompts | None) -> torch.device:
    if memory is not None:
        return memory.states.device
    if isinstance(model, torch.nn.Module):
        return next(model.parameters()).device
    return prompts.device if isinstance(prompts, Tensor) else torch.device("cpu")
