"""Activation functions."""

from regard.reference import softmax

__all__ = ["softmax"]
