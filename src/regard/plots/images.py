"""Attention weights of an image model, drawn over the image, and those of each word of a caption."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from regard._drawing import as_labels, as_weights
from regard._tokens import shortened
from regard.checks import rows_and_columns
from regard.errors import ShapeError, former_names
from regard.plots.figures import (
    check_path,
    color_scale,
    families_of,
    finish,
    fit,
    new_axes,
    new_figure,
    place_axes,
    wants_screen,
)
from regard.plots.labels import cut_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["as_picture", "plot_image_attention", "plot_image_words"]

SIDE = 4.0  # inches, the longer side of the image
SMALL_SIDE = 1.5  # inches, the longer side of the image of a word
GAP = 0.3  # inches between the images of words
LETTER = 0.075  # inches, the width of a letter above an image


@former_names(show="window")
def plot_image_attention(
    image: Any,
    weights: Any,
    *,
    grid: tuple[int, int] | None = None,
    extra: int = 0,
    title: str = "Attention over the picture",
    path: str | os.PathLike[str] | None = None,
    window: bool = False,
) -> Figure:
    """Draw an image with the attention weights of its patches as an overlay.

    ``image`` is ``(height,width)``, ``(height,width,3)`` or ``(3,height,width)``, with values from 0 to 1 or bytes.
    ``weights`` is ``(rows,columns)``, or one number for each token. In the second case, ``extra`` is the number of
    tokens before the first patch (such as a class token), and ``grid`` the (rows, columns) of patches, by default a
    square. ``path`` writes a .png, .svg or .pdf file, and ``window=True`` opens a window.

    >>> figure = plot_image_attention(np.zeros((8, 8)), np.full(5, 0.2), extra=1)
    >>> figure.axes[0].get_images()[1].get_array().shape
    (2, 2)
    """
    picture = as_picture(image)
    patches = _patches(weights, grid, extra)
    target, screen = check_path(path), wants_screen(window, path)
    height, width = picture.shape[:2]
    scale = SIDE / max(height, width)
    figure, ax = new_axes(width * scale, height * scale, screen)
    _draw_over(ax, picture, patches)
    families = families_of([title])
    name = ax.set_title(cut_title(title), parse_math=False)
    if families:
        name.set_fontfamily(families)
    fit(figure, [ax])
    return finish(figure, target, screen)


def plot_image_words(
    image: Any,
    weights: Any,
    words: Sequence[str],
    *,
    grid: tuple[int, int],
    columns: int = 6,
    title: str = "Attention of each word over the picture",
    path: str | os.PathLike[str] | None = None,
    window: bool = False,
) -> Figure:
    """Draw an image once for each word, with the attention weights of the word as an overlay.

    ``image`` is that of :func:`plot_image_attention`. ``weights`` is ``(words,patches)``, and ``grid`` the (rows,
    columns) of patches. Each image has its own colour scale. ``columns`` is the number of images in a row. ``path``
    writes a .png, .svg or .pdf file, and ``window=True`` opens a window.

    >>> figure = plot_image_words(np.zeros((8, 8)), np.full((2, 4), 0.25), ["a", "seven"], grid=(2, 2))
    >>> [ax.get_title() for ax in figure.axes]
    ['a', 'seven']
    """
    picture, array = as_picture(image), as_weights("weights", weights, "qk")
    rows, patches = array.shape
    names = as_labels("words", words, rows, f"rows in weights ({rows},{patches})")
    grid = rows_and_columns("grid", grid)
    if grid[0] * grid[1] != patches:
        problem = f"{patches} patches do not make a grid of {grid[0]} x {grid[1]}"
        raise ShapeError("weights", problem, "give the (rows, columns) of patches as grid")
    target, screen = check_path(path), wants_screen(window, path)
    height, width = (size * SMALL_SIDE / max(picture.shape[:2]) for size in picture.shape[:2])
    families = families_of([title, *names])
    figure = new_figure((width + GAP) * columns, (height + GAP) * rows, screen)
    axes = []
    for place, name in enumerate(names):
        down, across = divmod(place, columns)
        ax = place_axes(figure, across * (width + GAP), -down * (height + GAP), width, height)
        _draw_over(ax, picture, array[place].reshape(grid))
        ax.set_title(
            shortened(name, round((width + GAP) / LETTER)), fontsize=9, parse_math=False, fontfamily=families
        )
        axes.append(ax)
    text = axes[0].text(
        0, 1 + 0.3 / height, cut_title(title), transform=axes[0].transAxes, fontsize=11, va="bottom"
    )
    text.set(parse_math=False, fontfamily=families)
    fit(figure, axes)
    return finish(figure, target, screen)


def _draw_over(ax: Axes, picture: np.ndarray, patches: np.ndarray) -> None:
    """Draw a picture with the weights of its patches ``(rows,columns)`` over it."""
    height, width = picture.shape[:2]
    edges = (-0.5, width - 0.5, height - 0.5, -0.5)
    ax.imshow(picture, cmap="gray", vmin=0, vmax=1, extent=edges)
    colors = color_scale(patches)
    # The image stays visible where the weights are small.
    opacity = 0.25 + 0.5 * np.abs(patches) / colors["vmax"]
    ax.imshow(patches, alpha=opacity, extent=edges, interpolation="nearest", **colors)
    ax.set_xticks([])
    ax.set_yticks([])


def as_picture(image: Any) -> np.ndarray:
    """Convert an image to values from 0 to 1, ``(height,width)`` or ``(height,width,3)``."""
    if hasattr(image, "detach"):
        image = image.detach().cpu().numpy()
    array = np.asarray(image)
    if array.ndim == 3 and array.shape[0] in (1, 3) and array.shape[2] not in (1, 3):
        array = array.transpose(1, 2, 0)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[..., 0]
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] != 3) or 0 in array.shape:
        raise ShapeError(
            "image", f"expected (height,width), with 3 colours first or last or none, got {np.shape(image)}"
        )
    # Some libraries store values from 0 to 255 as floats.
    if np.issubdtype(array.dtype, np.integer) or array.max() > 2:
        array = array / 255
    return np.clip(array.astype(np.float64), 0, 1)


def _checked_patches(patches: np.ndarray, extra: int) -> np.ndarray:
    """Return the weights, or raise ShapeError if they are a map (q,k) instead of one query over the patches."""
    problem = f"expected (rows,columns) of patches, or one number for each token, got {patches.shape}"
    if extra:
        raise ShapeError(
            "weights", f"{problem} and extra={extra}", "give the weights of one query, weights[0]"
        )
    if np.allclose(patches.sum(1), 1, atol=1e-3):
        raise ShapeError(
            "weights", f"{problem} with rows that sum to 1, as in a map (q,k)", "pick one query: weights[0]"
        )
    return patches


def _patches(weights: Any, grid: tuple[int, int] | None, extra: int) -> np.ndarray:
    """Convert weights to ``(rows,columns)`` of patches."""
    shape = np.shape(weights.detach().cpu() if hasattr(weights, "detach") else weights)
    if len(shape) == 2 and 1 not in shape and grid is None:
        return _checked_patches(as_weights("weights", weights, "qk"), extra)
    flat = as_weights("weights", weights, "k")[extra:]
    rows, columns = (round(len(flat) ** 0.5),) * 2 if grid is None else rows_and_columns("grid", grid)
    if rows * columns != len(flat):
        problem = f"{len(flat)} patches after {extra} other tokens do not make a grid of {rows} x {columns}"
        raise ShapeError(
            "weights", problem, "give grid=(rows, columns), and extra for tokens before the first patch"
        )
    return flat.reshape(rows, columns)
