"""A picture beside the maps of where a classifier looks, for the terminal."""

from __future__ import annotations

import numpy as np

from regard.images import read_image, resize_images
from regard.tasks.images.classifier import PictureWeights

__all__ = ["beside_picture"]

# The least and the most characters of the width of a picture, if its patches allow it.
_NARROWEST, _WIDEST = 16, 28


def beside_picture(maps: PictureWeights, image: np.ndarray) -> tuple[np.ndarray, list[str], tuple[int, int]]:
    """Return the brightness of a picture and the maps on one grid of cells, ``(1 + maps,cells)``.

    ``image`` is the picture as the model read it, ``(h,w,c)``. Each patch has the same number of cells. The names of
    the rows and the (rows, columns) of cells come with them, as :func:`regard.terminal.draw_grids` takes them.
    """
    rows, columns = maps.grid
    finer = max(1, min(_WIDEST, max(_NARROWEST, image.shape[1])) // columns)
    grid = (rows * finer, columns * finer)
    grey = resize_images(read_image(image, channels=1), grid)[..., 0] / 255  # grid
    patches = maps.weights.reshape(-1, rows, columns)  # (maps,rows,columns)
    cells = patches.repeat(finer, axis=1).repeat(finer, axis=2)  # (maps,*grid)
    drawn = np.concatenate([grey[None], cells]).reshape(len(cells) + 1, -1)  # (1 + maps,cells)
    return drawn, ["picture", *maps.row_words], grid
