"""Weights of small models that look random and are the same on every machine."""

from __future__ import annotations

import zlib

import numpy as np


def linear(name: str, out: int, inner: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the weight and the bias of a linear layer, by their names."""
    return {f"{name}.weight": (out, inner), f"{name}.bias": (out,)}


def norm(name: str, width: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the weight and the bias of a layer norm, by their names."""
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def values(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return numbers that look random and depend on the name and the shape alone."""
    random = np.random.RandomState(zlib.crc32(name.encode()))
    numbers = random.standard_normal(shape) * (0.5 if len(shape) > 1 else 0.1)
    is_norm = len(shape) == 1 and name.endswith("weight")
    return (numbers + is_norm).astype(np.float32)
