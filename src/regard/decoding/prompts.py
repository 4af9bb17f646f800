"""The start of decoding, from the beginning-of-sentence token or from prompts."""

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
    """Return the state of the model before the first generated token, and the tokens before it, ``(b,p)``.

    They are ``bos`` without prompts, and otherwise the prompts. The last token of each prompt is not fed to the model.
    The earlier ones are, in parallel if the model has a method ``feed(tokens, state)``. ``count`` is the number of
    sentences, b.
    """
    device = _device(model, memory, prompts)
    if prompts is None:
        tokens = torch.full((count, 1), bos, dtype=torch.int64, device=device)
    else:
        tokens = _as_tokens(prompts, count).to(device)
    state = model.start(memory)
    feed = getattr(model, "feed", None)
    if feed is not None and tokens.shape[1] > 1:
        feed(tokens[:, :-1], state)
    else:
        for i in range(tokens.shape[1] - 1):
            model.step(tokens[:, i : i + 1], state)
    return state, tokens


def _as_tokens(prompts: Prompts, count: int) -> Tensor:
    """Return the prompts as an int64 tensor ``(b,p)``.

    Raises an error if their lengths differ, if one is empty, or if there are not ``count`` of them.
    """
    if not isinstance(prompts, Tensor):
        lengths = sorted({len(prompt) for prompt in prompts})
        if len(lengths) > 1:
            raise ArgumentError(
                "prompts",
                f"expected prompts of one length, got {lengths[0]} and {lengths[-1]} tokens",
                "give those of one length at a time",
            )
        prompts = torch.tensor([list(prompt) for prompt in prompts])
    if prompts.ndim != 2 or len(prompts) != count or prompts.shape[1] == 0:
        raise ShapeError("prompts", f"expected ({count},p) with p of 1 or more, got {axes(prompts.shape)}")
    if prompts.dtype not in (torch.int64, torch.int32):
        raise DtypeError("prompts", f"expected integer token ids, got {prompts.dtype}")
    return prompts.long()


def _device(model: Decodable, memory: Any, prompts: Prompts | None) -> torch.device:
    if memory is not None:
        return memory.states.device
    if isinstance(model, torch.nn.Module):
        return next(model.parameters()).device
    return prompts.device if isinstance(prompts, Tensor) else torch.device("cpu")
