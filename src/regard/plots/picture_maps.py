"""The weights of words over a picture, as small pictures side by side."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from regard._tokens import label_of, shortened
from regard.errors import ArgumentError, DtypeError, ShapeError
from regard.plots.figures import (
    check_path,
    color_scale,
    families_of,
    finish,
    fit,
    new_figure,
    place_axes,
    wants_screen,
)
from regard.plots.images import LETTER, as_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from regard.maps import PictureMap

__all__ = ["plot_picture_maps"]

# Inches, the longer side of a single picture, and of one of several.
ALONE, SMALL = 4.0, 2.0
GAP, TITLE = 0.12, 0.3
MOST_COLUMNS = 6


def plot_picture_maps(
    image: Any,
    maps: PictureMap | Sequence[PictureMap],
    *,
    path: str | os.PathLike[str] | None = None,
    window: bool = False,
) -> Figure:
    """Draw the picture once for each word, with the weights of the word over the patches of the picture.

    ``maps`` is the result of ``seen.picture_map("cat")`` or ``seen.picture_maps()``. The colours of each word span 0 to
    its largest weight. Its title has the sum of its weights over the picture. ``image`` is the picture,
    ``(height,width)``, ``(height,width,3)`` or ``(3,height,width)``, with values from 0 to 1 or bytes. It may have
    another size than the model was given. If the model may have cropped or padded the picture, it has to have the
    proportions that the model was given. A cross marks sink patches that were taken out. ``path`` writes a .png, .svg
    or .pdf file, and ``window=True`` opens a window.

    >>> from regard.maps import PatchGrid, PictureMap
    >>> patches = PatchGrid(picture=0, grid=(2, 2), keys=(0, 1, 2, 3), size=(8, 8), box=(0, 0, 8, 8))
    >>> word = PictureMap(word="cat", query=4, weights=np.eye(2) / 2, total=1.0, patches=patches)
    >>> figure = plot_picture_maps(np.zeros((16, 16)), [word, word])
    >>> [ax.get_title() for ax in figure.axes], figure.axes[0].get_images()[1].get_array().shape
    (['cat · sum 1', 'cat · sum 1'], (2, 2))
    """
    # At the top of the file, this would load torch for all plots.
    from regard.maps import PictureMap

    found = [maps] if isinstance(maps, PictureMap) else list(maps)
    if not found:
        raise ArgumentError("maps", "expected at least one map, got none", "the sequence has no words")
    for n, entry in enumerate(found):
        if not isinstance(entry, PictureMap):
            raise DtypeError(f"maps[{n}]", f"expected a PictureMap, got {type(entry).__name__}")
    picture = as_picture(image)
    for entry in found:
        _check_proportions(picture, entry)
    target, screen = check_path(path), wants_screen(window, path)
    height, width = picture.shape[:2]
    scale = (ALONE if len(found) == 1 else SMALL) / max(height, width)
    wide, high = width * scale, height * scale
    columns = min(len(found), MOST_COLUMNS)
    rows = math.ceil(len(found) / columns)
    figure = new_figure(columns * (wide + GAP) + 1, rows * (high + TITLE) + 1, screen)
    words = [label_of(entry.word.strip(" ") or entry.word) for entry in found]
    families = families_of(words)
    axes = []
    for n, (word, entry) in enumerate(zip(words, found, strict=True)):
        down, across = divmod(n, columns)
        ax = place_axes(figure, across * (wide + GAP), -down * (high + TITLE), wide, high)
        _draw(ax, picture, entry)
        total = f" · sum {entry.total:.2g}"
        word = shortened(word, max(4, round((wide + GAP) / LETTER) - len(total)))
        name = ax.set_title(word + total, fontsize=9, parse_math=False)
        if families:
            name.set_fontfamily(families)
        axes.append(ax)
    fit(figure, axes)
    return finish(figure, target, screen)


def _draw(ax: Axes, picture: np.ndarray, found: PictureMap) -> None:
    """Draw the weights of one word over the picture."""
    height, width = picture.shape[:2]
    colors = color_scale(found.weights)
    across, down = width / found.patches.size[1], height / found.patches.size[0]
    ax.imshow(picture, cmap="gray", vmin=0, vmax=1, extent=(0, width, height, 0))
    left, top, right, bottom = found.patches.box
    # The picture stays visible where the weights are small.
    opacity = 0.25 + 0.5 * np.abs(found.weights) / colors["vmax"]
    extent = (left * across, right * across, bottom * down, top * down)
    ax.imshow(found.weights, alpha=opacity, extent=extent, interpolation="nearest", **colors)
    for row, column in found.sinks:
        x0, y0, x1, y1 = found.patches.patch_box(row, column)
        style = {"color": "white", "linewidth": 1.0}
        ax.plot([x0 * across, x1 * across], [y0 * down, y1 * down], **style)
        ax.plot([x0 * across, x1 * across], [y1 * down, y0 * down], **style)
    # Patches of padding lie outside the picture.
    ax.set_xlim(0, width)
    ax.set_ylim(height, 0)
    ax.set_xticks([])
    ax.set_yticks([])


def _check_proportions(picture: np.ndarray, found: PictureMap) -> None:
    """Raise ShapeError if the picture may have been cropped or padded for the model."""
    patches = found.patches
    (height, width), (model_height, model_width) = picture.shape[:2], patches.size
    # Half a patch along the longer side.
    tolerance = 0.5 / max(patches.grid)
    if patches.stretched or abs(width * model_height / (height * model_width) - 1) <= tolerance:
        return
    raise ShapeError(
        "image",
        f"the picture has {height} x {width} pixels, and the model was given {model_height} x {model_width}, "
        "so that it was cropped or padded",
        "give the picture as the model saw it",
    )
