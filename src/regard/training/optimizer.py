"""The optimizer of a run, and its state as named tensors."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from regard.training.muon import Muon
from regard.training.options import TrainingOptions

__all__ = ["make_optimizer", "optimizer_tensors", "restore_optimizer"]


def make_optimizer(model: nn.Module, options: TrainingOptions) -> torch.optim.Optimizer:
    """Make the optimizer of all parameters, with weight decay on those of two or more axes only.

    Biases and the scales of norms have one axis. With ``optimizer="muon"``, the weights of linear layers are updated by
    :class:`Muon`, except those of the output layer (``model.output``) and of tied embeddings.
    """
    inner = set(_inner_matrices(model)) if options.optimizer == "muon" else set()
    others = [p for p in model.parameters() if p not in inner]
    groups = [
        {"params": [p for p in others if p.ndim > 1], "weight_decay": options.weight_decay},
        {"params": [p for p in others if p.ndim <= 1], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    values = {"lr": options.learning_rate, "betas": options.betas}
    if not inner:
        return torch.optim.AdamW(groups, **values, fused=True)
    matrices = [p for p in model.parameters() if p in inner]
    return Muon(matrices, groups, **values, weight_decay=options.weight_decay)


def _inner_matrices(model: nn.Module) -> Iterator[Tensor]:
    """Yield the weights of linear layers that are neither the output layer nor an embedding table."""
    tables = {module.weight for module in model.modules() if isinstance(module, nn.Embedding)}
    output = getattr(model, "output", None)
    outer = tables | (set(output.parameters()) if isinstance(output, nn.Module) else set())
    for module in model.modules():
        if isinstance(module, nn.Linear) and module.weight not in outer:
            yield module.weight


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
