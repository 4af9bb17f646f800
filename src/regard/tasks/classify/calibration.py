"""How well the probabilities of a classifier agree with how often it is right."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["fit_temperature"]

# The temperatures that are tried, from 0.05 to 20, each 2 % above the one before.
_LEAST, _MOST, _STEPS = 0.05, 20.0, 303


def fit_temperature(logits: Tensor, expected: Tensor) -> float:
    """Return the number to divide logits ``(n,classes)`` by, for which the classes ``expected (n,)`` are most likely.

    Dividing all logits by one number changes the probabilities and never the label (Guo et al. 2017). It has to be
    chosen on texts that the model was not trained on.

    >>> logits = torch.tensor([[4.0, 0.0], [4.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
    >>> temperature = fit_temperature(logits, torch.tensor([0, 0, 1, 1]))
    >>> round((logits / temperature).softmax(-1)[0, 0].item(), 2)  # three of four labels are right
    0.75
    """
    logits = logits.double()
    temperatures = torch.logspace(*torch.tensor([_LEAST, _MOST]).log10().tolist(), _STEPS)
    losses = [functional.cross_entropy(logits / t, expected).item() for t in temperatures.tolist()]
    return round(temperatures[int(torch.tensor(losses).argmin())].item(), 4)
