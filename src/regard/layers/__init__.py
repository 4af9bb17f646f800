"""Attention layers with the class and parameter names of the tutorial documents.

=================================  =============================================================
:class:`AdditiveAttention`         additive attention, ``v . tanh(query + W keys)``
:class:`SimpleAttention`           scaled dot product without parameters
:class:`BasicAttention`            scaled dot product of projected query, key and value
:class:`SelfAttention`             :class:`BasicAttention` of one sequence to itself
:class:`MultiHeadAttention`        several heads, with groups, rotary positions and a cache
:class:`EncoderDecoderAttention`   cross-attention from decoder to encoder
=================================  =============================================================

All layers call :func:`regard.attention` and return ``(output, weights)`` as differentiable tensors. Dropout is applied
in training mode only, and the returned weights do not include it. A query whose keys are all masked has weights and a
context of zeros.
"""

from regard.layers.cache import KeyValueCache
from regard.layers.multi_head import MultiHeadAttention
from regard.layers.single_head import (
    AdditiveAttention,
    BasicAttention,
    EncoderDecoderAttention,
    SelfAttention,
    SimpleAttention,
)

__all__ = [
    "AdditiveAttention",
    "BasicAttention",
    "EncoderDecoderAttention",
    "KeyValueCache",
    "MultiHeadAttention",
    "SelfAttention",
    "SimpleAttention",
]
