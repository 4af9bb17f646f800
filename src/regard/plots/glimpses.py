"""The path of a model's eye over a picture, as an animation, a page with a slider or a strip of pictures.

Drawn with Pillow (``pip install '.[images]'``).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard._tokens import columns_of, shortened
from regard.errors import ArgumentError, MissingExtraError, ShapeError, install_command
from regard.files import write_atomically

if TYPE_CHECKING:
    from PIL import Image, ImageDraw

__all__ = ["GLIMPSE_FILES", "GlimpseFrame", "glimpse_animation", "glimpse_strip", "save_glimpses"]

GLIMPSE_FILES = (".gif", ".html", ".png")
# Of the squares and views of each scale, from the finest. They differ in lightness too.
COLORS = ("#ff6a00", "#0090ff", "#b04dff", "#00a86b", "#d4b000")
PICTURE_SIDE = 288  # pixels of the longer side of the picture, about
VIEW_SIDE = 84  # pixels of what a scale shows, about
GAP = 14
BARS = 150  # pixels of the longest bar of a probability
LINE = 20  # pixels of a line of text
STEP_TIME, LAST_TIME = 900, 2500  # milliseconds
OUTSIDE = "#d8d8d8"  # around the picture


@dataclass(frozen=True)
class GlimpseFrame:
    """One glimpse at a picture.

    ``squares`` are the first row, the first column and the side of each scale in pixels of the picture, from the finest
    scale. ``views (scales,size,size,c)`` is what each scale shows, with numbers from 0 to 1. ``answers`` are labels
    with their probabilities after the glimpse, the most probable first.
    """

    squares: Sequence[tuple[int, int, int]]
    views: np.ndarray
    answers: Sequence[tuple[str, float]]

    @property
    def centre(self) -> tuple[float, float]:
        """The row and the column of the centre in pixels of the picture."""
        top, left, side = self.squares[0]
        return top + side / 2, left + side / 2


def save_glimpses(
    path: str | os.PathLike, picture: Any, frames: Sequence[GlimpseFrame], *, title: str = "Glimpses"
) -> None:
    """Write the glimpses at a picture as an animation (.gif), a page with a slider (.html) or a strip (.png).

    ``picture`` has the shape ``(h,w)`` or ``(h,w,c)``, of bytes or of numbers from 0 to 1.
    """
    target = Path(path)
    ending = target.suffix.lower()
    if ending not in GLIMPSE_FILES:
        raise ArgumentError("path", f"expected a .gif, .html or .png file, got {target.name!r}")
    if ending == ".html":
        from regard.plots.glimpse_page import glimpse_page

        page = glimpse_page(picture, frames, title=title)
        write_atomically(target, lambda part: part.write_text(page, encoding="utf-8", newline="\n"))
    elif ending == ".png":
        strip = glimpse_strip(picture, frames, title=title)
        write_atomically(target, lambda part: strip.save(part, format="PNG"))
    else:
        first, *rest = glimpse_animation(picture, frames, title=title)
        times = [STEP_TIME] * len(rest) + [LAST_TIME]
        options = {"save_all": True, "append_images": rest, "duration": times, "loop": 0}
        write_atomically(target, lambda part: first.save(part, format="GIF", **options))


def glimpse_animation(
    picture: Any, frames: Sequence[GlimpseFrame], *, title: str = "Glimpses"
) -> list[Image.Image]:
    """Return a Pillow image for each glimpse, with the path so far, what was seen, and the answers.

    >>> frame = GlimpseFrame([(2, 2, 4)], np.zeros((1, 4, 4, 1)), [("seven", 0.9)])
    >>> len(glimpse_animation(np.zeros((8, 8)), [frame, frame]))
    2
    """
    pixels = as_pixels(picture)
    _check(frames)
    eye = _Eye(pixels, frames)
    side = max(2, round(VIEW_SIDE / frames[0].views.shape[1])) * frames[0].views.shape[1]
    scales = len(frames[0].squares)
    right = max(side, BARS + 110)
    height = max(eye.height, scales * (side + GAP) + _answers_height(frames))
    size = (eye.width + right + 3 * GAP, height + LINE + 3 * GAP)
    font = _font([title, *_labels(frames)])
    drawn = []
    for number, frame in enumerate(frames):
        image, draw = _new(size)
        text = f"{title}: glimpse {number + 1} of {len(frames)}"
        draw.text((GAP, GAP), _shortened(text, draw, font, size[0] - 2 * GAP), fill="#222", font=font)
        image.paste(eye.drawn(number), (GAP, LINE + 2 * GAP))
        left, top = eye.width + 2 * GAP, LINE + 2 * GAP
        _views(image, draw, frame, left, top, side)
        _answers(draw, frame, left, top + scales * (side + GAP), font)
        drawn.append(image)
    return drawn


def glimpse_strip(picture: Any, frames: Sequence[GlimpseFrame], *, title: str = "Glimpses") -> Image.Image:
    """Return one Pillow image with the whole path, and beside it what each glimpse showed and the answer after it."""
    pixels = as_pixels(picture)
    _check(frames)
    eye = _Eye(pixels, frames)
    side = max(2, round(VIEW_SIDE / frames[0].views.shape[1])) * frames[0].views.shape[1]
    column = side + GAP + 6
    scales = len(frames[0].squares)
    height = max(eye.height, scales * (side + GAP) + 3 * LINE)
    size = (eye.width + GAP + len(frames) * column + 2 * GAP, height + LINE + 3 * GAP)
    font = _font([title, *_labels(frames)])
    image, draw = _new(size)
    draw.text((GAP, GAP), _shortened(title, draw, font, size[0] - 2 * GAP), fill="#222", font=font)
    top = LINE + 2 * GAP
    image.paste(eye.drawn(len(frames) - 1, all_squares=True), (GAP, top))
    for number, frame in enumerate(frames):
        left = eye.width + 2 * GAP + number * column
        draw.text((left, top), f"{number + 1}", fill="#666", font=font)
        _views(image, draw, frame, left, top + LINE, side)
        label, share = frame.answers[0]
        below = top + LINE + scales * (side + GAP)
        draw.text((left, below), _shortened(label, draw, font, side), fill="#222", font=font)
        draw.text((left, below + LINE - 2), f"{100 * share:.0f} %", fill="#666", font=font)
    return image


def as_pixels(picture: Any) -> np.ndarray:
    """Return a picture as bytes ``(h,w,3)``."""
    x = np.asarray(picture.detach().cpu() if hasattr(picture, "detach") else picture)
    if x.ndim == 2:
        x = x[..., None]
    if x.ndim != 3 or x.shape[2] not in (1, 3) or 0 in x.shape:
        raise ShapeError("picture", f"expected (h,w), (h,w,1) or (h,w,3), got {np.shape(picture)}")
    if np.issubdtype(x.dtype, np.floating):
        if not np.isfinite(x).all() or x.min() < 0 or x.max() > 1:
            raise ArgumentError("picture", "expected numbers from 0 to 1, or bytes")
        x = np.rint(x * 255)
    return np.broadcast_to(x, (*x.shape[:2], 3)).astype(np.uint8)


def overhang(shape: tuple[int, ...], frames: Sequence[GlimpseFrame]) -> int:
    """Return by how many pixels the squares reach out of the picture at most, up to half of its longer side."""
    rows, columns = shape[:2]
    most = 0
    for frame in frames:
        for top, left, side in frame.squares:
            most = max(most, -top, -left, top + side - rows, left + side - columns)
    return min(most, max(rows, columns) // 2)


def _check(frames: Sequence[GlimpseFrame]) -> None:
    if not frames:
        raise ArgumentError("frames", "expected one glimpse or more, got none")


class _Eye:
    """Draws the picture with the path of the eye up to a glimpse."""

    def __init__(self, pixels: np.ndarray, frames: Sequence[GlimpseFrame]):
        self.frames = frames
        self.scale = max(1, round(PICTURE_SIDE / max(pixels.shape[:2])))
        self.margin = overhang(pixels.shape, frames) + 1
        rows, columns = pixels.shape[:2]
        self.height = (rows + 2 * self.margin) * self.scale
        self.width = (columns + 2 * self.margin) * self.scale
        enlarged = pixels.repeat(self.scale, axis=0).repeat(self.scale, axis=1)
        self.background = _pillow().new("RGB", (self.width, self.height), OUTSIDE)
        self.background.paste(_pillow().fromarray(enlarged), (self.margin * self.scale,) * 2)

    def drawn(self, number: int, *, all_squares: bool = False) -> Image.Image:
        """Return the picture with the path up to a glimpse and its squares, or the finest squares of all."""
        from PIL import ImageDraw

        image = self.background.copy()
        draw = ImageDraw.Draw(image)
        for past in range(number if all_squares else 0):
            self._square(draw, self.frames[past].squares[0], COLORS[0], 1)
        squares = list(enumerate(self.frames[number].squares))[: 1 if all_squares else None]
        for scale, square in reversed(squares):
            self._square(draw, square, COLORS[scale % len(COLORS)], 2)
        points = [self._at(*frame.centre) for frame in self.frames[: number + 1]]
        if len(points) > 1:
            draw.line(points, fill="#000000", width=4, joint="curve")
            draw.line(points, fill="#ffd84d", width=2, joint="curve")
        for place, (x, y) in enumerate(points):
            radius = 5 if place == number else 3
            box = (x - radius, y - radius, x + radius, y + radius)
            draw.ellipse(box, fill="#ff3355" if place == number else "#ffd84d", outline="#000000")
        return image

    def _at(self, row: float, column: float) -> tuple[float, float]:
        """Return the x and y of a place of the picture."""
        return (column + self.margin) * self.scale, (row + self.margin) * self.scale

    def _square(self, draw: ImageDraw.ImageDraw, square: tuple[int, int, int], color: str, wide: int) -> None:
        top, left, side = square
        x, y = self._at(top, left)
        draw.rectangle(
            (x, y, x + side * self.scale - 1, y + side * self.scale - 1), outline=color, width=wide
        )


def _views(
    image: Image.Image, draw: ImageDraw.ImageDraw, frame: GlimpseFrame, left: int, top: int, side: int
) -> None:
    """Draw what each scale shows, below one another, in frames of the colours of the scales."""
    for scale, view in enumerate(frame.views):
        shown = _pillow().fromarray(as_pixels(view)).resize((side, side), _pillow().Resampling.NEAREST)
        y = top + scale * (side + GAP)
        image.paste(shown, (left, y))
        box = (left - 2, y - 2, left + side + 1, y + side + 1)
        draw.rectangle(box, outline=COLORS[scale % len(COLORS)], width=2)


def _answers_height(frames: Sequence[GlimpseFrame]) -> int:
    return LINE * max(len(frame.answers) for frame in frames)


def _answers(draw: ImageDraw.ImageDraw, frame: GlimpseFrame, left: int, top: int, font: Any) -> None:
    """Draw the labels with bars of their probabilities."""
    for place, (label, share) in enumerate(frame.answers):
        y = top + place * LINE
        draw.text((left, y), _shortened(label, draw, font, 62), fill="#222", font=font)
        length = round(share * (BARS - 20))
        draw.rectangle((left + 66, y + 3, left + 66 + length, y + LINE - 6), fill="#3377cc")
        draw.text((left + 70 + BARS - 20, y), f"{100 * share:.0f} %", fill="#666", font=font)


def _labels(frames: Sequence[GlimpseFrame]) -> list[str]:
    return [label for frame in frames for label, _ in frame.answers]


def _shortened(text: str, draw: ImageDraw.ImageDraw, font: Any, width: float) -> str:
    """Return a text that is cut with an ellipsis where it is wider than ``width``."""
    # No letter of the font is narrower than a pixel.
    most = columns_of(text := shortened(text, int(width)))
    while most and draw.textlength(text, font=font) > width:
        most -= 1
        text = shortened(text, most)
    return text


def _new(size: tuple[int, int]) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    from PIL import ImageDraw

    image = _pillow().new("RGB", size, "#ffffff")
    return image, ImageDraw.Draw(image)


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError("Pillow", "images", "drawing glimpses") from error
    return Image


def _font(texts: Sequence[str]) -> Any:
    """Return the font of Pillow, or an installed one if the texts have characters beyond Latin, such as Chinese.

    The other fonts are found by matplotlib. Characters that no font has become boxes, with a warning.
    """
    from PIL import ImageFont

    if any(ord(sign) > 0x2FF for text in texts for sign in text):
        try:
            from matplotlib import font_manager

            from regard._fonts import families_for

            families = families_for(texts)
            wanted = font_manager.FontProperties(family=families[-1:] if families else None)
            return ImageFont.truetype(font_manager.findfont(wanted), 14)
        except (ImportError, OSError):  # without matplotlib, or with a font that Pillow cannot read
            message = "the labels are drawn without their characters beyond Latin, which need matplotlib"
            warnings.warn(f"{message}: {install_command('plot')}", stacklevel=2)
    return ImageFont.load_default(14)
