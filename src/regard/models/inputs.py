"""Checks of token ids and lengths, and the embedding layer of the models."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.errors import ArgumentError, DtypeError, ShapeError
from regard.shapes import axes

__all__ = ["check_tokens", "embedding", "read_lengths"]


def check_tokens(name: str, tokens: Tensor, size: int) -> None:
    """Raise an error unless ``tokens`` is an integer tensor ``(b,n)`` of ids from 0 to ``size - 1``.

    The values are checked only on the CPU and outside torch.compile.

    >>> check_tokens("source", torch.tensor([[3, 9]]), 7)
    Traceback (most recent call last):
        ...
    regard.errors.ArgumentError: source: token 9, but the vocabulary has 7: tokens are 0 to 6
    """
    if not isinstance(tokens, Tensor):
        raise DtypeError(name, f"expected a torch.Tensor, got {type(tokens).__name__}")
    if tokens.dtype not in (torch.int64, torch.int32):
        raise DtypeError(name, f"expected integer token ids, got {tokens.dtype}", f"use {name}.long()")
    if tokens.ndim != 2:
        fix = f"use {name}[None] for one sentence" if tokens.ndim == 1 else ""
        raise ShapeError(name, f"expected (b,n), got {axes(tokens.shape)}", fix)
    if tokens.device.type != "cpu" or torch.compiler.is_compiling() or not tokens.numel():
        # Reading the values would synchronise with the device, or cannot be traced.
        return
    least, most = (int(end) for end in tokens.aminmax())
    if least < 0 or most >= size:
        wrong = least if least < 0 else most
        raise ArgumentError(
            name, f"token {wrong}, but the vocabulary has {size}", f"tokens are 0 to {size - 1}"
        )


def read_lengths(
    lengths: Tensor | None, tokens: Tensor, least: int = 0, *, name: str = "source"
) -> Tensor | None:
    """Check the lengths ``(b,)`` of the sequences in ``tokens (b,n)``, and return them or None if there is no padding.

    Raises an error unless every length is from ``least`` to n. ``name`` is the name of ``tokens`` in that error. Under
    torch.compile the values are not read, and the lengths are always returned.

    >>> read_lengths(torch.tensor([3, 3]), torch.zeros(2, 3)) is None
    True
    """
    if lengths is None:
        return None
    if not isinstance(lengths, Tensor) or lengths.is_floating_point() or lengths.dtype == torch.bool:
        kind = lengths.dtype if isinstance(lengths, Tensor) else type(lengths).__name__
        raise DtypeError("lengths", f"expected a tensor of whole numbers, got {kind}")
    b, size = tokens.shape
    if lengths.shape != (b,):
        raise ShapeError(
            "lengths", f"expected one for each of {b} sentences, ({b},), got {axes(lengths.shape)}"
        )
    if torch.compiler.is_compiling() or not b:
        return lengths
    low, high = (int(end) for end in lengths.aminmax())
    if low < least or high > size:
        wrong = low if low < least else high
        raise ArgumentError(
            "lengths", f"expected {least} to {size}, got {wrong}", f"{name} has {size} columns"
        )
    return None if low == size else lengths


def embedding(size: int, width: int) -> nn.Embedding:
    """Make an embedding layer of ``size`` vectors with a norm of about 1."""
    table = nn.Embedding(size, width)
    nn.init.normal_(table.weight, std=width**-0.5)
    return table
