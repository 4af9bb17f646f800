"""Image patches and windows of patches among the tokens of a vision model."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from regard.capture.reading.running_modules import RunningModule
from regard.shapes import Grid

__all__ = ["image_windows_of", "patch_grid", "patch_grids_after"]

# The most class, distillation and register tokens before the first patch.
_MOST_EXTRA = 8
_REMEMBERED = 4

# The (rows, columns) of tokens of an image, the side of a window, and the shift of the windows.
WindowLayout = tuple[tuple[int, int], int, int]


def patch_grids_after(
    module: nn.Module, result: object, seen: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return the grids of patches seen so far, latest first, after a module has run.

    The output of a convolution with a stride is such a grid.
    """
    if not isinstance(module, nn.Conv2d) or not isinstance(result, Tensor) or result.ndim != 4:
        return seen
    if max(module.stride) < 2:
        return seen
    return [(result.shape[2], result.shape[3]), *seen][:_REMEMBERED]


def patch_grid(count: int, grids: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], int] | None:
    """Return the (rows, columns) of ``count`` tokens, and the number of tokens before the first patch.

    The result is None if no grid fits.

    >>> patch_grid(5 * 7 + 1, [(5, 7)]), patch_grid(50, [(5, 7)])
    (((5, 7), 1), None)
    """
    for rows, columns in grids:
        extra = count - rows * columns
        if 0 <= extra <= _MOST_EXTRA:
            return (rows, columns), extra
    return None


def image_windows_of(stack: Sequence[RunningModule], grid: Grid) -> WindowLayout | None:
    """Return the layout of window attention as in Swin, or None for any other attention."""
    if grid.q != grid.k:
        return None
    for running in reversed(stack):
        # vars() is faster than getattr, which searches all parts of a module for a missing name.
        held = vars(running.module)
        side, shift = held.get("window_size"), held.get("shift_size")
        if side is None or shift is None:
            continue
        sides = running.arguments.get("input_dimensions", held.get("input_dimensions"))
        if sides is None:
            continue
        try:
            side, shift, (rows, columns) = int(side), int(shift), map(int, sides)
        except (TypeError, ValueError):  # windows of another form
            continue
        # The model pads the image to whole windows.
        if grid.q == side * side > 0 and grid.b % (-(-rows // side) * -(-columns // side)) == 0:
            return (rows, columns), side, shift
    return None
