"""The policy gradient of REINFORCE (Williams 1992) with baselines, for choices that have no derivative."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from regard.errors import ShapeError

__all__ = ["advantages", "baseline_loss", "policy_loss"]


def advantages(returns: Tensor, baselines: Tensor, *, normalised: bool = True) -> Tensor:
    """Return by how much the ``returns (b,s,t)`` of choices exceed their baselines, without gradient.

    ``returns`` are the rewards that follow each of ``t`` choices, in ``s`` independent samples for each of ``b``
    inputs. A baseline must not depend on the choice. Besides ``baselines (b,s,t)``, which are predicted before the
    choice, the mean of the other samples of the same input is subtracted. ``normalised`` divides by the standard
    deviation of each of the ``t`` columns, so that the size of an update does not depend on the size of the rewards.

    >>> import torch
    >>> advantages(torch.tensor([[[1.0], [3.0], [5.0]]]), torch.zeros(1, 3, 1), normalised=False).flatten().tolist()
    [-3.0, 0.0, 3.0]
    """
    if returns.shape != baselines.shape or returns.ndim != 3:
        shapes = f"{tuple(returns.shape)} and {tuple(baselines.shape)}"
        raise ShapeError("returns", f"expected returns and baselines of one shape (b,s,t), got {shapes}")
    rest = (returns - baselines).detach()  # (b,s,t)
    samples = rest.shape[1]
    if samples > 1:
        # The mean of the others: (sum - own) / (s - 1). Subtracted from its own value, this is s / (s - 1) times
        # the difference from the mean of all.
        rest = (rest - rest.mean(dim=1, keepdim=True)) * (samples / (samples - 1))
    if normalised and rest.numel():
        rest = rest / rest.square().mean(dim=(0, 1)).sqrt().clamp(min=1e-8)
    return rest


def policy_loss(log_probabilities: Tensor, gains: Tensor) -> Tensor:
    """Return a loss whose gradient is minus the estimated gradient of the expected reward, summed over inputs.

    ``log_probabilities (b,s,t)`` are those of the choices, and ``gains (b,s,t)`` their :func:`advantages`. The gradient
    is a mean over the ``s`` samples.
    """
    return -(log_probabilities * gains.detach()).sum() / log_probabilities.shape[1]


def baseline_loss(baselines: Tensor, returns: Tensor) -> Tensor:
    """Return the squared error of the predicted ``baselines (b,s,t)``, summed over inputs, as a mean over samples."""
    error = functional.mse_loss(baselines, returns.detach(), reduction="sum")
    return error / baselines.shape[1]
