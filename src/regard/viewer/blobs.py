"""Numbers as the page stores them: bytes, each kept once, and small descriptions that point to them."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
from torch import Tensor

__all__ = ["Blobs", "Rounded", "rounded_to_half"]


class Blobs:
    """The binary parts of a document. What twelve layers share (a mask, say) is stored once.

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
        """Bytes of all parts."""
        return sum(map(len, self.parts))

    def add(self, data: bytes) -> int:
        """Keep some bytes; gives the number they are found under."""
        digest = hashlib.sha256(data).digest()
        if digest not in self._places:
            self._places[digest] = len(self.parts)
            self.parts.append(data)
        return self._places[digest]

    def array(self, values: Tensor | np.ndarray) -> dict[str, Any]:
        """Keep an array as it is: float32, float16, whole numbers, or single bits for booleans."""
        x = values.detach().cpu().numpy() if isinstance(values, Tensor) else values
        if x.dtype == np.bool_:
            return self._held("bits", x.shape, np.packbits(x.reshape(-1), bitorder="little"))
        return self._held(f"{x.dtype.kind}{8 * x.dtype.itemsize}", x.shape, x)

    def half(self, rounded: Rounded) -> dict[str, Any]:
        """Keep numbers in half precision, with the power of two they are counted in."""
        return {**self.array(rounded.halves), "unit": rounded.unit}

    def _held(self, kind: str, shape: tuple[int, ...], x: np.ndarray) -> dict[str, Any]:
        little = x.astype(x.dtype.newbyteorder("<"), copy=False)  # browsers read little-endian
        return {"dtype": kind, "shape": list(shape), "blob": self.add(little.tobytes())}


class Rounded:
    """Numbers in half precision times a power of two: ``halves * unit``."""

    def __init__(self, halves: Tensor, unit: float):
        self.halves, self.unit = halves, unit

    def numbers(self) -> Tensor:
        """What a reader gets back, in float64."""
        return self.halves.double() * self.unit


def rounded_to_half(x: Tensor) -> Rounded:
    """Half precision, scaled by a power of two so that no number is too large and few are too small.

    The scaling itself is exact: what remains of each number are the 11 bits of a half.

    >>> import torch
    >>> rounded_to_half(torch.tensor([2.0**-100, -3 * 2.0**-101])).numbers().tolist() == [2.0**-100, -3 * 2.0**-101]
    True
    """
    known = x.detach().cpu()
    biggest = float(known.abs().nan_to_num(nan=0.0, posinf=0.0).max()) if known.numel() else 0.0
    unit = 2.0 ** (math.floor(math.log2(biggest)) - 11) if biggest > 0 else 1.0
    return Rounded((known.double() / unit).half(), unit)
