"""Positional encodings, rotary positions and position biases.

- :func:`sinusoidal`, :class:`PositionalEncoding` and :class:`LearnedPositionalEncoding` are added to the input.
- :class:`Rotary` rotates queries and keys.
- :class:`ALiBi` and :class:`RelativeBias` are added to the scores with ``attention(..., bias=...)``.

If there are fewer queries than keys, the last query is at the position of the last key. Query ``i`` is then at key
position ``i + grid.shift``. Tables are computed in float32 (float64 for float64 input) and cast to the dtype of the
input at the end, so that no precision is lost before.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.errors import ArgumentError, DtypeError, ShapeError, UnknownNameError
from regard.positions.rotary import Rotary
from regard.shapes import Grid, axes, whole_number, wide_dtype

__all__ = [
    "ALiBi",
    "LearnedPositionalEncoding",
    "PositionalEncoding",
    "RelativeBias",
    "Rotary",
    "bias_from_spec",
    "sinusoidal",
]


def sinusoidal(
    length: int,
    width: int,
    *,
    start: int = 0,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Tensor:
    """Return the sinusoidal encodings ``(length,width)`` of the positions ``start``, ``start + 1``, …

    Even columns are sines and odd columns cosines. An odd width has one more sine.

    >>> sinusoidal(2, 3)
    tensor([[0.0000, 1.0000, 0.0000],
            [0.8415, 0.5403, 0.0022]])
    """
    length = whole_number("length", length, least=0)
    width = whole_number("width", width, least=1)
    start = whole_number("start", start, least=0)
    wide = wide_dtype(dtype)
    table = torch.empty(length, width, dtype=wide, device=device)  # (n,m)
    # A meta tensor has no values, and torch would load its compiler to compute them.
    if table.is_meta:
        return table.to(dtype)
    position = torch.arange(start, start + length, device=device).to(wide)[:, None]  # (n,1)
    # The order of operations is that of document 002, so that the table is equal to the last bit.
    even = torch.arange(0, width, 2, device=device).to(wide)
    angle = position * torch.exp(even * (-math.log(10000.0) / width))  # (n, ceil(m/2))
    table[:, 0::2] = torch.sin(angle)
    table[:, 1::2] = torch.cos(angle[:, : width // 2])
    return table.to(dtype)


class PositionalEncoding(nn.Module):
    """A layer that adds sinusoidal positions to ``x (b,n,m)`` (document 002).

    The first ``max_len`` positions are stored in the buffer ``pe (1,max_len,m)``, as in the document. Later positions
    are computed when needed. ``start`` is the position of the first token, for step-by-step decoding.

    >>> encode = PositionalEncoding(d_model=5, max_len=8)
    >>> x = torch.zeros(1, 12, 5)
    >>> torch.equal(encode(x)[:, 9:], encode(x[:, 9:], start=9))
    True
    """

    pe: Tensor

    def __init__(self, d_model: int, max_len: int = 5000):
        super().__init__()
        d_model = whole_number("d_model", d_model, least=1)
        max_len = whole_number("max_len", max_len, least=1)
        self.register_buffer("pe", sinusoidal(max_len, d_model)[None])  # (1,n,m)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """Return ``x`` plus the encoding of positions ``start``, ``start + 1``, …"""
        max_len, width = self.pe.shape[1:]
        stop = _stop_of(x, width, start)
        table = self.pe[0, start:stop]
        if stop > max_len:
            first = max(start, max_len)
            beyond = sinusoidal(stop - first, width, start=first, dtype=self.pe.dtype, device=self.pe.device)
            table = torch.cat([table, beyond])
        return x + table.to(x.dtype)  # (b,n,m) + (n,m)

    def extra_repr(self) -> str:
        """Return the sizes as text, for ``print(model)``."""
        return f"d_model={self.pe.shape[2]}, max_len={self.pe.shape[1]}"


class LearnedPositionalEncoding(nn.Module):
    """A layer that adds a learned vector for each position to ``x (b,n,m)`` (document 002).

    The vectors are the parameter ``pos_embedding.weight (max_len,m)``.

    >>> encode = LearnedPositionalEncoding(d_model=4, max_len=8)
    >>> encode(torch.zeros(2, 9, 4))
    Traceback (most recent call last):
        ...
    regard.errors.ShapeError: x: 9 positions, but only 8 are learned: build it with max_len=9 or more, ...
    """

    def __init__(self, d_model: int, max_len: int = 5000):
        super().__init__()
        d_model = whole_number("d_model", d_model, least=1)
        max_len = whole_number("max_len", max_len, least=1)
        self.pos_embedding = nn.Embedding(max_len, d_model)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """Return ``x`` plus the vectors of positions ``start``, ``start + 1``, …"""
        max_len, width = self.pos_embedding.weight.shape
        stop = _stop_of(x, width, start)
        if stop > max_len:
            raise ShapeError(
                "x",
                f"{stop} positions, but only {max_len} are learned",
                f"build it with max_len={stop} or more, or use PositionalEncoding, which has no end",
            )
        # The embedding is called rather than sliced, because it may be sparse, parametrised or hooked.
        table = self.pos_embedding(torch.arange(start, stop, device=self.pos_embedding.weight.device))
        return x + table.to(x.dtype)  # (b,n,m) + (n,m)


class _Line(NamedTuple):
    """A bias of ``-slope * distance`` for each of some heads."""

    slopes: Tensor  # (h,)

    def tile(self, i: Tensor, j: Tensor, grid: Grid) -> Tensor:
        distance = (i + grid.shift - j).abs().to(torch.float32)
        return (-self.slopes.to(distance.device).reshape(-1, *[1] * distance.ndim) * distance)[
            None
        ]  # (1,h,...)


class _SomeHeadsOfTable(NamedTuple):
    """A :class:`RelativeBias` cut to some heads."""

    whole: RelativeBias
    h: slice

    def tile(self, i: Tensor, j: Tensor, grid: Grid) -> Tensor:
        weight = self.whole.table.weight[:, self.h]
        found = self.whole.bucket(j - (i + grid.shift)).to(weight.device)
        return nn.functional.embedding(found, weight).movedim(-1, 0)[None]  # (...,h) -> (1,h,...)


class ALiBi:
    """A bias that decreases linearly with the distance, with a slope for each head (Press et al. 2021).

    Keys after the query count as well as keys before it. The sizes of :meth:`tile` must have the same number of heads,
    or ShapeError is raised.

    >>> ALiBi(heads=2)(Grid(b=1, h=2, q=2, k=3))[0, 0]
    tensor([[-0.0625, -0.0000, -0.0625],
            [-0.1250, -0.0625, -0.0000]])
    """

    def __init__(self, heads: int):
        heads = whole_number("heads", heads, least=1)
        self.heads = heads

    @property
    def slopes(self) -> Tensor:
        """The published slope of each head, ``(h,)``, for any number of heads."""
        return torch.tensor(_slopes(self.heads), dtype=torch.float32)

    def tile(self, i: Tensor, j: Tensor, grid: Grid) -> Tensor:
        """Return the bias of queries ``i`` and keys ``j``, of shape ``(1, h, *shape of i and j broadcast)``."""
        _check_heads(self.heads, grid)
        return _Line(self.slopes).tile(i, j, grid)

    def part(self, b: slice, h: slice) -> _Line:
        """Return a bias of the heads ``h`` only. ``b`` has no effect, because all sequences have the same bias."""
        return _Line(self.slopes[h])

    def __call__(self, grid: Grid, device: torch.device | str | None = None) -> Tensor:
        """Return the whole bias, ``(1,h,q,k)``."""
        return self.tile(*_indices(grid, device), grid)

    def spec(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return JSON values and an empty dict of tensors, from which :meth:`from_spec` rebuilds the bias."""
        return {"kind": "alibi", "heads": self.heads}, {}

    @classmethod
    def from_spec(cls, spec: dict[str, Any], tensors: dict[str, Tensor]) -> ALiBi:
        """Rebuild the bias from the result of :meth:`spec`."""
        return cls(spec["heads"])

    def __repr__(self) -> str:
        return f"ALiBi(heads={self.heads})"


class RelativeBias(nn.Module):
    """A learned bias for each head and each bucket of distances (T5).

    The biases are the parameter ``table.weight (buckets,h)``. With ``bidirectional`` half of the buckets are for keys
    up to the query and half for later keys. Without it, all later keys share the bucket of distance 0. Half of the
    buckets of a direction hold one distance each. The others hold ranges that grow up to ``max_distance``. All larger
    distances are in the last bucket.

    >>> bias = RelativeBias(heads=2, buckets=8, max_distance=16)
    >>> bias.bucket(torch.tensor([-20, -3, -1, 0, 1, 20]))
    tensor([3, 2, 1, 0, 5, 7])
    """

    def __init__(self, heads: int, buckets: int = 32, max_distance: int = 128, bidirectional: bool = True):
        super().__init__()
        heads = whole_number("heads", heads, least=1)
        buckets = whole_number("buckets", buckets, least=4 if bidirectional else 2)
        if bidirectional and buckets % 2:
            raise ArgumentError(
                "buckets", f"expected an even number, got {buckets}", "half of them for each direction"
            )
        exact = buckets // 4 if bidirectional else buckets // 2
        max_distance = whole_number("max_distance", max_distance, least=exact + 1)
        self.heads, self.buckets = heads, buckets
        self.max_distance, self.bidirectional = max_distance, bidirectional
        self.table = nn.Embedding(buckets, heads)
        # The default standard deviation of 1 would be large compared with the scores.
        nn.init.normal_(self.table.weight, std=0.02)

    def bucket(self, relative: Tensor) -> Tensor:
        """Return the bucket of each distance ``key position - query position``, in a tensor of the same shape."""
        buckets = self.buckets // 2 if self.bidirectional else self.buckets
        exact = buckets // 2
        distance = relative.abs() if self.bidirectional else (-relative).clamp(min=0)
        # In float32 and in this order, as in T5, because other rounding can move a distance to another bucket.
        growth = torch.log(distance.clamp(min=1).float() / exact) / math.log(self.max_distance / exact)
        far = (exact + (growth * (buckets - exact)).long()).clamp(max=buckets - 1)
        found = torch.where(distance < exact, distance, far)
        return found + buckets * (relative > 0).long() if self.bidirectional else found

    def tile(self, i: Tensor, j: Tensor, grid: Grid) -> Tensor:
        """Return the bias of queries ``i`` and keys ``j``, of shape ``(1, h, *shape of i and j broadcast)``.

        It is differentiable. Sizes with another number of heads raise ShapeError.
        """
        _check_heads(self.heads, grid)
        return self.part(slice(None), slice(None)).tile(i, j, grid)

    def part(self, b: slice, h: slice) -> _SomeHeadsOfTable:
        """Return a bias of the heads ``h`` only. ``b`` has no effect, because all sequences have the same bias."""
        return _SomeHeadsOfTable(self, h)

    def forward(self, grid: Grid) -> Tensor:
        """Return the whole bias, ``(1,h,q,k)``."""
        return self.tile(*_indices(grid, self.table.weight.device), grid)

    def spec(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return JSON values and a copy of the table, from which :meth:`from_spec` rebuilds the bias."""
        values = {
            "kind": "relative_bias",
            "heads": self.heads,
            "buckets": self.buckets,
            "max_distance": self.max_distance,
            "bidirectional": self.bidirectional,
        }
        return values, {"table.weight": self.table.weight.detach().clone()}

    @classmethod
    def from_spec(cls, spec: dict[str, Any], tensors: dict[str, Tensor]) -> RelativeBias:
        """Rebuild the bias from the results of :meth:`spec`."""
        table = tensors["table.weight"]
        bias = cls(spec["heads"], spec["buckets"], spec["max_distance"], spec["bidirectional"])
        bias.to(device=table.device, dtype=table.dtype).load_state_dict({"table.weight": table})
        return bias

    def extra_repr(self) -> str:
        """Return the settings as text, for ``print(model)``."""
        return f"heads={self.heads}, max_distance={self.max_distance}, bidirectional={self.bidirectional}"


_KINDS: dict[str, type[ALiBi] | type[RelativeBias]] = {"alibi": ALiBi, "relative_bias": RelativeBias}


def bias_from_spec(spec: dict[str, Any], tensors: dict[str, Tensor]) -> ALiBi | RelativeBias:
    """Rebuild a bias from the results of its ``spec()``, or raise UnknownNameError for another kind of bias.

    >>> bias_from_spec(*ALiBi(heads=8).spec())
    ALiBi(heads=8)
    """
    kind = spec.get("kind")
    if kind not in _KINDS:
        raise UnknownNameError("spec", kind, _KINDS)
    return _KINDS[kind].from_spec(spec, tensors)


def _slopes(heads: int) -> list[float]:
    """Return the slopes 2^-(8/h), 2^-2(8/h), … of h heads.

    If h is not a power of two, the slopes of the next smaller power of two come first. The rest are the first, third,
    fifth, … slopes of the next larger power of two.
    """
    power = 2 ** int(math.log2(heads))
    slopes = [2 ** (-8 * (n + 1) / power) for n in range(power)]
    return slopes if power == heads else slopes + _slopes(2 * power)[0::2][: heads - power]


def _indices(grid: Grid, device: torch.device | str | None) -> tuple[Tensor, Tensor]:
    return torch.arange(grid.q, device=device)[:, None], torch.arange(grid.k, device=device)[None, :]


def _check_heads(heads: int, grid: Grid) -> None:
    if grid.h != heads:
        raise ShapeError("bias", f"made for {heads} heads, but q has {grid.h}")


def _stop_of(x: Tensor, width: int, start: int) -> int:
    """Return the position after the last token of ``x (b,n,m)``, whose first token is at ``start``.

    Raises an error if x is no floating tensor of this width or start is negative.
    """
    start = whole_number("start", start, least=0)
    if not isinstance(x, Tensor) or not x.is_floating_point():
        kind = x.dtype if isinstance(x, Tensor) else type(x).__name__
        raise DtypeError("x", f"expected a floating tensor, got {kind}", "embed the tokens first")
    if x.ndim < 2 or x.shape[-1] != width:
        raise ShapeError(
            "x",
            f"expected (b,n,m) with m = {width}, got {axes(x.shape)}",
            "m is the d_model it was built with",
        )
    return start + x.shape[-2]
