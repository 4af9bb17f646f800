"""Masks held in tensors, and the conversion of a user's tensor to a mask by its dtype."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.errors import DtypeError, MaskError, ShapeError
from regard.masks.base import Mask
from regard.masks.rules import SizedCausal
from regard.modes import readable
from regard.shapes import Grid, as_table, axes, check_dense, check_grid, four_axes

__all__ = [
    "Padding",
    "StoredMask",
    "as_mask",
    "check_broadcast",
    "check_mask_device",
    "check_mask_type",
    "kept",
    "padding",
    "read_causal_bias",
    "split_additive",
]


MaskLike = Mask | Tensor | None


@dataclass(frozen=True, eq=False)
class Padding(Mask):
    """The mask of :func:`padding`, which hides padding keys from every query."""

    keep: Tensor  # integer (b,) lengths, or bool (b,k)

    def __post_init__(self) -> None:
        if self.keep.ndim != (2 if self.keep.dtype == torch.bool else 1) or self.keep.is_floating_point():
            problem = (
                f"expected integers (b,) or booleans (b,k), got {self.keep.dtype} {axes(self.keep.shape)}"
            )
            raise ShapeError("keep", problem)

    def allow(self, i: Tensor, j: Tensor, grid: Grid) -> Tensor:
        keep = self.keep.to(j.device)
        if keep.ndim == 2:
            return keep[:, j][:, None]
        lengths = keep.reshape(-1, *[1] * (1 + j.ndim))
        return j < lengths

    def check(self, grid: Grid) -> None:
        # In a trace sizes may be symbolic, and the values of a tensor are not available.
        if not readable(self.keep):
            return
        if self.keep.shape[0] not in (1, grid.b):
            raise ShapeError("padding", f"made for a batch of {self.keep.shape[0]}, but q has {grid.b}")
        if self.keep.ndim == 2:
            if self.keep.shape[1] != grid.k:
                raise ShapeError("padding", f"made for {self.keep.shape[1]} keys, but k has {grid.k}")
        elif self.keep.numel() and int(self.keep.max()) > grid.k:
            raise ShapeError("padding", f"a length of {int(self.keep.max())}, but k has only {grid.k} keys")

    def seen_keys(self, grid: Grid) -> Tensor | None:
        j = torch.arange(grid.k, device=self.keep.device)[None, :]
        return self.allow(j, j, grid)[..., 0, :]

    def part(self, b: slice, h: slice) -> Mask:
        return self if self.keep.shape[0] == 1 else Padding(self.keep[b])

    @property
    def per_key(self) -> bool:
        return True


@dataclass(frozen=True, eq=False)
class StoredMask(Mask):
    """A mask held as a boolean tensor."""

    keep: Tensor  # bool (q,k), (b,q,k), (b,1,k) or (b,h,q,k)

    def __post_init__(self) -> None:
        if self.keep.dtype != torch.bool:
            raise DtypeError("mask", f"expected booleans, got {self.keep.dtype}")
        _check_axes(self.keep)

    def part(self, b: slice, h: slice) -> Mask:
        keep = four_axes(self.keep)
        keep = keep if keep.shape[0] == 1 else keep[b]
        return StoredMask(keep if keep.shape[1] == 1 else keep[:, h])

    def allow(self, i: Tensor, j: Tensor, grid: Grid) -> Tensor:
        keep = four_axes(self.keep).to(i.device)
        i = i if keep.shape[2] > 1 else torch.zeros_like(i)
        j = j if keep.shape[3] > 1 else torch.zeros_like(j)
        return keep[:, :, i, j]

    def dense(self, grid: Grid, device: torch.device | str | None = None) -> Tensor:
        check_grid(grid)
        self.check(grid)
        keep = four_axes(self.keep)
        return keep if device is None else keep.to(device)

    def check(self, grid: Grid) -> None:
        check_broadcast("mask", self.keep.shape, grid)

    def seen_keys(self, grid: Grid) -> Tensor | None:
        return four_axes(self.keep).any(dim=2).expand(-1, -1, grid.k)

    @property
    def per_key(self) -> bool:
        return self.keep.shape[-2] == 1


def padding(keep: Tensor | Sequence[int]) -> Mask:
    """Make a mask that hides padding keys from every query.

    ``keep`` holds the integer lengths ``(b,)``, or booleans or 0/1 integers ``(b,k)`` that are True on real
    tokens. Booleans ``(k,)`` count as a batch of one.

    >>> padding([1, 2]).dense(Grid(2, 1, 1, 2))[:, 0, 0].int()
    tensor([[1, 0],
            [1, 1]], dtype=torch.int32)
    """
    table = as_table("keep", keep)
    if table.is_floating_point() or table.is_complex():
        raise DtypeError(
            "keep",
            f"expected integer lengths or booleans, got {table.dtype}",
            "use keep.bool(), True on real tokens",
        )
    if table.dtype == torch.bool and table.ndim == 1:
        table = table[None]
    # Integers of two axes are the 0/1 attention mask of a tokenizer.
    if table.ndim == 2:
        return Padding(kept("keep", table))
    if table.ndim != 1:
        raise ShapeError("keep", f"expected lengths (b,) or booleans (b,k), got {axes(table.shape)}")
    if readable(table) and table.numel() and int(table.min()) < 0:
        raise MaskError("keep", f"expected lengths of 0 or more, got {int(table.min())}")
    return Padding(table)


def as_mask(mask: Mask | Tensor) -> Mask:
    """Convert a tensor to a Mask, and return a Mask unchanged.

    True and the integer 1 mean *may be attended*, False and 0 mean *masked*. A float tensor must hold only 0 and
    -inf. Other numbers raise :class:`regard.errors.MaskError`.

    >>> as_mask(torch.tensor([[1, 0]])).dense(Grid(1, 1, 1, 2))
    tensor([[[[ True, False]]]])
    """
    if mask is None:
        raise DtypeError("mask", "expected a Mask or a tensor, got None")
    boolean, bias = split_additive(mask)
    if bias is not None:
        raise MaskError("mask", "finite numbers other than 0 are a bias, not a mask", "pass them as bias=...")
    return StoredMask(torch.ones(1, 1, dtype=torch.bool)) if boolean is None else boolean


def split_additive(mask: Mask | Tensor | None) -> tuple[Mask | None, Tensor | None]:
    """Split the ``mask`` argument of a caller into a boolean Mask and an additive bias.

    Either part is None if it has no effect. The bias holds the finite numbers of a float mask, and 0 for -inf. In a
    trace, and for a float mask that requires a gradient, both parts are returned without a check. Otherwise NaN, +inf,
    a float mask of only zeros and ones and integers other than 0 and 1 raise an error.
    """
    mask = read_causal_bias(mask)
    if mask is None or isinstance(mask, Mask):
        return mask, None
    check_mask_type(mask)
    _check_axes(mask)
    if not mask.is_floating_point():
        return StoredMask(kept("mask", mask)), None
    if not readable(mask) or mask.requires_grad:
        # The numbers are not available in a trace, and a mask that requires a gradient is a trained bias.
        return StoredMask(mask != float("-inf")), mask.masked_fill(mask == float("-inf"), 0.0)
    keep = mask != float("-inf")
    finite = mask.masked_fill(~keep, 0.0)
    if not finite.any():
        return (None if bool(keep.all()) else StoredMask(keep)), None
    if bool(((mask == 0) | (mask == 1)).all()):
        raise MaskError(
            "mask",
            "a float mask is added to the scores, but this one holds only zeros and ones",
            "use mask.bool() to keep the ones, or bias=mask to add them",
        )
    if not bool(torch.isfinite(finite).all()):
        raise MaskError("mask", "found NaN or +inf", "a float mask holds finite numbers and -inf only")
    return (None if bool(keep.all()) else StoredMask(keep)), finite


def check_mask_type(mask: object) -> None:
    """Raise DtypeError unless ``mask`` is a dense tensor of booleans, integers or floats."""
    if not isinstance(mask, Tensor):
        fix = ""
        if isinstance(mask, np.ndarray | list | tuple):
            fix = "use torch.as_tensor(mask)"
        elif callable(mask) or (isinstance(mask, str) and mask == "causal"):
            fix = "call it: mask=regard.causal()"
        raise DtypeError("mask", f"expected a Mask or a tensor, got {type(mask).__name__}", fix)
    check_dense("mask", mask)
    # The operations on masks do not exist for 8-bit floats.
    if mask.is_complex() or (mask.is_floating_point() and mask.dtype.itemsize == 1):
        raise DtypeError(
            "mask", f"expected booleans, integers or floats, got {mask.dtype}", "use mask.bool()"
        )


def check_mask_device(mask: Tensor, like: Tensor) -> None:
    """Raise DtypeError for a mask on the meta device, which holds no numbers, unless ``like`` is on it too."""
    if mask.is_meta and not like.is_meta:
        raise DtypeError("mask", f"on meta, which holds no numbers, but q is on {like.device}")


def kept(name: str, table: Tensor) -> Tensor:
    """Return a table of booleans or of the integers 0 and 1 as booleans, and raise MaskError for other integers.

    Other integers are most likely an additive mask that was made from integers, such as ``(1 - m) * -10000``, or ``~m``
    of integers, which inverts every bit. In a trace the numbers are not available, and all but 0 count as True.

    >>> kept("mask", torch.tensor([1, 0]))
    tensor([ True, False])
    """
    if table.dtype == torch.bool:
        return table
    keep = table != 0
    if readable(table) and bool((wrong := keep & (table != 1)).any()):
        # Torch does not choose among 16-bit unsigned integers by booleans.
        other = table.flatten()[int(wrong.flatten().nonzero()[0])].item()
        raise MaskError(
            name,
            f"found the integer {other}, and integers must be 1 (may be attended) or 0 (masked)",
            "a mask is booleans or 0 and 1 that keep, or floats of 0 and -inf that are added to the scores, or "
            "Mask.from_key_padding_mask(...) of booleans that are True on padding",
        )
    return keep


def read_causal_bias(mask: MaskLike) -> MaskLike:
    """Convert a ``torch.nn.attention.bias.CausalBias`` to a Mask, and return anything else unchanged.

    A CausalBias is a tensor without numbers that only torch's own attention function can read.
    """
    if type(mask).__name__ != "CausalBias" or type(mask).__module__ != "torch.nn.attention.bias":
        return mask
    queries, keys = mask.seq_len_q, mask.seq_len_kv  # type: ignore[union-attr]
    from_the_end = mask.variant.name == "LOWER_RIGHT"  # type: ignore[union-attr]
    return SizedCausal(keys - queries if from_the_end else 0, (queries, keys))


def check_broadcast(name: str, shape: torch.Size, grid: Grid) -> None:
    """Raise ShapeError unless a tensor of this shape broadcasts to the grid ``(b,h,q,k)``.

    Two axes are read as ``(q,k)`` and three as ``(b,q,k)``. ``name`` is the argument in the message.
    """
    full = {2: (1, 1, *shape), 3: (shape[0], 1, *shape[1:])}.get(len(shape), tuple(shape))
    for axis, word, size, expected in zip(
        "bhqk", ("batch", "heads", "queries", "keys"), full, grid, strict=True
    ):
        if size not in (1, expected):
            hint = f"{size} {word} given, {expected} in {'k' if axis == 'k' else 'q'}"
            if len(shape) == 2 and tuple(shape) == (grid.b, grid.k):
                hint += "; two axes always mean (q,k): use regard.padding(mask) for (b,k)"
            if len(shape) == 3 and shape[0] == grid.h:
                hint += f"; three axes always mean (b,q,k): use {name}[None] for (h,q,k)"
            raise ShapeError(name, f"cannot broadcast {axes(shape)} to (b,h,q,k) = {axes(grid)}", hint)


def _check_axes(mask: Tensor) -> None:
    if not 2 <= mask.ndim <= 4:
        raise ShapeError(
            "mask",
            f"expected (q,k), (b,q,k), (b,1,k) or (b,h,q,k), got {axes(mask.shape)}",
            "add the missing axes",
        )
