"""The AdamW optimizer, and its state as named tensors."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.training.options import TrainingOptions

__all__ = ["make_optimizer", "optimizer_tensors", "restore_optimizer"]


def make_optimizer(model: nn.Module, options: TrainingOptions) -> torch.optim.Optimizer:
    """Make an AdamW optimizer for all parameters, with weight decay on those of two or more axes only.

    Biases and the scales of norms have one axis.
    """
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
    """Return the state of the optimizer as tensors named ``parameter/part``, such as ``output.bias/exp_avg``."""
    tensors = {}
    for name, p in model.named_parameters():
        for part, value in optimizer.state.get(p, {}).items():
            tensors[f"{name}/{part}"] = value
    return tensors


def restore_optimizer(optimizer: torch.optim.Optimizer, model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Set the state of the optimizer to copies of the tensors from :func:`optimizer_tensors`.

    The former state is dropped. The tensors are copied because a tensor loaded from a file may be memory-mapped.
    """
    parameters = dict(model.named_parameters())
    optimizer.state.clear()
    for key, value in tensors.items():
        name, _, part = key.rpartition("/")
        optimizer.state[parameters[name]][part] = value.to(parameters[name].device, copy=True)
