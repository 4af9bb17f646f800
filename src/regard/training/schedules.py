"""Learning-rate schedules.

A Transformer that starts at its full learning rate often diverges, because the first gradients are large and Adam's
averages are still empty. Therefore the rate rises from 0 to its full value over the warm-up. Most schedules then let
it fall until the last step.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from regard.errors import ArgumentError, DtypeError
from regard.shapes import whole_number

__all__ = ["SCHEDULES", "get_linear_schedule_with_warmup", "linear_warmup_factor"]


def get_linear_schedule_with_warmup(
    optimizer: Optimizer, num_warmup_steps: int, num_training_steps: int, last_epoch: int = -1
) -> LambdaLR:
    """Return a torch scheduler whose factor on the learning rates rises linearly from 0 to 1, then falls to 0.

    It is 1 after ``num_warmup_steps`` and 0 from ``num_training_steps`` on. Call ``schedule.step()`` after each
    ``optimizer.step()``. To resume a saved run, pass the number of steps already made as ``last_epoch`` (as for any
    torch scheduler), or load the schedule's ``state_dict``.

    >>> import torch
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=8.0)
    >>> schedule = get_linear_schedule_with_warmup(optimizer, num_warmup_steps=2, num_training_steps=6)
    >>> rates = []
    >>> for _ in range(7):
    ...     rates += schedule.get_last_lr()
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [0.0, 4.0, 8.0, 6.0, 4.0, 2.0, 0.0]
    """
    if not isinstance(optimizer, Optimizer):
        raise DtypeError("optimizer", f"expected a torch.optim.Optimizer, got {type(optimizer).__name__}")
    warmup = _number_of_steps("num_warmup_steps", num_warmup_steps, least=0)
    total = _number_of_steps("num_training_steps", num_training_steps, least=1)
    if warmup > total:
        raise ArgumentError(
            "num_warmup_steps",
            f"{warmup} steps of warm-up do not fit in num_training_steps={total}",
            "warm up for fewer steps, or train for more",
        )
    last = _number_of_steps("last_epoch", last_epoch, least=-1)
    return LambdaLR(optimizer, lambda step: linear_warmup_factor(step, warmup, total), last)


def linear_warmup_factor(step: float, num_warmup_steps: float, num_training_steps: float) -> float:
    """Return the factor on the learning rate at one step of the linear schedule with warm-up.

    It rises from 0 to 1 over the warm-up, falls to 0 at ``num_training_steps``, and stays 0.

    >>> [linear_warmup_factor(step, 2, 6) for step in range(8)]
    [0.0, 0.5, 1.0, 0.75, 0.5, 0.25, 0.0, 0.0]
    """
    if step < num_warmup_steps:
        return step / num_warmup_steps
    if step >= num_training_steps:
        return 0.0
    return (num_training_steps - step) / (num_training_steps - num_warmup_steps)


def _number_of_steps(name: str, value: object, least: int) -> int:
    """Return a number of steps as an int, or raise an error unless it is a whole number of at least ``least``.

    It may be a tensor of one integer.
    """
    if isinstance(value, Tensor) and value.numel() == 1:
        value = value.item()
    return whole_number(name, value, least)


def _linear(step: float, warmup: float, total: float) -> float:
    return linear_warmup_factor(step, warmup, total)


def _cosine(step: float, warmup: float, total: float) -> float:
    if step < warmup:
        return step / warmup
    if step >= total:
        return 0.0
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / (total - warmup)))


def _inverse_sqrt(step: float, warmup: float, total: float) -> float:
    return step / warmup if step < warmup else math.sqrt(max(warmup, 1) / max(step, 1))


def _constant(step: float, warmup: float, total: float) -> float:
    return step / warmup if step < warmup else 1.0


# Functions of (step, warm-up steps, total steps) that return the factor on the learning rate.
SCHEDULES: dict[str, Callable[[float, float, float], float]] = {
    "linear": _linear,
    "cosine": _cosine,
    "inverse_sqrt": _inverse_sqrt,
    "constant": _constant,
}
