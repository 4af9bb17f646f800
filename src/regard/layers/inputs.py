"""Checks and preparation of the inputs and masks of the layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.errors import DtypeError, ShapeError
from regard.masks import Mask, split_additive
from regard.masks.stored import check_mask_device, check_mask_type, kept, read_causal_bias
from regard.modes import autocasting, readable
from regard.shapes import Grid, axes, check_tensor

__all__ = ["blank_unseen", "check_input", "common_batch", "document_mask"]


def check_input(
    name: str,
    x: Tensor,
    layer: nn.Module,
    width: int,
    shape: str = "(b,n,m)",
    axis_counts: tuple = (2, 3, 4),
) -> None:
    """Raise DtypeError or ShapeError unless ``x`` is a floating tensor of this width that ``layer`` can project.

    ``name`` and ``shape`` are for the message. ``axis_counts`` are the numbers of axes that x may have. The device and
    the dtype are compared only if ``layer`` is an ``nn.Linear``. A replacement of it (LoRA, quantization) may have no
    weight.
    """
    check_tensor(name, x)
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
    """Broadcast all axes of the tensors except the last two, as a matrix product does.

    Tensors that do not broadcast are returned unchanged. The attention function then raises the error.
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
    """Convert a mask of zeros and ones, of floats or integers, to a boolean mask in which 0 is masked.

    Only the three layers of document 002 accept such masks of floats. A float mask that requires a gradient, and one
    without any 1, such as that of the first decoding step, are additive and returned unchanged.

    >>> document_mask(torch.tensor([[1.0, 0.0]]))
    tensor([[ True, False]])
    >>> document_mask(torch.tensor([[0.0, float("-inf")]]))
    tensor([[0., -inf]])
    >>> document_mask(torch.zeros(1, 1))
    tensor([[0.]])
    """
    mask = read_causal_bias(mask)
    if mask is None or isinstance(mask, Mask):
        return mask
    check_mask_type(mask)
    if not mask.is_floating_point():
        return kept("mask", mask)
    if mask.requires_grad:
        return mask
    ones = mask == 1
    marks = ((mask == 0) | ones).all() & ones.any()
    # While tracing, values cannot be read, so the result is computed without a branch.
    if not readable(mask):
        return torch.where(marks, torch.zeros_like(mask).masked_fill(mask == 0, float("-inf")), mask)
    return mask.bool() if bool(marks) else mask


def blank_unseen(
    mask: Mask | Tensor | None, grid: Grid, *inputs: Tensor, finite: bool = False
) -> tuple[Tensor, ...]:
    """Return key inputs ``(b,k,m)`` with zeros in the rows that are masked for every query.

    With ``finite``, which takes a single input, only NaN and infinity in these rows are replaced. The attention
    function ignores masked keys, but the weight gradient of a projection is a sum of ``0 * input`` over them. NaN in
    the padding would make it NaN. The inputs are returned as they are if no row is masked for every query.
    """
    hiding, _ = split_additive(mask)
    if isinstance(mask, Tensor):
        check_mask_device(mask, inputs[0])
    # The attention function raises the error for unequal lengths.
    if hiding is None or any(x.shape[-2] != grid.k for x in inputs):
        return inputs
    hiding.check(grid)
    seen = hiding.seen_keys(grid)  # (b,h,k), with size 1 on an axis where all are equal
    if seen is None:
        return inputs
    x = inputs[0]
    hidden = ~seen.to(x.device).any(dim=1)[..., None]  # (b,k,1)
    hidden = hidden[0] if x.ndim == 2 else hidden
    if finite:
        hidden = hidden & ~x.isfinite()
    blank = torch.where(hidden, 0.0, x)  # (b,k,m), also if x has a batch of one
    return tuple(blank if other is x else torch.where(hidden, 0.0, other) for other in inputs)
