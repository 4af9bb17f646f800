"""How each family of vision-language models of Hugging Face arranges the patches of a picture among its tokens.

A family is known by the ``model_type`` of its config. Its function reads the arguments of the model and returns a
:class:`PictureSpan` for each picture, in the order in which their tokens are in the prompts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

__all__ = ["FAMILIES", "NO_PLACES", "PictureSpan", "PictureView", "UnknownLayoutError"]

# The most class and register tokens before the patches of a vision tower.
_MOST_EXTRA = 8
# LLaVA-OneVision resizes patches if they are more than this times as many along a side as its limit.
_RESIZED_BEYOND = 1.1


class UnknownLayoutError(Exception):
    """The places of picture tokens cannot be computed. The message is the reason."""


@dataclass(frozen=True)
class PictureView:
    """A grid of patches among the tokens of one picture.

    The token of the patch in row r and column c is ``first + r * stride + c``. The other fields are those of
    :class:`regard.maps.PatchGrid`.
    """

    grid: tuple[int, int]
    size: tuple[int, int]
    box: tuple[float, float, float, float]
    view: str = "whole"
    first: int = 0
    stride: int = 0
    stretched: bool = True

    def tokens(self) -> list[int]:
        """Return the tokens of all patches, row after row."""
        rows, columns = self.grid
        return [self.first + r * (self.stride or columns) + c for r in range(rows) for c in range(columns)]


@dataclass(frozen=True)
class PictureSpan:
    """The tokens of one picture, or of one tile of a picture."""

    tokens: int
    views: tuple[PictureView, ...]
    # Whether this is one tile of a picture. The text before a tile says which.
    is_tile: bool = False


def _llava(config: Any, arguments: Mapping[str, Any], count: int) -> list[PictureSpan]:
    pixels, sizes = arguments["pixel_values"], arguments.get("image_sizes")
    side = _side(config.vision_config.patch_size)
    if sizes is not None:
        # Pixtral gives the patches of all pictures of different sizes, without any other tokens.
        return [_plain(int(h) // side, int(w) // side, side, (int(h), int(w))) for h, w in _pairs(sizes)]
    number, height, width = pixels.shape[0], *pixels.shape[-2:]
    rows, columns = height // side, width // side
    per_picture = count // max(number, 1)
    # The class token is the first token of the vision tower. "default" leaves the first token out.
    strategy = arguments.get("vision_feature_select_strategy") or config.vision_feature_select_strategy
    dropped = 1 if strategy == "default" else 0
    extra = per_picture + dropped - rows * columns
    if not dropped <= extra <= _MOST_EXTRA:
        raise UnknownLayoutError(f"a picture of {rows} x {columns} patches has {per_picture} tokens")
    return [_plain(rows, columns, side, (height, width), extra - dropped, stretched=False)] * number


def _paligemma(config: Any, arguments: Mapping[str, Any], count: int) -> list[PictureSpan]:
    pixels, side = arguments["pixel_values"], _side(config.vision_config.patch_size)
    height, width = pixels.shape[-2:]
    return [_plain(height // side, width // side, side, (height, width))] * pixels.shape[0]


def _qwen(config: Any, arguments: Mapping[str, Any], count: int) -> list[PictureSpan]:
    grids = arguments.get("image_grid_thw")
    if not isinstance(grids, Tensor):
        raise UnknownLayoutError("the model was given no image_grid_thw")
    side, merged = _side(config.vision_config.patch_size), int(config.vision_config.spatial_merge_size)
    spans = []
    for frames, height, width in grids.tolist():
        if frames != 1:
            raise UnknownLayoutError(f"a picture of image_grid_thw has {frames} frames")
        size = (height * side, width * side)
        spans.append(_plain(height // merged, width // merged, side * merged, size))
    return spans


def _llava_next(config: Any, arguments: Mapping[str, Any], count: int) -> list[PictureSpan]:
    sizes = arguments.get("image_sizes")
    if sizes is None:
        raise UnknownLayoutError("the model was given no image_sizes")
    tiled = [True] * len(sizes)
    if arguments.get("batch_num_images") is not None:
        # LLaVA-OneVision cuts a picture into tiles if it is the only one of its sequence.
        tiled = [n == 1 for n in _numbers(arguments["batch_num_images"]) for _ in range(n)]
    limit = getattr(config, "vision_aspect_ratio", None)
    pairs = zip(_pairs(sizes), tiled, strict=True)
    return [_any_resolution(config, (int(h), int(w)), cut, limit) for (h, w), cut in pairs]


def _any_resolution(config: Any, size: tuple[int, int], tiled: bool, limit: str | None) -> PictureSpan:
    """Return the tokens of LLaVA-NeXT, which are the whole picture, then its tiles with a newline after each row."""
    from transformers.image_processing_utils import select_best_resolution

    (height, width), tile = size, int(config.vision_config.image_size)
    side = _side(config.vision_config.patch_size)
    per_tile = tile // side
    whole = PictureView((per_tile, per_tile), size, (0, 0, width, height))
    if not tiled:
        # A newline follows the patches.
        return PictureSpan(per_tile**2 + 1, (whole,))
    high, wide = select_best_resolution(size, config.image_grid_pinpoints)
    rows, columns = high // tile * per_tile, wide // tile * per_tile
    # The picture was resized to fit, and padded on two sides. Patches of padding are removed.
    scale = min(high / height, wide / width)
    top = left = 0
    if width / height > columns / rows:
        top = (rows - int(round(height * (columns / width), 7))) // 2
    else:
        left = (columns - int(round(width * (rows / height), 7))) // 2
    new_height = min(math.ceil(height * scale), high)
    new_width = min(math.ceil(width * scale), wide)
    above, before = (high - new_height) // 2, (wide - new_width) // 2
    up, across = height / new_height, width / new_width
    box = (
        (left * side - before) * across,
        (top * side - above) * up,
        ((columns - left) * side - before) * across,
        ((rows - top) * side - above) * up,
    )
    rows, columns = _limited(rows - 2 * top, columns - 2 * left, per_tile, limit)
    first = per_tile**2
    tiles = PictureView((rows, columns), size, box, "tiles", first, columns + 1)
    return PictureSpan(first + rows * (columns + 1), (whole, tiles))


def _limited(rows: int, columns: int, per_tile: int, limit: str | None) -> tuple[int, int]:
    """Return the grid of patches after LLaVA-OneVision has resized it to a number of tiles, such as anyres_max_9."""
    if limit is None:
        return rows, columns
    ratio = math.sqrt(rows * columns / (int(limit.removeprefix("anyres_max_")) * per_tile**2))
    return (int(rows // ratio), int(columns // ratio)) if ratio > _RESIZED_BEYOND else (rows, columns)


def _idefics(config: Any, arguments: Mapping[str, Any], count: int) -> list[PictureSpan]:
    pixels = arguments["pixel_values"]  # (b, tiles, 3, height, width)
    height, width = pixels.shape[-2:]
    side = _side(config.vision_config.patch_size) * int(config.scale_factor)
    # The model leaves out tiles that are all 0, which fill up the batch.
    real = (pixels != 0).flatten(2).any(dim=2)  # (b, tiles)
    shown = arguments.get("pixel_attention_mask")
    spans = []
    for b, n in real.nonzero().tolist():
        size = (height, width)
        if shown is not None:
            inside = shown[b, n].bool()
            size = (int(inside.any(dim=1).sum()), int(inside.any(dim=0).sum()))
        view = PictureView((height // side, width // side), size, (0, 0, width, height))
        spans.append(PictureSpan((height // side) * (width // side), (view,), is_tile=True))
    return spans


Reader = Callable[[Any, Mapping[str, Any], int], list[PictureSpan]]
FAMILIES: dict[str, Reader] = {
    "llava": _llava,
    "llava_next": _llava_next,
    "llava_onevision": _llava_next,
    "qwen2_vl": _qwen,
    "qwen2_5_vl": _qwen,
    "qwen3_vl": _qwen,
    "qwen3_vl_moe": _qwen,
    "paligemma": _paligemma,
    "idefics3": _idefics,
    "smolvlm": _idefics,
}
"""The known families, by the ``model_type`` of the config."""

_QUERIES = (
    "the picture tokens of {} are queries of its Q-Former, which have no place in the picture. "
    "Its cross-attention over the patches has one: use seen.by(kind='cross')"
)
NO_PLACES = {kind: _QUERIES.format(kind) for kind in ("blip-2", "instructblip")}
"""Reasons why the picture tokens of some families have no place."""


def _plain(
    rows: int, columns: int, side: int, size: tuple[int, int], first: int = 0, *, stretched: bool = True
) -> PictureSpan:
    """Return a picture whose tokens are its patches, row after row, behind ``first`` tokens that are no patches."""
    box = (0.0, 0.0, float(columns * side), float(rows * side))
    view = PictureView((rows, columns), size, box, first=first, stretched=stretched)
    return PictureSpan(first + rows * columns, (view,))


def _side(patch_size: Any) -> int:
    """Return the side of a patch in pixels."""
    sides = [int(patch_size)] if isinstance(patch_size, int) else [int(n) for n in patch_size]
    if len(set(sides)) != 1:
        raise UnknownLayoutError(f"patches of {sides} pixels are not square")
    return sides[0]


def _pairs(sizes: Any) -> list[list[int]]:
    return sizes.tolist() if hasattr(sizes, "tolist") else [list(size) for size in sizes]


def _numbers(values: Any) -> list[int]:
    return [int(n) for n in (values.tolist() if hasattr(values, "tolist") else values)]
