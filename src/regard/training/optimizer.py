"""The optimizer: AdamW, and its moments as tensors with names."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.training.options import TrainingOptions

__all__ = ["make_optimizer", "optimizer_tensors", "restore_optimizer"]


def make_optimizer(model: nn.Module, options: TrainingOptions) -> torch.optim.Optimizer:
    """AdamW; biases and the scales of norms are not decayed, since they are not what overfits."""
    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = [p for p in model.parameters() if p.ndim <= 1]
    groups = [
        {"params": matrices, "weight_decay": options.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=options.learning_rate,
        betas=options.betas,
        fused=True,
    )


def optimizer_tensors(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """What the optimizer remembers, as ``parameter/part``: a name, where torch's own state has only a number."""
    found = {}
    for name, p in model.named_parameters():
        for part, value in optimizer.state.get(p, {}).items():
            found[f"{name}/{part}"] = value
    return found


def restore_optimizer(optimizer: torch.optim.Optimizer, model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Put back what :func:`optimizer_tensors` gave, in memory of its own: a loaded tensor is a part of its file."""
    parameters = dict(model.named_parameters())
    optimizer.state.clear()
    for key, value in tensors.items():
        name, _, part = key.rpartition("/")
        optimizer.state[parameters[name]][part] = value.to(parameters[name].device, copy=True)
