"""The binary data of a page, which JSON descriptions refer to by number."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
from torch import Tensor

__all__ = ["Blobs", "ScaledHalves", "rounded_to_half"]


class Blobs:
    """The binary parts of a document, in which equal parts, such as a mask of all layers, are stored once.

    >>> blobs = Blobs()
    >>> blobs.add(b"abc"), blobs.add(b"de"), blobs.add(b"abc"), len(blobs)
    (0, 1, 0, 2)
    """

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self._places: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self.parts)

    @property
    def size(self) -> int:
        """The number of bytes of all parts."""
        return sum(map(len, self.parts))

    def add(self, data: bytes) -> int:
        """Store bytes, and return the number of the part that holds them."""
        digest = hashlib.sha256(data).digest()
        if digest not in self._places:
            self._places[digest] = len(self.parts)
            self.parts.append(data)
        return self._places[digest]

    def array(self, values: Tensor | np.ndarray) -> dict[str, Any]:
        """Store an array of float32, float16, integers or booleans, and return its dtype, shape and blob number.

        They are the values "dtype", "shape" and "blob" of a JSON object. Booleans are stored as single bits.
        """
        x = values.detach().cpu().numpy() if isinstance(values, Tensor) else values
        if x.dtype == np.bool_:
            return self._held("bits", x.shape, np.packbits(x.reshape(-1), bitorder="little"))
        return self._held(f"{x.dtype.kind}{8 * x.dtype.itemsize}", x.shape, x)

    def half(self, rounded: ScaledHalves) -> dict[str, Any]:
        """Store numbers in half precision, and return the result of :meth:`array` with their factor as "unit"."""
        return {**self.array(rounded.halves), "unit": rounded.unit}

    def _held(self, kind: str, shape: tuple[int, ...], x: np.ndarray) -> dict[str, Any]:
        little = x.astype(x.dtype.newbyteorder("<"), copy=False)  # browsers read little-endian
        return {"dtype": kind, "shape": list(shape), "blob": self.add(little.tobytes())}


class ScaledHalves:
    """Numbers in half precision with a power of two as their common factor, ``halves * unit``."""

    def __init__(self, halves: Tensor, unit: float):
        self.halves, self.unit = halves, unit

    def numbers(self) -> Tensor:
        """Return the numbers in float64."""
        return self.halves.double() * self.unit


def rounded_to_half(x: Tensor) -> ScaledHalves:
    """Round numbers to half precision, scaled by a power of two so that none overflows and few underflow.

    The scaling is exact, so each number keeps 11 significant bits.

    >>> import torch
    >>> rounded_to_half(torch.tensor([2.0**-100, -3 * 2.0**-101])).numbers().tolist() == [2.0**-100, -3 * 2.0**-101]
    True
    """
    known = x.detach().cpu()
    biggest = float(known.abs().nan_to_num(nan=0.0, posinf=0.0).max()) if known.numel() else 0.0
    unit = 2.0 ** (math.floor(math.log2(biggest)) - 11) if biggest > 0 else 1.0
    return ScaledHalves((known.double() / unit).half(), unit)
