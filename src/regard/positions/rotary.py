"""Rotary positions, which rotate queries and keys by an angle that grows with their position."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import ArgumentError, ShapeError, UnknownNameError
from regard.positions.scaling import attention_factor, check_scaling, frequencies
from regard.shapes import axes, whole_number, wide_dtype

__all__ = ["Rotary"]

_LAYOUTS = ("gpt-j", "llama")


class Rotary(nn.Module):
    """A layer that rotates pairs of columns of q and k by an angle that grows with the position (RoFormer).

    The score of two rotated vectors depends only on the distance of their positions. The layer has no parameters and no
    maximum length.

    base
        At position p, pair i is rotated by the angle ``p * base ** (-2 * i / rotary_dim)``.
    layout
        ``"gpt-j"`` pairs column ``2i`` with ``2i + 1``, as RoFormer and GPT-J do. ``"llama"`` pairs column ``i`` with
        ``i + rotary_dim / 2``, as Llama, GPT-NeoX and most models of Hugging Face do.
    rotary_dim
        The number of columns that are rotated, from the first on, by default all. The others are not changed.
    scaling
        The scaling of angles for long texts, in the form of Hugging Face. It is a dict whose ``rope_type`` is
        ``"linear"``, ``"dynamic"`` (NTK), ``"llama3"`` or ``"yarn"``, with the numbers of that kind. Dynamic angles
        depend on the current length. Keys in a cache keep the angles of the step that added them.

    >>> rotary = Rotary(head_dim=4, layout="llama", scaling={"rope_type": "linear", "factor": 2.0})
    >>> q, k = torch.randn(1, 1, 3, 4), torch.randn(1, 1, 3, 4)
    >>> here, later = rotary(q, k), rotary(q, k, offset=0)
    >>> torch.equal(here[0], later[0])  # with as many queries as keys, both start at 0
    True
    """

    def __init__(
        self,
        head_dim: int,
        base: float = 10000.0,
        *,
        layout: str = "gpt-j",
        rotary_dim: int | None = None,
        scaling: Mapping[str, Any] | None = None,
    ):
        super().__init__()
        self.head_dim = whole_number("head_dim", head_dim, least=1)
        self.rotary_dim = whole_number("rotary_dim", head_dim if rotary_dim is None else rotary_dim, least=1)
        if self.rotary_dim > head_dim:
            raise ArgumentError(
                "rotary_dim", f"{rotary_dim} columns cannot be rotated in heads of width {head_dim}"
            )
        if self.rotary_dim % 2:
            name = "head_dim" if rotary_dim is None else "rotary_dim"
            fix = "columns are rotated in pairs"
            raise ArgumentError(name, f"expected an even number, got {self.rotary_dim}", fix)
        if not base > 0:
            raise ArgumentError("base", f"expected a number above 0, got {base}")
        if layout not in _LAYOUTS:
            raise UnknownNameError("layout", layout, _LAYOUTS)
        self.base, self.layout = float(base), layout
        self.scaling = check_scaling(scaling)
        self.attention_factor = attention_factor(self.scaling)

    def forward(self, q: Tensor, k: Tensor, offset: int | Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Rotate q and k, with keys at positions 0, 1, … and queries at ``offset``, ``offset + 1``, …

        By default the last query is at the position of the last key. ``offset`` may be a tensor ``(b,)`` with one
        number for each sequence.
        """
        q_len, k_len = q.shape[-2], k.shape[-2]
        if offset is None:
            offset = k_len - q_len
        i = torch.arange(q_len, device=q.device)
        if isinstance(offset, Tensor):
            i = i + offset.to(q.device).reshape(-1, 1)  # (b,q)
        else:
            i = i + offset  # (q,)
        return self.rotate(q, i), self.rotate(k, torch.arange(k_len, device=k.device))

    def inv_freq(self, length: Tensor | int = 0, like: Tensor | None = None) -> Tensor:
        """Return the angle of each pair of columns at position 1, ``(rotary_dim/2,)``.

        ``length`` is the number of positions of the sequence, which only dynamic scaling uses. ``like`` gives the
        device and dtype, by default torch's default device and float32.
        """
        even = torch.arange(0, self.rotary_dim, 2, device=None if like is None else like.device)
        even = even.to(torch.float32 if like is None else like.dtype)
        return frequencies(self.rotary_dim, self.base, self.scaling, even, length)

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        """Return ``x (...,n,d)`` with row i rotated to ``positions[i]``.

        ``positions`` is ``(n,)``, or ``(b,n)`` if the sequences of a batch differ.
        """
        if x.shape[-1] != self.head_dim:
            raise ShapeError("x", f"width {x.shape[-1]}, but this Rotary is for heads of {self.head_dim}")
        if positions.shape[-1] != x.shape[-2]:
            raise ShapeError(
                "positions",
                f"{positions.shape[-1]} positions for {x.shape[-2]} rows",
                f"x is {axes(x.shape)}",
            )
        if x.numel() == 0:
            return x
        part = x[..., : self.rotary_dim].to(wide_dtype(x.dtype))  # (...,n,rotary_dim)
        angle = positions.to(part.device, part.dtype)[..., None] * self.inv_freq(positions.max() + 1, part)
        if positions.ndim == 2 and x.ndim == 4:
            angle = angle[:, None]  # the same for every head
        cos, sin = (
            angle.cos() * self.attention_factor,
            angle.sin() * self.attention_factor,
        )  # ([b,]n,rotary_dim/2)
        first, second = self._pairs(part)
        turned = (first * cos - second * sin, first * sin + second * cos)
        out = torch.stack(turned, dim=-1).flatten(-2) if self.layout == "gpt-j" else torch.cat(turned, dim=-1)
        out = out.to(x.dtype)
        return (
            out if self.rotary_dim == self.head_dim else torch.cat([out, x[..., self.rotary_dim :]], dim=-1)
        )

    def _pairs(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if self.layout == "gpt-j":
            return x[..., 0::2], x[..., 1::2]
        first, second = x.chunk(2, dim=-1)
        return first, second

    def extra_repr(self) -> str:
        """Return the settings as text, for ``print(model)``."""
        parts = [f"head_dim={self.head_dim}", f"base={self.base:g}", f"layout={self.layout!r}"]
        if self.rotary_dim != self.head_dim:
            parts.append(f"rotary_dim={self.rotary_dim}")
        if self.scaling["rope_type"] != "default":
            parts.append(f"scaling={self.scaling}")
        return ", ".join(parts)
