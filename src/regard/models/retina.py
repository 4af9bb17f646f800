"""A retina, which reads square parts of pictures at several resolutions (Mnih et al. 2014).

Each glimpse is read from a summed-area table, so that its cost does not depend on the size of the picture, and a cell
of a coarse scale costs as much as a pixel. Pixels outside of the picture are 0.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.errors import ArgumentError, DtypeError, ShapeError
from regard.shapes import axes

__all__ = ["corners_of_glimpses", "glimpses_at", "summed_areas"]


def summed_areas(images: Tensor) -> Tensor:
    """Return the sums ``(b,c,rows+1,columns+1)`` of all pixels above and left of each corner of a pixel.

    ``images (b,c,rows,columns)`` are of any dtype. The sums are in float64, in which those of bytes are exact.

    >>> summed_areas(torch.ones(1, 1, 2, 2))[0, 0].tolist()
    [[0.0, 0.0, 0.0], [0.0, 1.0, 2.0], [0.0, 2.0, 4.0]]
    """
    if images.ndim != 4 or 0 in images.shape[1:]:
        raise ShapeError("images", f"expected (b,c,rows,columns) with pixels, got {axes(images.shape)}")
    b, c, rows, columns = images.shape
    sums = torch.zeros(b, c, rows + 1, columns + 1, dtype=torch.float64, device=images.device)
    sums[:, :, 1:, 1:] = images.double().cumsum(dim=2).cumsum(dim=3)
    return sums


def corners_of_glimpses(
    places: Tensor, rows: int, columns: int, *, size: int, scales: int
) -> tuple[Tensor, Tensor]:
    """Return the first row and the first column ``(...,scales)`` of glimpses, which may lie outside of the picture.

    ``places (...,2)`` are the row and the column of the centres, from -1 (top, left) to 1 (bottom, right). The glimpse
    of scale ``i`` has sides of ``size * 2**i`` pixels, and is moved to the nearest pixel.

    >>> [corner.tolist() for corner in corners_of_glimpses(torch.zeros(2), 28, 28, size=8, scales=2)]
    [[10, 6], [10, 6]]
    """
    sides = size * 2 ** torch.arange(scales, device=places.device)  # (scales,)
    lengths = torch.tensor([rows, columns], device=places.device)  # (2,)
    centres = (places.double() + 1) / 2 * lengths  # (...,2)
    first = (centres[..., None] - sides / 2 + 0.5).floor().long()  # (...,2,scales)
    return first[..., 0, :], first[..., 1, :]


def glimpses_at(sums: Tensor, places: Tensor, *, size: int, scales: int) -> Tensor:
    """Return glimpses ``(b,s,scales,c,size,size)`` at ``places (b,s,2)`` of the pictures of :func:`summed_areas`.

    The glimpse of scale ``i`` covers ``size * 2**i`` pixels in each direction, and each of its numbers is the mean of
    ``2**i`` times ``2**i`` pixels, in float64. ``places`` are as for :func:`corners_of_glimpses`, and get no gradient.

    >>> image = torch.arange(16.0).reshape(1, 1, 4, 4)
    >>> glimpses_at(summed_areas(image), torch.zeros(1, 1, 2), size=2, scales=2)[0, 0, :, 0].tolist()
    [[[5.0, 6.0], [9.0, 10.0]], [[2.5, 4.5], [10.5, 12.5]]]
    """
    b, c, rows, columns = (*sums.shape[:2], sums.shape[2] - 1, sums.shape[3] - 1)
    _check(places, b, size, scales)
    top, left = corners_of_glimpses(places.detach(), rows, columns, size=size, scales=scales)
    cells = 2 ** torch.arange(scales, device=places.device)  # (scales,)
    steps = cells[:, None] * torch.arange(size + 1, device=places.device)  # (scales,size+1)
    # A corner outside of the picture has the sum of the nearest corner inside, so the pixels between them count as 0.
    at_row = (top[..., None] + steps).clamp(0, rows)  # (b,s,scales,size+1)
    at_column = (left[..., None] + steps).clamp(0, columns)  # (b,s,scales,size+1)
    index = at_row[..., :, None] * (columns + 1) + at_column[..., None, :]  # (b,s,scales,size+1,size+1)
    read = sums.flatten(2).gather(2, index.reshape(b, 1, -1).expand(b, c, -1))
    corners = read.view(b, c, *index.shape[1:])  # (b,c,s,scales,size+1,size+1)
    cell_sums = corners.diff(dim=-1).diff(dim=-2)  # (b,c,s,scales,size,size)
    means = cell_sums / (cells * cells)[:, None, None]
    return means.permute(0, 2, 3, 1, 4, 5)  # (b,s,scales,c,size,size)


def _check(places: Tensor, b: int, size: int, scales: int) -> None:
    if places.ndim != 3 or places.shape[0] != b or places.shape[2] != 2:
        raise ShapeError("places", f"expected (b,s,2) with b = {b}, got {axes(places.shape)}")
    if not places.is_floating_point():
        raise DtypeError("places", f"expected numbers from -1 to 1, got {places.dtype}")
    for name, value in (("size", size), ("scales", scales)):
        if value < 1:
            raise ArgumentError(name, f"expected 1 or more, got {value}")
