"""The activations of the models, by name."""

from __future__ import annotations

from torch import nn

from regard.errors import UnknownNameError

__all__ = ["make_activation"]


def make_activation(name: str) -> nn.Module:
    """Make the activation "gelu", "gelu_tanh" (its approximation by tanh), "relu", "silu" or "tanh".

    Any other name raises UnknownNameError.

    >>> make_activation("gelu_tanh")
    GELU(approximate='tanh')
    """
    if name == "gelu_tanh":
        return nn.GELU(approximate="tanh")
    kinds: dict[str, type[nn.Module]] = {
        "gelu": nn.GELU,
        "relu": nn.ReLU,
        "silu": nn.SiLU,
        "tanh": nn.Tanh,
    }
    if name not in kinds:
        raise UnknownNameError("activation", name, ["gelu_tanh", *kinds])
    return kinds[name]()
