"""The normalisation layers and the activations of the models, by name."""

from __future__ import annotations

from torch import nn

from regard.errors import UnknownNameError
from regard.models.config import BlockConfig

__all__ = ["make_activation", "make_norm"]


def make_norm(config: BlockConfig) -> nn.LayerNorm | nn.RMSNorm:
    """Make a layer norm or an RMS norm for states of ``config.width``, as ``config.norm_type`` says.

    >>> from regard.models import EncoderConfig
    >>> make_norm(EncoderConfig(vocabulary_size=7, width=8, norm_type="rms", norm_epsilon=1e-6))
    RMSNorm((8,), eps=1e-06, elementwise_affine=True)
    """
    kind = nn.RMSNorm if config.norm_type == "rms" else nn.LayerNorm
    return kind(config.width, eps=config.norm_epsilon)


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
