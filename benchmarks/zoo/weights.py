"""Random weights for which attention is far from uniform, and true weights from the modules of a model."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from zoo.judging import Truth


@torch.no_grad()
def randomise(model: nn.Module, seed: int = 0) -> None:
    """Set weights that make attention peaked, since usual weights make every row almost uniform."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        if not parameter.is_floating_point():
            continue
        noise = torch.randn(parameter.shape, generator=generator).to(parameter.dtype)
        if parameter.ndim >= 2:
            wide = parameter[0].numel()
            parameter.copy_(noise * (1.6 / wide**0.5 if wide > 1 else 0.5))
        else:
            parameter.add_(0.2 * noise)


def is_causal(weights: Tensor, rows: Tensor | None = None) -> bool:
    """Return whether no row has a weight after the diagonal, among the rows ``(b,q)`` that are True."""
    ahead = weights.triu(1 + weights.shape[-1] - weights.shape[-2])
    if rows is not None:
        ahead = ahead * rows[:, None, :, None]
    return not bool(ahead.abs().max() > 0)


Pick = Callable[[str, nn.Module], str | None]


@contextlib.contextmanager
def watched(model: nn.Module, pick: Pick) -> Iterator[list[tuple[str, Tensor]]]:
    """Record the inputs or outputs of modules while a model runs, where ``pick`` says "input" or "output"."""
    found: list[tuple[str, Tensor]] = []
    handles = []

    def hook_on(name: str, side: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple[Any, ...], result: Any) -> None:
            found.append((name, (args[0] if side == "input" else result).detach().clone()))

        return hook

    for name, module in model.named_modules():
        side = pick(name, module)
        if side is not None:
            handles.append(module.register_forward_hook(hook_on(name, side)))
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


def self_truth(weights: Tensor, rows: Tensor | None = None, **about: Any) -> Truth:
    """Make the truth of a self-attention, whose kind is read from the weights."""
    return Truth(weights, "causal" if is_causal(weights, rows) else "self", **about)


@contextlib.contextmanager
def softmaxes() -> Iterator[list[Tensor]]:
    """Record the results of torch's softmax in the order of the calls, ``F.softmax`` included."""
    found: list[Tensor] = []
    kept = {owner: owner.softmax for owner in (Tensor, torch)}

    def shown(softmax: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def call(*args: Any, **kwargs: Any) -> Tensor:
            result = softmax(*args, **kwargs)
            found.append(result.detach().clone())
            return result

        return call

    for owner, softmax in kept.items():
        owner.softmax = shown(softmax)  # type: ignore[attr-defined]
    try:
        yield found
    finally:
        for owner, softmax in kept.items():
            owner.softmax = softmax  # type: ignore[attr-defined]
