"""Scaled dot-product and multi-head attention, and their masks."""

from regard.reference import (
    MultiHeadAttention,
    create_causal_mask,
    create_padding_mask,
    scaled_dot_product_attention,
)

__all__ = ["MultiHeadAttention", "create_causal_mask", "create_padding_mask", "scaled_dot_product_attention"]
