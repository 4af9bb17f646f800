"""Calibration, which compares the probabilities of a classifier with how often it is right."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["fit_temperature"]

# The temperatures that are tried, from 0.05 to 20, each 2 % above the one before.
_LEAST, _MOST, _STEPS = 0.05, 20.0, 303


def fit_temperature(logits: Tensor, expected: Tensor) -> float:
    """Return the number to divide logits ``(n,classes)`` by, for which the classes ``expected (n,)`` are most likely.

    Dividing all logits by one number changes the probabilities and never the label (Guo et al. 2017). It has to be
    chosen on texts that the model was not trained on. As in Platt scaling (1999), a few texts that are all right do not
    make a model sure without limit.

    >>> logits = torch.tensor([[4.0, 0.0]]).repeat(400, 1)
    >>> temperature = fit_temperature(logits, torch.tensor([0, 0, 0, 1] * 100))  # three of four labels are right
    >>> round((logits / temperature).softmax(-1)[0, 0].item(), 2)
    0.75
    """
    smoothing = 1 / (len(logits) + logits.shape[1])
    logits = logits.double()
    temperatures = torch.logspace(math.log10(_LEAST), math.log10(_MOST), _STEPS)
    losses = [_loss(logits / t, expected, smoothing) for t in temperatures.tolist()]
    return round(temperatures[int(torch.tensor(losses).argmin())].item(), 4)


def _loss(logits: Tensor, expected: Tensor, smoothing: float) -> float:
    return functional.cross_entropy(logits, expected, label_smoothing=smoothing).item()
