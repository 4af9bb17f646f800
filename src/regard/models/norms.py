"""The normalisation layers of Transformer blocks."""

from __future__ import annotations

from torch import nn

from regard.models.config import BlockConfig

__all__ = ["make_norm"]


def make_norm(config: BlockConfig) -> nn.LayerNorm | nn.RMSNorm:
    """Make a layer norm or an RMS norm for states of ``config.width``, as ``config.norm_type`` says.

    >>> from regard.models import EncoderConfig
    >>> make_norm(EncoderConfig(vocabulary_size=7, width=8, norm_type="rms", norm_epsilon=1e-6))
    RMSNorm((8,), eps=1e-06, elementwise_affine=True)
    """
    kind = nn.RMSNorm if config.norm_type == "rms" else nn.LayerNorm
    return kind(config.width, eps=config.norm_epsilon)
