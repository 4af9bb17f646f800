"""Weights as whole numbers of 4 to 8 bits, for small files.

A matrix is cut into groups of 64 numbers. Each group has a scale, and its numbers are rounded to multiples of it. In
the file, a matrix ``name`` is three tensors: the packed bits, ``name:scales``, and ``name:shape``, which is the number
of bits and then the shape. Vectors and small matrices are stored in float16.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from regard.errors import FileError

__all__ = ["BITS", "packed", "packed_shapes", "unpacked"]

BITS = {"int8": 8, "int6": 6, "int5": 5, "int4": 4}
GROUP = 64
SMALLEST = 4096  # elements of a matrix that is packed
SCALES, SHAPE = ":scales", ":shape"
# Shares of the largest number of a group that are tried as the largest number that can be written.
_RANGES = (1.0, 0.92, 0.84, 0.76)


def packed(tensors: dict[str, Tensor], bits: int) -> dict[str, Tensor]:
    """Return tensors to write, with large matrices as whole numbers of ``bits`` bits and the rest in float16.

    A matrix of at least 4096 numbers is large. Tensors of integers are returned as they are.

    >>> matrix = torch.randn(64, 64)
    >>> small = packed({"w": matrix}, bits=8)
    >>> {name: tuple(tensor.shape) for name, tensor in small.items()}
    {'w': (4096,), 'w:scales': (64,), 'w:shape': (3,)}
    >>> (unpacked(small, "a file")["w"] - matrix).abs().max() < 0.03
    tensor(True)
    """
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            found[name] = tensor
        elif tensor.ndim < 2 or tensor.numel() < SMALLEST:
            found[name] = tensor.to(torch.float16)
        else:
            found[name], found[name + SCALES] = _rounded(tensor.detach().cpu().float().numpy(), bits)
            found[name + SHAPE] = torch.tensor([bits, *tensor.shape])
    return found


def _rounded(values: np.ndarray, bits: int) -> tuple[Tensor, Tensor]:
    """Return the packed bits of a matrix (uint8) and the scales of its groups ``(groups,)`` (float16).

    Of four scales for each group, the one with the smallest squared error is taken.
    """
    count, most = values.size, 2 ** (bits - 1) - 1
    groups = np.zeros((-(-count // GROUP), GROUP), np.float32)
    groups.reshape(-1)[:count] = values.reshape(-1)
    largest = np.abs(groups).max(axis=1, keepdims=True)  # (groups, 1)
    best = np.full_like(largest, np.inf)
    scales, numbers = np.ones_like(largest), np.zeros_like(groups)
    for share in _RANGES:
        scale = np.maximum(largest * share / most, 1e-7).astype(np.float16).astype(np.float32)
        rounded = np.clip(np.rint(groups / scale), -most, most)
        errors = ((rounded * scale - groups) ** 2).sum(axis=1, keepdims=True)  # (groups, 1)
        better = errors < best
        best, scales = np.where(better, errors, best), np.where(better, scale, scales)
        numbers = np.where(better, rounded, numbers)
    positive = (numbers + most).astype(np.uint8).reshape(-1)[:count]  # from 0 to 2 * most
    digits = (positive[:, None] >> np.arange(bits, dtype=np.uint8)) & 1  # (count, bits)
    return torch.from_numpy(np.packbits(digits)), torch.from_numpy(scales[:, 0].astype(np.float16))


def unpacked(tensors: dict[str, Tensor], where: str) -> dict[str, Tensor]:
    """Return the tensors of a file, with packed matrices unpacked to float32 and all other tensors unchanged.

    ``where`` is the path of the file. Raises FileError if packed numbers do not fit their shape.
    """
    parts = {name for name in tensors if name.endswith((SCALES, SHAPE))}
    return {
        name: _matrix(tensors, name, where) if name + SHAPE in parts else tensor
        for name, tensor in tensors.items()
        if name not in parts or name.rpartition(":")[0] not in tensors
    }


def _matrix(tensors: dict[str, Tensor], name: str, where: str) -> Tensor:
    bits, *shape = tensors[name + SHAPE].tolist()
    count = int(np.prod(shape, dtype=np.int64))
    scales = tensors.get(name + SCALES, torch.zeros(0))
    fits = bits in BITS.values() and min(shape, default=0) > 0
    if not fits or len(scales) != -(-count // GROUP) or tensors[name].numel() != -(-count * bits // 8):
        raise FileError(f"{where}: {name}: the packed numbers do not fit their shape {shape}")
    digits = np.unpackbits(tensors[name].numpy().astype(np.uint8))[: count * bits].reshape(count, bits)
    numbers = digits @ (1 << np.arange(bits)) - (2 ** (bits - 1) - 1)  # (count,)
    wide = np.repeat(scales.float().numpy(), GROUP)[:count]  # (count,)
    return torch.from_numpy((numbers * wide).astype(np.float32).reshape(shape))


def packed_shapes(tensors: dict[str, tuple[int, ...]], read: dict[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """Return the shapes that the tensors of a file have after :func:`unpacked`.

    ``tensors`` are the shapes in the file. ``read`` holds the values of all tensors whose names end in ``:shape``.
    """
    found = {}
    for name, shape in tensors.items():
        if name.endswith((SCALES, SHAPE)) and name.rpartition(":")[0] in tensors:
            continue
        found[name] = tuple(read[name + SHAPE].tolist()[1:]) if name + SHAPE in read else shape
    return found
