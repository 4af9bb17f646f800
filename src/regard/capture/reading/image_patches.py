"""Image patches and windows of patches among the tokens of a vision model."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from regard.capture.reading.running_modules import RunningModule
from regard.shapes import Grid

__all__ = ["image_windows_of", "patch_grid", "patch_grids_after"]

_MOST_EXTRA = 8  # class, distillation and register tokens in front of the patches
_REMEMBERED = 4

Picture = tuple[tuple[int, int], int, int]  # the sides in tokens, the side of a window, the shift


def patch_grids_after(
    module: nn.Module, result: object, seen: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    """The grids of patches known after a module has run. A convolution with a stride makes one."""
    if not isinstance(module, nn.Conv2d) or not isinstance(result, Tensor) or result.ndim != 4:
        return seen
    if max(module.stride) < 2:
        return seen
    return [(result.shape[2], result.shape[3]), *seen][:_REMEMBERED]


def patch_grid(count: int, grids: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], int] | None:
    """The (rows, columns) of so many tokens, and how many stand in front of the first patch.

    >>> patch_grid(5 * 7 + 1, [(5, 7)]), patch_grid(50, [(5, 7)])
    (((5, 7), 1), None)
    """
    for rows, columns in grids:
        extra = count - rows * columns
        if 0 <= extra <= _MOST_EXTRA:
            return (rows, columns), extra
    return None


def image_windows_of(stack: Sequence[RunningModule], grid: Grid) -> Picture | None:
    """The image size, window size and shift of an attention inside windows, as Swin's, or None for any other."""
    if grid.q != grid.k:
        return None
    for running in reversed(stack):
        held = vars(running.module)  # as its class has neither, asking the module would search all its parts
        side, shift = held.get("window_size"), held.get("shift_size")
        if side is None or shift is None or (sides := running.arguments.get("input_dimensions")) is None:
            continue
        side, shift = int(side), int(shift)
        rows, columns = (-(-int(n) // side) * side for n in sides)  # filled up to whole windows
        if grid.q == side * side and grid.b % ((rows // side) * (columns // side)) == 0:
            return (rows, columns), side, shift
    return None
