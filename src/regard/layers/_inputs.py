"""What the layers do with their inputs before anything is projected."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.errors import ArgumentError, DtypeError, ShapeError
from regard.masks import Mask, split_additive
from regard.masks.stored import read_causal_bias
from regard.modes import autocasting, readable
from regard.shapes import Grid, axes

__all__ = ["blank_unseen", "check_input", "check_size", "common_batch", "document_mask"]


def check_size(name: str, value: int) -> int:
    """A size in a constructor: a whole number of 1 or more."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ArgumentError(name, f"expected a whole number of 1 or more, got {value!r}")
    return value


def check_input(
    name: str,
    x: Tensor,
    layer: nn.Module,
    width: int,
    shape: str = "(b,n,m)",
    axis_counts: tuple = (2, 3, 4),
) -> None:
    """Raise unless ``x`` is a tensor of this width that ``layer`` can project.

    A layer that stands in the place of an ``nn.Linear`` (LoRA, quantization) need not have a weight. The device and
    the dtype are then that layer's own business.
    """
    if not isinstance(x, Tensor):
        raise DtypeError(name, f"expected a torch.Tensor, got {type(x).__name__}", "use torch.as_tensor(...)")
    weight = layer.weight if type(layer) is nn.Linear else None
    if weight is not None and x.device != weight.device:
        fix = f"use {name}.to({str(weight.device)!r})"
        raise DtypeError(name, f"on {x.device}, but the layer is on {weight.device}", fix)
    if not x.is_floating_point():
        raise DtypeError(name, f"expected a floating dtype, got {x.dtype}", "embed the tokens first")
    if weight is not None and x.dtype != weight.dtype and not autocasting(x.device):
        raise DtypeError(
            name, f"{x.dtype}, but the layer is {weight.dtype}", f"use {name}.to({weight.dtype})"
        )
    if x.ndim not in axis_counts or x.shape[-1] != width:
        fix = "m is the width the layer was built with"
        raise ShapeError(name, f"expected {shape} with m = {width}, got {axes(x.shape)}", fix)


def common_batch(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Repeat a batch of one (or none) for the others, as a matrix product would: one learned query for all.

    What does not broadcast is left to the core, which knows about groups of heads and has the better error.
    """
    shapes = [x.shape[:-2] for x in tensors]
    if all(shape == shapes[0] for shape in shapes):
        return tensors
    try:
        common = torch.broadcast_shapes(*shapes)
    except RuntimeError:
        return tensors
    return tuple(x.expand(*common, *x.shape[-2:]) for x in tensors)


def document_mask(mask: Mask | Tensor | None) -> Mask | Tensor | None:
    """Read a float mask of zeros and ones as keep, as document 002 does with ``mask == 0``.

    Only the document's three layers read masks so. Other float masks are additive: one that is being trained (as a
    boolean it would have no gradient), and one without a single 1, such as the mask of a first decoding step.

    >>> document_mask(torch.tensor([[1.0, 0.0]]))
    tensor([[ True, False]])
    >>> document_mask(torch.tensor([[0.0, float("-inf")]]))
    tensor([[0., -inf]])
    >>> document_mask(torch.zeros(1, 1))
    tensor([[0.]])
    """
    mask = read_causal_bias(mask)
    if not isinstance(mask, Tensor) or not mask.is_floating_point() or mask.requires_grad:
        return mask
    ones = mask == 1
    marks = ((mask == 0) | ones).all() & ones.any()
    if not readable(mask):  # the same without a branch: a trace cannot look at numbers
        return torch.where(marks, torch.zeros_like(mask).masked_fill(mask == 0, float("-inf")), mask)
    return mask.bool() if bool(marks) else mask


def blank_unseen(
    mask: Mask | Tensor | None, grid: Grid, *inputs: Tensor, finite: bool = False
) -> tuple[Tensor, ...]:
    """Zero the rows of key inputs ``(b,k,m)`` that no query may see; with ``finite`` only their NaN and inf.

    The core ignores such keys already. But a projection's weight gradient is a sum of ``0 * input`` over
    them, and 0 * NaN is NaN: garbage in the padding would reach the parameters.
    """
    found, _ = split_additive(mask)
    if found is None or any(
        x.shape[-2] != grid.k for x in inputs
    ):  # the core has the error for unequal lengths
        return inputs
    found.check(grid)
    seen = found.seen_keys(grid)  # (b,h,k), sizes of 1 where all agree
    if seen is None:
        return inputs
    x = inputs[0]
    hidden = ~seen.to(x.device).any(dim=1)[..., None]  # (b,k,1)
    hidden = hidden[0] if x.ndim == 2 else hidden
    if finite:
        hidden = hidden & ~x.isfinite()
    blank = torch.where(hidden, 0.0, x)  # a batch of one is repeated where its sequences hide different keys
    return tuple(blank if other is x else torch.where(hidden, 0.0, other) for other in inputs)
