"""The named layers: the ones of the documents, with their parameter names, on one attention function.

===============================  =============================================================
:class:`AdditiveAttention`       one context a decoder step, ``v . tanh(query + W keys)``
:class:`SimpleAttention`         scaled dot product, no parameters
:class:`BasicAttention`          scaled dot product of projected query, key and value
:class:`SelfAttention`           the same on one sequence
:class:`MultiHeadAttention`      several heads; groups, rotary positions, a cache
:class:`EncoderDecoderAttention` cross attention: the decoder asks, the encoder answers
===============================  =============================================================

Each returns ``(output, weights)`` as plain differentiable tensors. Dropout acts in training only and never
shows in the weights. A query that may see no key gets weights and context of zeros.
"""

from regard.layers._cache import KeyValueCache
from regard.layers._multihead import MultiHeadAttention
from regard.layers._single_head import (
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
