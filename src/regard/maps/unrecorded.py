"""The source of a map whose weights were not recorded."""

from __future__ import annotations

from torch import Tensor

from regard.errors import CaptureError, ShapeError
from regard.maps.sources import Tile
from regard.shapes import Grid, axes

__all__ = ["Unrecorded"]


class Unrecorded:
    """A source with known sizes and no weights.

    Reading its weights raises :class:`regard.errors.CaptureError` with the reason ``why``.
    """

    def __init__(self, grid: Grid, why: str):
        if min(grid) < 0:
            raise ShapeError("grid", f"expected sizes of 0 or more, got {axes(grid)}")
        self.grid, self.why = grid, why

    def weights(self, tile: Tile) -> Tensor:
        """Raise CaptureError with the reason."""
        raise CaptureError(self.why)
